"""How long Python's onnx package takes to load and to check a forward graph as large as that of Llama 3.1 405B.

    python bench/models/load.py

Writes llama_405b.onnx in the current folder: 126 layers of opset 23's operators (RMSNormalization, RotaryEmbedding, Attention), the
weights being inputs, so that the file holds no values.
"""
import time

import onnx
from onnx import TensorProto, helper

LAYERS, HIDDEN, HEADS, KEY_HEADS, INNER, WORDS, STEPS = 126, 16384, 128, 8, 53248, 128256, 8192
SIZE = HIDDEN // HEADS
nodes, inputs, initializers = [], [], []


def given(name, *shape, kind=TensorProto.FLOAT):
    inputs.append(helper.make_tensor_value_info(name, kind, shape))
    return name


def shape(name, *values):
    initializers.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
    return name


def op(kind, operands, name, **attributes):
    nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
    return name


split = {count: shape(f"heads{count}", 1, STEPS, count, SIZE) for count in (HEADS, KEY_HEADS)}
merged = shape("merged", 1, STEPS, HIDDEN)
tables = given("cosines", STEPS, SIZE // 2), given("sines", STEPS, SIZE // 2)
positions = given("positions", 1, STEPS, kind=TensorProto.INT64)
x = op("Gather", [given("embed", WORDS, HIDDEN), given("input_ids", 1, STEPS, kind=TensorProto.INT64)], "embedding")
for i in range(LAYERS):
    p = f"layers.{i}."
    z = op("RMSNormalization", [x, given(p + "norm1.weight", HIDDEN)], p + "norm1", epsilon=1e-5)

    def heads(part, count):
        y = op("MatMul", [z, given(p + part + ".weight", HIDDEN, count * SIZE)], p + part)
        return op("Transpose", [op("Reshape", [y, split[count]], p + part + ".heads")], p + part + ".transpose", perm=[0, 2, 1, 3])

    q = op("RotaryEmbedding", [heads("q", HEADS), *tables, positions], p + "q.rotary")
    k = op("RotaryEmbedding", [heads("k", KEY_HEADS), *tables, positions], p + "k.rotary")
    a = op("Attention", [q, k, heads("v", KEY_HEADS)], p + "attention", is_causal=1)
    a = op("Reshape", [op("Transpose", [a], p + "attention.transpose", perm=[0, 2, 1, 3]), merged], p + "attention.merge")
    x = op("Add", [x, op("MatMul", [a, given(p + "o.weight", HIDDEN, HIDDEN)], p + "o")], p + "add1")
    z = op("RMSNormalization", [x, given(p + "norm2.weight", HIDDEN)], p + "norm2", epsilon=1e-5)
    gate = op("MatMul", [z, given(p + "gate.weight", HIDDEN, INNER)], p + "gate")
    gate = op("Mul", [gate, op("Sigmoid", [gate], p + "sigmoid")], p + "silu")
    y = op("Mul", [gate, op("MatMul", [z, given(p + "up.weight", HIDDEN, INNER)], p + "up")], p + "gated")
    x = op("Add", [x, op("MatMul", [y, given(p + "down.weight", INNER, HIDDEN)], p + "down")], p + "add2")
x = op("RMSNormalization", [x, given("norm.weight", HIDDEN)], "norm", epsilon=1e-5)
op("MatMul", [x, given("head.weight", HIDDEN, WORDS)], "logits")
output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, STEPS, WORDS])
graph = helper.make_graph(nodes, "llama", inputs, [output], initializers)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), "llama_405b.onnx")

best = [1e9, 1e9]
for _ in range(5):
    start = time.perf_counter()
    model = onnx.load("llama_405b.onnx")
    loaded = time.perf_counter()
    onnx.checker.check_model(model, full_check=True)
    best = [min(best[0], loaded - start), min(best[1], time.perf_counter() - loaded)]
print(f"{len(model.graph.node)} nodes: loaded in {best[0]:.3f} s, checked with shape inference in {best[1]:.3f} s")

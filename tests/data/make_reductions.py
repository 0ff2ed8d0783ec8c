"""Writes reductions.json: reductions with few or no elements to reduce, and what they give.

    pip install -r tests/data/requirements.txt
    python tests/data/make_reductions.py

Expected is what ONNX's reference evaluator computes. Where that refuses what ONNX Runtime (1.32.0) takes, it is ONNX Runtime's answer:
a scalar reduced along axis 0 or -1, as PyTorch has it, LogSumExp of a scalar, and LogSum of integers. Both agree in all else but one:
the mean of no elements is NaN by the evaluator (and by PyTorch), and 0 by ONNX Runtime; here it is NaN.
"""
import itertools
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper as h
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

OPERATORS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp".split()
SHAPES = [(), (1,), (2, 3), (2, 1, 3), (0,), (2, 0, 3)]
random = np.random.default_rng(1)
warnings.filterwarnings("ignore")


def model_of(case, x):
    attributes = {k: case[k] for k in ["axis", "select_last_index", "keepdims", "noop_with_empty_axes"] if k in case}
    node = h.make_node(case["op"], ["x"], ["y"], **attributes)
    initializers = []
    if case.get("axes") is not None and case["form"] == "attribute":
        node.attribute.append(h.make_attribute("axes", case["axes"], attr_type=onnx.AttributeProto.INTS))
    elif case.get("axes") is not None:
        node.input.append("axes")
        initializers.append(numpy_helper.from_array(np.array(case["axes"], np.int64), "axes"))
    element = h.np_dtype_to_tensor_dtype(x.dtype)
    result = onnx.TensorProto.INT64 if case["op"].startswith("Arg") else element
    inputs, outputs = [h.make_tensor_value_info("x", element, x.shape)], [h.make_tensor_value_info("y", result, None)]
    graph = h.make_graph([node], "reduction", inputs, outputs, initializers)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", case["opset"])], ir_version=8)


def evaluated(model, x):
    try:
        return np.array(ReferenceEvaluator(model).run(None, {"x": x})[0])
    except Exception:
        return None


def run(model, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    except Exception:
        return None


def values_of(shape, op, integers):
    x = random.uniform(0.5, 2, size=shape) if op == "ReduceLogSum" else random.normal(size=shape)
    return np.array(np.round(3 * x)).astype(np.int32) if integers else np.array(np.round(x, 2)).astype(np.float32)


def same(a, b):
    return a.shape == b.shape and np.allclose(a.astype(float), b.astype(float), rtol=1e-5, atol=1e-6, equal_nan=True)


def plain(array):
    """Numbers of an array, those that JSON lacks as text."""
    return [int(v) if array.dtype.kind in "iu" else round(float(v), 7) if np.isfinite(v) else str(v) for v in array.ravel()]


def cases():
    for op in OPERATORS:
        since = 13 if op == "ReduceSum" else 18
        for shape, axes, keepdims in itertools.product(SHAPES, [None, [], [0], [-1], [0, -1]], [0, 1]):
            if axes is not None and len(axes) > len(shape) and axes not in ([0], [-1]):
                continue
            if axes == [0, -1] and len(shape) < 2:
                continue
            case = {"op": op, "axes": axes, "keepdims": keepdims, "shape": shape}
            yield case | {"form": "attribute", "opset": 7 if keepdims else since - 1}
            for opset in [since, 24] if axes in (None, []) else [since]:
                yield case | {"form": "operand", "opset": opset, "noop_with_empty_axes": 0}
            if axes in (None, [], [0]):
                yield case | {"form": "operand", "opset": since + keepdims, "noop_with_empty_axes": 1}
            if op not in ("ReduceMean", "ReduceLogSumExp") and 0 not in shape:
                yield case | {"form": "operand", "opset": since, "integers": 1}
    for op, shape, axis, keepdims, last in itertools.product(["ArgMax", "ArgMin"], SHAPES[1:4], [None, 0, -1], [0, 1], [None, 0, 1]):
        case = {"op": op, "shape": shape, "keepdims": keepdims, "opset": 7 if last is None else 13 - keepdims}
        yield case | ({} if axis is None else {"axis": axis}) | ({} if last is None else {"select_last_index": last})


def main():
    table, disagree = [], {}
    for case in cases():
        x = values_of(case["shape"], case["op"], "integers" in case or case["op"].startswith("Arg"))
        model = model_of(case, x)
        evaluator, runtime = evaluated(model, x), run(model, x)
        expected = runtime if evaluator is None else evaluator
        if expected is None:
            disagree.setdefault(("both refuse", case["op"], case["form"], str(case["shape"]), str(case.get("axes"))), 0)
            continue
        if evaluator is None or runtime is None or not same(evaluator, runtime):
            who = "evaluator refuses" if evaluator is None else "runtime refuses" if runtime is None else "they differ"
            disagree[(who, case["op"], "integers" in case, str(case["shape"]), str(case.get("axes")))] = case["opset"]
        table.append(case | {"x": plain(x), "y_shape": expected.shape, "y": plain(expected)})
    for key in sorted(disagree):
        print(*key)
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in table)
    (Path(__file__).resolve().parent / "reductions.json").write_text(f"[\n{text}\n]\n")
    print(len(table), "cases")


if __name__ == "__main__":
    main()

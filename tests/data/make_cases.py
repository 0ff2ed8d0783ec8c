"""Writes cases/NAME/{model.onnx,in.npz,ref.npz} of small models of our own; ref.npz is what the ONNX reference evaluator computes.

    pip install -r tests/data/requirements.txt
    python tests/data/make_cases.py
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

CASES = Path(__file__).resolve().parent / "cases"
TYPES = {"int8": T.INT8, "uint8": T.UINT8, "int16": T.INT16, "uint16": T.UINT16, "int32": T.INT32, "uint32": T.UINT32, "int64": T.INT64}


def save(name, nodes, inputs, outputs, initializers, opset=18, values=None):
    def model(shapes):
        graph = h.make_graph(
            nodes,
            name,
            [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()],
            [h.make_tensor_value_info(k, t, shapes.get(k)) for k, t in outputs.items()],
            [numpy_helper.from_array(v, k) for k, v in initializers.items()],
        )
        return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10)

    if values is None:
        values = ReferenceEvaluator(model({})).run(None, inputs)
    results = {k: np.array(v, order="C") for k, v in zip(outputs, values)}
    whole = model({k: v.shape for k, v in results.items()})
    onnx.checker.check_model(whole)
    folder = CASES / name
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(whole, folder / "model.onnx")
    np.savez(folder / "in.npz", **inputs)
    np.savez(folder / "ref.npz", **results)


def computed_places():
    """Numbers of places that are computed, some of them below 0: i - 3 of 0 <= i < 6."""
    random = np.random.default_rng(1)
    inputs = {"i": np.array([[0, 5, 2], [4, 1, 3]], np.int64), "x": random.normal(size=(2, 6)).astype(np.float32)}
    weights = {
        "w": random.normal(size=(4, 3)).astype(np.float32),
        "z": random.normal(size=(3, 4, 2)).astype(np.float32),
        "three": np.array(3, np.int64),
        "pair": np.array([1], np.int64),
    }
    nodes = [
        h.make_node("Sub", ["i", "three"], ["j"]),
        h.make_node("Gather", ["w", "j"], ["rows"]),
        h.make_node("GatherElements", ["x", "j"], ["elements"], axis=1),
        h.make_node("Unsqueeze", ["j", "pair"], ["apart"]),
        h.make_node("Transpose", ["apart"], ["tuples"], perm=[0, 2, 1]),
        h.make_node("Concat", ["tuples", "tuples"], ["pairs"], axis=2),
        h.make_node("GatherND", ["z", "pairs"], ["points"]),
        h.make_node("ScatterElements", ["x", "j", "elements"], ["scattered"], axis=1),
        h.make_node("ScatterND", ["z", "pairs", "points"], ["written"]),
        h.make_node("ScatterND", ["z", "pairs", "points"], ["added"], reduction="add"),
    ]
    outputs = {k: T.FLOAT for k in ["rows", "elements", "points", "scattered", "written", "added"]}
    save("computed_places", nodes, inputs, outputs, weights)


def integers():
    """Arithmetic in every integer type that int64 holds, with results beyond it; each result as a float, times a parameter."""
    random = np.random.default_rng(2)
    nodes, inputs, outputs, constants = [], {}, {}, {"one": np.ones((6,), np.float32)}
    inputs["f"] = (300 * random.normal(size=6)).astype(np.float32)
    inputs["wide"] = random.integers(-(2**40), 2**40, size=6)

    def out(value, name):
        nodes.append(h.make_node("Cast", [value], [name + ".f"], to=T.FLOAT))
        nodes.append(h.make_node("Mul", [name + ".f", "one"], [name]))
        outputs[name] = T.FLOAT

    for t, number in TYPES.items():
        info = np.iinfo(t)
        a = random.integers(info.min, info.max, size=6, dtype=t, endpoint=True)
        b = random.integers(max(info.min, -(2**30)), min(info.max, 2**30), size=6, dtype=t, endpoint=True)
        b[b == 0] = 3
        inputs[f"{t}.a"], inputs[f"{t}.b"] = a, b
        constants[f"{t}.c"] = np.array([100], t)
        for op in ["Add", "Sub", "Mul", "Max", "Min"]:
            nodes.append(h.make_node(op, [f"{t}.a", f"{t}.b"], [f"{t}.{op}.r"]))
            out(f"{t}.{op}.r", f"{t}.{op}")
        nodes.append(h.make_node("Div", [f"{t}.a", f"{t}.b"], [f"{t}.Div.r"]))
        if t != "int64":  # the evaluator divides in floating point
            out(f"{t}.Div.r", f"{t}.Div")
        for fmod in [0, 1]:
            nodes.append(h.make_node("Mod", [f"{t}.a", f"{t}.b"], [f"{t}.Mod{fmod}.r"], fmod=fmod))
            out(f"{t}.Mod{fmod}.r", f"{t}.Mod{fmod}")
        constants[f"{t}.three"] = np.array(3, t)
        nodes.append(h.make_node("Pow", [f"{t}.a", f"{t}.three"], [f"{t}.Pow.r"]))
        out(f"{t}.Pow.r", f"{t}.Pow")
        for op in ["BitwiseAnd", "BitwiseOr", "BitwiseXor"]:
            nodes.append(h.make_node(op, [f"{t}.a", f"{t}.b"], [f"{t}.{op}.r"]))
            out(f"{t}.{op}.r", f"{t}.{op}")
        nodes.append(h.make_node("BitwiseNot", [f"{t}.a"], [f"{t}.BitwiseNot.r"]))
        out(f"{t}.BitwiseNot.r", f"{t}.BitwiseNot")
        if not info.min:
            for direction in ["LEFT", "RIGHT"]:
                nodes.append(h.make_node("BitShift", [f"{t}.a", f"{t}.three"], [f"{t}.{direction}.r"], direction=direction))
                out(f"{t}.{direction}.r", f"{t}.{direction}")
        nodes.append(h.make_node("Mul", [f"{t}.b", f"{t}.c"], [f"{t}.scaled"]))
        nodes.append(h.make_node("Less", [f"{t}.scaled", f"{t}.b"], [f"{t}.Less.r"]))
        out(f"{t}.Less.r", f"{t}.Less")
        for wide in ["f", "wide"]:
            if wide == "wide" or info.bits < 32:
                nodes.append(h.make_node("Cast", [wide], [f"{t}.Cast.{wide}.r"], to=number))
                out(f"{t}.Cast.{wide}.r", f"{t}.Cast.{wide}")
    for t in ["int32", "int64"]:
        axes = f"{t}.axes"
        constants[axes], constants[f"{t}.axis"] = np.array([0], np.int64), np.array(0, np.int64)
        nodes.append(h.make_node("ReduceSum", [f"{t}.a", axes], [f"{t}.ReduceSum.r"], keepdims=1))
        out(f"{t}.ReduceSum.r", f"{t}.ReduceSum")
        nodes.append(h.make_node("CumSum", [f"{t}.a", f"{t}.axis"], [f"{t}.CumSum.r"]))
        out(f"{t}.CumSum.r", f"{t}.CumSum")
        nodes.append(h.make_node("Neg", [f"{t}.a"], [f"{t}.Neg.r"]))
        out(f"{t}.Neg.r", f"{t}.Neg")
    save("integers", nodes, inputs, outputs, constants)


def least_integers():
    """Whole quotients and remainders at the ends of int64, in Python's integers: the evaluator's are of floating point."""
    least, most = -(2**63), 2**63 - 1
    a = [least, least, least, least, most, most, 7, -7, 0, least + 1, -8, 8]
    b = [2, 3, least, most, least, -1, least, least, least, -1, 3, -3]

    def quotient(x, y):
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    results = {
        "quotient": [quotient(x, y) for x, y in zip(a, b)],
        "rest": [x - y * quotient(x, y) for x, y in zip(a, b)],
        "modulo": [x % y for x, y in zip(a, b)],
    }
    nodes = [
        h.make_node("Div", ["a", "b"], ["quotient"]),
        h.make_node("Mod", ["a", "b"], ["rest"], fmod=1),
        h.make_node("Mod", ["a", "b"], ["modulo"]),
    ]
    inputs = {"a": np.array(a, np.int64), "b": np.array(b, np.int64)}
    save("least_integers", nodes, inputs, dict.fromkeys(results, T.INT64), {}, values=[np.array(v, np.int64) for v in results.values()])


def left_out():
    """Results and operands that are left out have one name, the empty one."""
    random = np.random.default_rng(3)
    inputs = {k: random.normal(size=(2, 4, 6)).astype(np.float32) for k in "qkv"}
    attention = h.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=2, kv_num_heads=2)
    graph = h.make_graph(
        [attention],
        "attention",
        [h.make_tensor_value_info(k, T.FLOAT, v.shape) for k, v in inputs.items()],
        [h.make_tensor_value_info("y", T.FLOAT, None)],
    )
    alone = h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10)
    values = [np.minimum(ReferenceEvaluator(alone).run(None, inputs)[0], np.float32(0.25))]  # which gives all that is left out one value
    attention.output.extend(["", "", ""])
    clip = h.make_node("Clip", ["y", "", "high"], ["z"])
    save("left_out", [attention, clip], inputs, {"z": T.FLOAT}, {"high": np.array(0.25, np.float32)}, opset=23, values=values)


def other_outputs():
    """Outputs that no node makes: an input, a weight, a constant; and one value under two names, the second of them first."""
    random = np.random.default_rng(4)
    inputs = {"x": random.normal(size=(4, 3)).astype(np.float32)}
    weights = {"m.w": random.normal(size=(3, 5)).astype(np.float32), "places": np.array([3, 1], np.int64)}
    nodes = [
        h.make_node("MatMul", ["x", "m.w"], ["y"]),
        h.make_node("Identity", ["y"], ["again"]),
        h.make_node("Identity", ["x"], ["copy"]),
        h.make_node("Constant", [], ["number"], value_float=2.5),
    ]
    outputs = {"again": T.FLOAT, "y": T.FLOAT, "copy": T.FLOAT, "x": T.FLOAT, "m.w": T.FLOAT, "places": T.INT64, "number": T.FLOAT}
    save("other_outputs", nodes, inputs, outputs, weights)


def batch_norm_twice():
    """A batch norm that is called twice."""
    random = np.random.default_rng(5)
    inputs = {"x": random.normal(size=(4, 3, 2)).astype(np.float32)}
    norm = {"n.weight": 1 + random.random(3), "n.bias": random.normal(size=3), "n.running_mean": random.normal(size=3), "n.running_var": 1 + random.random(3)}
    nodes = [
        h.make_node("BatchNormalization", ["x", *norm], ["first"], epsilon=1e-3),
        h.make_node("Tanh", ["first"], ["between"]),
        h.make_node("BatchNormalization", ["between", *norm], ["y"], epsilon=1e-5),
    ]
    save("batch_norm_twice", nodes, inputs, {"y": T.FLOAT}, {k: v.astype(np.float32) for k, v in norm.items()})


def resize_by_scales():
    """Nearest places by scales that no float is: x[i] of i = 0, 1, .. As PyTorch has them, floor(i / scale) in exact arithmetic."""
    nodes, results = [], {}
    inputs = {"x": np.arange(30, dtype=np.float32).reshape(1, 1, 30)}
    constants = {}
    for name, part, scale, places in [("fifths", 10, 0.4, [0, 2, 5, 7]), ("thirds", 9, 1 / 3, [0, 3, 6]), ("elevenths", 30, 1.1, [i * 10 // 11 for i in range(33)])]:
        constants[f"{name}.ends"], constants[f"{name}.scales"] = np.array([part], np.int64), np.array([1, 1, scale], np.float32)
        nodes.append(h.make_node("Slice", ["x", "zero", f"{name}.ends", "two"], [f"{name}.x"]))
        nodes.append(h.make_node("Resize", [f"{name}.x", "", f"{name}.scales"], [name], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"))
        results[name] = np.array(places, np.float32).reshape(1, 1, -1)
    constants |= {"zero": np.array([0], np.int64), "two": np.array([2], np.int64)}
    save("resize_by_scales", nodes, inputs, dict.fromkeys(results, T.FLOAT), constants, values=list(results.values()))


def over_nothing():
    """Reductions and products over an extent of 0, whose values other operations go on with; -inf and NaN are left out."""
    random = np.random.default_rng(6)
    inputs = {"x": random.normal(size=(4, 6)).astype(np.float32)}
    weights = {
        "p": random.normal(size=6).astype(np.float32),
        "w": np.zeros((0, 6), np.float32),
        "two": np.array([2], np.int64),
        "one": np.array([1], np.int64),
        "zero": np.array([0], np.int64),
    }
    nodes = [
        h.make_node("Mul", ["x", "p"], ["m"]),
        h.make_node("Slice", ["m", "two", "two", "one"], ["columns"]),
        h.make_node("Slice", ["m", "two", "two", "zero"], ["rows"]),
        h.make_node("MatMul", ["columns", "w"], ["product"]),
        h.make_node("Concat", ["columns", "m", "columns"], ["joined"], axis=1),
    ]
    terms = ["m", "product", "joined"]
    for part in ("columns", "rows"):
        for op in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare"):
            terms.append(f"{op}.{part}")
            nodes.append(h.make_node(op, [part], [terms[-1]], keepdims=0))
    for op, axis, part in (("ReduceSum", "one", "columns"), ("ReduceProd", "zero", "rows")):
        terms.append(f"{op}.{part}.{axis}")
        nodes.append(h.make_node(op, [part, axis], [terms[-1]], keepdims=1))
    nodes.append(h.make_node("Sum", terms, ["y"]))
    save("over_nothing", nodes, inputs, {"y": T.FLOAT}, weights)


if __name__ == "__main__":
    computed_places()
    integers()
    least_integers()
    left_out()
    other_outputs()
    batch_norm_twice()
    resize_by_scales()
    over_nothing()

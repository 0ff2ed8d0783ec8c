"""Writes onnx_operators.txt, the names of all operators of ONNX's own domain, and operator_nodes.npz, a case for each that has an operation
here and none in onnx_nodes.npz (make_nodes.py): those that changed after opset 24, and those of sequences.

    pip install -r tests/data/requirements.txt
    python tests/data/make_operators.py

"OPERATOR/model" has the bytes of the model, "OPERATOR/in/NAME" an operand.
"""
from pathlib import Path

import numpy as np
from onnx import TensorProto as T
from onnx import defs, helper

NEWEST = 24  # opset
X, I = np.zeros((4, 6), np.float32), np.zeros((4, 6), np.int64)


def ints(*values):
    return np.array(values, np.int64)


# By operator: operands, attributes; or nodes in place of the one: (operator, operands, results, attributes).
CASES = {
    "BitShift": ([np.zeros((4, 6), np.uint8)] * 2, dict(direction="LEFT")),
    "Cast": ([X], dict(to=T.INT64)),
    "CastLike": ([X, I], {}),
    "Celu": ([X], {}),
    "Constant": ([], dict(value_ints=[1, 2])),
    "ConstantOfShape": ([ints(4, 6)], {}),
    "DepthToSpace": ([np.zeros((2, 8, 4, 6), np.float32)], dict(blocksize=2)),
    "Einsum": ([X, np.zeros((6, 8), np.float32)], dict(equation="ik,kj->ij")),
    "Erf": ([X], {}),
    "Flatten": ([np.zeros((4, 2, 6), np.float32)], {}),
    "Identity": ([X], {}),
    "Mish": ([X], {}),
    "Mod": ([I, I + 1], {}),
    "Not": ([X > 0], {}),
    "OneHot": ([I, ints(8), np.array([0, 1], np.float32)], {}),
    "Pad": ([X, ints(0, 1, 0, 1)], {}),
    "Range": ([ints(0).reshape(()), ints(8).reshape(()), ints(1).reshape(())], {}),
    "ReduceLogSum": ([X + 1, ints(1)], {}),
    "ReduceLogSumExp": ([X, ints(1)], {}),
    "Reshape": ([X, ints(4, 2, 3)], {}),
    "Shape": ([X], {}),
    "Size": ([X], {}),
    "SpaceToDepth": ([np.zeros((2, 2, 4, 8), np.float32)], dict(blocksize=2)),
    "Squeeze": ([np.zeros((4, 1, 6), np.float32), ints(1)], {}),
    "Transpose": ([X], {}),
    "Unsqueeze": ([X, ints(1)], {}),
}
SPLIT = ("SplitToSequence", ["x0"], ["s"], dict(axis=1, keepdims=1))
AT = ("SequenceAt", ["s", "one"], ["y"], {})
ONE = ("Constant", [], ["one"], dict(value_int=1))
SEQUENCES = {
    "SplitToSequence": [SPLIT, ONE, AT],
    "SequenceAt": [SPLIT, ONE, AT],
    "SequenceConstruct": [("SequenceConstruct", ["x0", "x0"], ["s"], {}), ONE, AT],
    "ConcatFromSequence": [SPLIT, ("ConcatFromSequence", ["s"], ["y"], dict(axis=1))],
    "SequenceLength": [SPLIT, ("SequenceLength", ["s"], ["n"], {}), ("Cast", ["n"], ["f"], dict(to=T.FLOAT)), ("Add", ["x0", "f"], ["y"], {})],
}


def model_of(operands, nodes):
    inputs = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for i, a in enumerate(operands)]
    graph = helper.make_graph([helper.make_node(o, i, r, **a) for o, i, r, a in nodes], "case", inputs, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST)], ir_version=10)


def main():
    folder = Path(__file__).resolve().parent
    names = sorted({s.name for s in defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= NEWEST})
    (folder / "onnx_operators.txt").write_text(f"# The operators of ONNX's own domain up to opset {NEWEST}.\n" + "\n".join(names) + "\n")
    arrays = {}
    cases = {name: (operands, [(name, [f"x{i}" for i in range(len(operands))], ["y"], attributes)]) for name, (operands, attributes) in CASES.items()}
    cases.update({name: ([X], nodes) for name, nodes in SEQUENCES.items()})
    for name, (operands, nodes) in sorted(cases.items()):
        arrays[f"{name}/model"] = np.frombuffer(model_of(operands, nodes).SerializeToString(), dtype=np.uint8)
        for i, array in enumerate(operands):
            arrays[f"{name}/in/x{i}"] = np.asarray(array)
    np.savez_compressed(folder / "operator_nodes.npz", **arrays)


if __name__ == "__main__":
    main()

"""Writes onnx_nodes.npz: the test cases of ONNX's own standard (onnx.backend.test) for single operators, with tensors only.

    pip install -r tests/data/requirements.txt
    python tests/data/make_nodes.py

For each CASE: "CASE/model", the bytes of the model; "CASE/in/NAME" and "CASE/out/NAME", its operands and results. Left out are cases
with sequences, strings or types that have no name here, loops, random numbers, large ones, and operators that no one imports
(quantization, image cropping, text, signal processing, training gradients).
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx.backend.test.case.node import collect_testcases

KNOWN = {T.FLOAT, T.DOUBLE, T.INT64, T.INT32, T.BOOL, T.INT8, T.INT16, T.UINT8, T.UINT16, T.UINT32}
LARGEST = 1500  # elements of all tensors of a case
OPERATORS = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu Clip
Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor Gather
GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization GRU HardSigmoid HardSwish
Hardmax Identity If InstanceNormalization IsInf IsNaN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max
MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg NonZero Not OneHot Or PRelu Pad Pow RMSNormalization RNN Range Reciprocal
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
RotaryEmbedding Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth
Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
""".split()


def wanted(case):
    model = case.model
    if any(o.domain == "" and o.version > 24 for o in model.opset_import) or case.name.endswith("_expanded") or "_expanded_" in case.name:
        return False
    if len(model.graph.node) != 1 or model.graph.node[0].op_type not in OPERATORS or model.graph.node[0].domain:
        return False
    for value in [*model.graph.input, *model.graph.output]:
        if not value.type.HasField("tensor_type") or value.type.tensor_type.elem_type not in KNOWN:
            return False
    inputs, outputs = case.data_sets[0]
    return len(case.data_sets) == 1 and sum(np.asarray(a).size for a in [*inputs, *outputs]) <= LARGEST


def main():
    arrays = {}
    for case in sorted(collect_testcases(""), key=lambda c: c.name):
        if not wanted(case):
            continue
        inputs, outputs = case.data_sets[0]
        arrays[f"{case.name}/model"] = np.frombuffer(case.model.SerializeToString(), dtype=np.uint8)
        for value, array in zip(case.model.graph.input, inputs):
            arrays[f"{case.name}/in/{value.name}"] = np.asarray(array).copy(order="C")
        for value, array in zip(case.model.graph.output, outputs):
            arrays[f"{case.name}/out/{value.name}"] = np.asarray(array).copy(order="C")
    np.savez_compressed(Path(__file__).resolve().parent / "onnx_nodes.npz", **arrays)


if __name__ == "__main__":
    main()

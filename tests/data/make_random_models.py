"""Writes random small models as ONNX files, with inputs and what the reference evaluator of the onnx package makes of them in float64.

    pip install -r tests/data/requirements.txt
    python tests/data/make_random_models.py --seed 1 --count 60 --out tests/data/random_models.npz
    python tests/data/make_random_models.py --seed 1 --only 17 --folder DIR      # model 17 of the same: DIR/17.onnx, DIR/17.npz

Model i of a seed is the same whatever the count. Files are in float32; extents are odd or 1, 2 or 7, weights are shared, some outputs do not
begin with the batch, some models have no input or no batch at all. For each: "i/model", the bytes of the file; "i/in/NAME" and
"i/out/NAME". Operators are those that Partita converts (`OPERATORS`); a node whose values are too large, not finite, or too near a jump
(of Floor, of a comparison, between the places of a maximum) is left out.
"""
import argparse
import io
import random
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_conv_transpose

EXTENTS = [1, 1, 2, 3, 3, 5, 7, 7, 13]
LARGEST = 600  # elements of a tensor
SIZE = 30.0    # of a value
MARGIN = 1e-3  # to a jump
IR = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}

SMOOTH = "Tanh Sigmoid Erf Softplus Softsign Sin Cos Mish Gelu Elu Selu Celu HardSigmoid HardSwish Swish Neg Identity".split()
KINKED = "Relu LeakyRelu Abs ThresholdedRelu Shrink Clip PRelu".split()
JUMPS = "Floor Ceil Round Sign".split()
POSITIVE = "Log Sqrt Reciprocal".split()
BINARY = "Add Sub Mul Div Pow Min Max Mean Sum".split()
REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare".split()
COMPARISONS = "Equal Less LessOrEqual Greater GreaterOrEqual".split()


# ---------------------------------------------------------------- where the evaluator is not what the standard says


class ConvTranspose(op_conv_transpose.ConvTranspose):
    """Groups one by one: the evaluator keeps one channel of each, and adds the first groups' bias to all."""
    op_domain = ""

    def _run(self, X, W, B=None, group=None, **rest):
        groups = group or 1
        parts = [super(ConvTranspose, self)._run(x, w, group=1, **rest)[0]
                       for x, w in zip(np.split(X, groups, 1), np.split(W, groups, 0))]
        return (np.concatenate(parts, 1) + (0 if B is None else B.reshape(-1, *[1] * (X.ndim - 2))),)


class GlobalMaxPool(OpRun):
    """Of any number of axes: the evaluator takes four."""
    op_domain = ""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class LpNormalization(OpRun):
    """Of negative numbers too."""
    op_domain = ""

    def _run(self, x, axis=None, p=None):
        return (x / (np.abs(x) ** p).sum(axis=axis, keepdims=True) ** (1 / p),)


class MaxPool(OpRun):
    """Padded on each axis by itself: the evaluator makes outputs of another shape where kernel and pads differ from axis to axis."""
    op_domain = ""

    def _run(self, x, kernel_shape=None, strides=None, pads=None, **rest):
        n = len(kernel_shape)
        pads = pads or [0] * (2 * n)
        whole = np.pad(x, [(0, 0), (0, 0), *zip(pads[:n], pads[n:])], constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(whole, kernel_shape, tuple(range(2, 2 + n)))
        steps = tuple(slice(None, None, s) for s in strides or [1] * n)
        return (windows[(slice(None), slice(None), *steps)].max(axis=tuple(range(2 + n, 2 + 2 * n))),)


MENDED = [ConvTranspose, GlobalMaxPool, LpNormalization, MaxPool]


class Refused(Exception):
    """A node that this model does not get."""


def single(value):
    return np.asarray(
    value,
    dtype=np.float32).astype(
        np.float64) if np.issubdtype(
            np.asarray(value).dtype,
             np.floating) else np.asarray(value)


def element_type(array):
    return {"f": T.DOUBLE, "i": T.INT64, "b": T.BOOL}[array.dtype.kind]


class Model:
    def __init__(self, seed, index):
        self.rng = random.Random(seed * 1_000_003 + index)
        self.numbers = np.random.RandomState((seed * 7919 + index) % 2**31)
        self.opset = self.rng.choice([13, 15, 17, 18, 20, 21, 22, 23, 23])
        self.nodes, self.values, self.inputs, self.weights, self.constants, self.operators = [], {}, {}, {}, {}, []
        self.begin()
        wanted, tries = self.rng.randint(1, 9), 0
        while len(self.operators) < wanted and tries < 60:
            tries += 1
            kind = self.rng.choice(list(MAKERS))
            before = (len(self.nodes), set(self.values), dict(self.weights), dict(self.constants), self.rng.getstate())
            try:
                MAKERS[kind](self)
                self.operators.append(kind)
            except (Refused, IndexError, ValueError):
                del self.nodes[before[0]:]
                self.values = {k: v for k, v in self.values.items() if k in before[1]}
                self.weights, self.constants = before[2], before[3]
        self.end()

    # ---- what there is

    def name(self, stem):
        self.count = getattr(self, "count", 0) + 1
        return f"{stem}{self.count}"

    def begin(self):
        style = self.rng.random()
        batch = self.rng.choice([1, 2, 3, 5, 7, 13])
        if style < 0.1:  # no input: parameters alone
            self.weight(self.shape())
            return
        for _ in range(self.rng.choice([1, 1, 2])):
            rank = self.rng.choice([1, 2, 2, 3, 3, 4, 4])
            shape = [batch, *(self.rng.choice(EXTENTS) for _ in range(rank - 1))]
            if style > 0.9:  # the batch is not first
                self.rng.shuffle(shape)
            while np.prod(shape) > LARGEST:
                shape[self.rng.randrange(len(shape))] = 1
            name = self.name("x")
            self.inputs[name] = self.values[name] = single(self.numbers.randn(*shape))

    def shape(self, rank=None):
        rank = self.rng.randint(1, 4) if rank is None else rank
        shape = [self.rng.choice(EXTENTS) for _ in range(rank)]
        while np.prod(shape) > LARGEST:
            shape[self.rng.randrange(len(shape))] = 1
        return shape

    def weight(self, shape, positive=False):
        """A parameter; sometimes one that is there."""
        shape = [int(n) for n in shape]
        if np.prod(shape) > LARGEST:
            raise Refused
        same = [n for n, v in self.weights.items() if list(v.shape) == shape and (not positive or v.min() > 0.2)]
        if same and self.rng.random() < 0.5:
            return self.rng.choice(same)
        name = self.name("w")
        value = self.numbers.randn(*shape)
        self.weights[name] = self.values[name] = single(np.abs(value) + 0.4 if positive else value)
        return name

    def constant(self, value):
        name = self.name("c")
        self.constants[name] = self.values[name] = single(value)
        return name

    def floats(self, rank=None, least=0, latest=True):
        """The name of a float tensor of some rank, the latest ones more often."""
        names = [n for n, v in self.values.items() if v.dtype.kind == "f" and n not in self.constants and v.ndim >=
                                                 least and (rank is None or v.ndim == rank)]
        if not names:
            if rank is None and least == 0:
                raise Refused
            return self.with_rank(rank if rank is not None else least)
        return names[-1 - min(int(self.rng.expovariate(0.8)), len(names) - 1)] if latest else self.rng.choice(names)

    def with_rank(self, rank):
        """A tensor of this rank: another reshaped, or a new parameter."""
        x = self.floats()
        shape = list(self.values[x].shape)
        if self.rng.random() < 0.3:
            return self.weight(self.shape(rank))
        if len(shape) < rank:
            shape += [1] * (rank - len(shape))
            self.rng.shuffle(shape)
        while len(shape) > rank:
            if rank == 0:
                raise Refused
            at = self.rng.randrange(len(shape) - 1)
            shape[at:at + 2] = [shape[at] * shape[at + 1]]
        return self.add("Reshape", [x, self.constant(np.array(shape, dtype=np.int64))])

    def of(self, name):
        return self.values[name]

    def axis(self, name):
        rank = self.of(name).ndim
        if rank == 0:
            raise Refused
        axis = self.rng.randrange(rank)
        return axis if self.rng.random() < 0.7 else axis - rank

    def away_from_zero(self, x):
        """x itself where it is positive, else |x| + 1/2."""
        if self.of(x).size and self.of(x).min() > 0.1:
            return x
        return self.add("Add", [self.add("Abs", [x]), self.constant(np.float64(0.5))])

    # ---- what is added

    def add(self, operator, operands, count=1, checked=True, **attributes):
        outputs = [self.name("t") for _ in range(count)]
        node = helper.make_node(operator, operands, outputs, name=self.name("n") + "_" + operator, **attributes)
        present = [o for o in dict.fromkeys(operands) if o]
        graph = helper.make_graph(
    [node], "g", [
        helper.make_tensor_value_info(
            o, element_type(
                self.of(o)), self.of(o).shape) for o in present], [
                    helper.make_tensor_value_info(
                        o, T.UNDEFINED, None) for o in outputs])
        model = helper.make_model(
    graph, opset_imports=[
        helper.make_opsetid(
            "", self.opset)], ir_version=IR.get(
                self.opset, 10))
        with np.errstate(all="ignore"):
            try:
                results = ReferenceEvaluator(model, new_ops=MENDED).run(None, {o: self.of(o) for o in present})
            except Exception as error:
                raise Refused(str(error)) from error
        for output, value in zip(outputs, results):
            value = np.asarray(value)
            if value.dtype == np.int32:
                raise Refused
            if value.size == 0 or value.size > LARGEST or value.ndim > 6:
                raise Refused
            if value.dtype.kind == "f" and (not np.isfinite(value).all() or np.abs(value).max() > SIZE):
                raise Refused
            if value.dtype.kind == "f" and value.dtype != np.float64:
                raise Refused  # the evaluator's own float32
            self.values[output] = value
        self.nodes.append(node)
        return outputs[0] if count == 1 else outputs

    def end(self):
        read = {o for node in self.nodes for o in node.input}
        leaves = [o for node in self.nodes for o in node.output if o not in read]
        floats = [o for o in leaves if self.of(o).dtype.kind == "f"]
        if not floats:
            made = [o for node in self.nodes for o in node.output if self.of(o).dtype.kind == "f"]
            source = made[-1] if made else list({**self.weights, **self.inputs})[-1]
            floats = [self.add("Tanh", [source])]
        self.outputs = [floats[-1], *self.rng.sample([o for o in leaves if o != floats[-1]],
                                                     min(len(leaves) - (floats[-1] in leaves), self.rng.choice([0, 0, 1, 2])))]
        needed, kept = set(self.outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.append(node)
                needed |= set(node.input)
        self.nodes = kept[::-1]
        # what the first output learns from; one number is a constant
        trained = {n for n, v in self.weights.items() if v.size > 1}
        for node in self.nodes:
            if trained & set(node.input) and node.op_type not in JUMPS:
                trained |= {o for o in node.output if self.of(o).dtype.kind == "f"}
        if self.outputs[0] not in trained:
            w = self.weight([*self.of(self.outputs[0]).shape[:-1], 2 if self.of(self.outputs[0]
                            ).shape[-1:] in ((), (1,)) else self.of(self.outputs[0]).shape[-1]])
            self.outputs[0] = self.add("Add", [self.outputs[0], w])
            needed |= {w, self.outputs[0]}
        self.inputs = {n: v for n, v in self.inputs.items() if n in needed}
        self.weights = {n: v for n, v in self.weights.items() if n in needed}
        self.constants = {n: v for n, v in self.constants.items() if n in needed}

    # ---- as a file

    def proto(self, double=False):
        def stored(name, value):
            value = np.asarray(value)
            if value.dtype.kind == "f" and not double:
                value = value.astype(np.float32)
            return numpy_helper.from_array(value, name)

        def kind(value):
            return T.FLOAT if value.dtype.kind == "f" and not double else element_type(value)

        nodes = []
        for node in self.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for attribute in copy.attribute:
                if not double and attribute.name == "to" and attribute.i == T.DOUBLE:
                    attribute.i = T.FLOAT
                if not double and attribute.name == "value" and attribute.t.data_type == T.DOUBLE:
                    attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float32)))
                if not double and attribute.name == "dtype" and attribute.i == T.DOUBLE:
                    attribute.i = T.FLOAT
            nodes.append(copy)
        graph = helper.make_graph(
    nodes, "g", [
        helper.make_tensor_value_info(
            n, kind(v), v.shape) for n, v in self.inputs.items()], [
                helper.make_tensor_value_info(
                    n, kind(
                        self.of(n)), self.of(n).shape) for n in self.outputs], [
                            stored(
                                n, v) for n, v in {
                                    **self.weights, **self.constants}.items()])
        model = helper.make_model(
    graph, opset_imports=[
        helper.make_opsetid(
            "", self.opset)], ir_version=IR.get(
                self.opset, 10), producer_name="random")
        onnx.checker.check_model(model)
        return model

    def references(self):
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(self.proto(double=True), new_ops=MENDED).run(None, self.inputs)
        return {n: np.asarray(v) for n, v in zip(self.outputs, results)}


# ---------------------------------------------------------------- one function a kind of node

MAKERS = {}


def maker(*names):
    def add(function):
        for name in names:
            MAKERS[name] = lambda g, name=name: function(g, name)
        return function
    return add


@maker(*SMOOTH, *KINKED, *POSITIVE, *JUMPS, "Exp")
def unary(g, name):
    x = g.floats()
    attributes = {}
    if name in (
    "Gelu",
    ) and g.opset < 20 or name == "Mish" and g.opset < 18 or name == "HardSwish" and g.opset < 14 or name == "Swish":
        raise Refused
    if name in POSITIVE:
        x = g.away_from_zero(x)
    if name in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu"):
        attributes["alpha"] = g.rng.choice([0.1, 0.5, 1.5])
    if name == "Gelu":
        attributes["approximate"] = g.rng.choice(["none", "tanh"])
    if name == "Shrink":
        attributes = {"lambd": 0.4, "bias": g.rng.choice([0.0, 0.2])}
    if name == "HardSigmoid":
        attributes = {"alpha": 0.3, "beta": 0.4}
    value = g.of(x)
    jumps = {"ThresholdedRelu": [attributes.get("alpha")], "Shrink": [0.4, -0.4], "Sign": [0.0]}.get(name, [])
    if any(np.abs(value - at).min() < MARGIN for at in jumps):
        raise Refused
    if name in (
    "Floor",
    "Ceil") and np.abs(
        value -
        np.round(value)).min() < MARGIN or name == "Round" and np.abs(
            value -
            np.floor(value) -
             0.5).min() < MARGIN:
        raise Refused
    operands = [x]
    if name == "Clip":
        operands += [g.constant(np.float64(-0.7)), g.constant(np.float64(0.9))
                                ] if g.rng.random() < 0.6 else ["", g.constant(np.float64(0.5))]
    if name == "PRelu":
        operands.append(g.weight(g.rng.choice(
            [[1], [value.shape[1] if value.ndim > 1 else 1, *[1] * max(value.ndim - 2, 0)], list(value.shape)])))
    g.add(name, operands, **attributes)


def partner(g, x, positive=False):
    """Something that x and it can be broadcast to one another."""
    shape = list(g.of(x).shape)
    fits = []
    for n, v in g.values.items():
        if v.dtype.kind != "f" or n in g.constants:
            continue
        try:
            if np.prod(np.broadcast_shapes(v.shape, tuple(shape))) <= LARGEST:
                fits.append(n)
        except ValueError:
            pass
    kind = g.rng.random()
    if fits and kind < 0.4:
        return g.rng.choice(fits)
    other = [n if g.rng.random() < 0.7 else 1 for n in shape][g.rng.randint(
        0, len(shape)) if g.rng.random() < 0.5 else 0:]
    if g.rng.random() < 0.15:
        other = [g.rng.choice([1, 3]), *other] if len(other) == len(shape) else other
    if g.rng.random() < 0.2:
        other = [n if n > 1 else g.rng.choice([1, 3, 7]) for n in other]
    if kind < 0.85:
        return g.weight(other, positive)
    return g.constant(single(g.numbers.randn(*other)))


@maker(*BINARY)
def binary(g, name):
    x = g.floats()
    y = partner(g, x)
    if name in ("Div", "Pow"):
        if name == "Div":
            y = g.away_from_zero(y)
        else:
            x, y = g.away_from_zero(x), g.rng.choice([y, g.constant(np.float64(g.rng.choice([2.0, 0.5, 3.0, -1.0])))])
    elif g.rng.random() < 0.5:
        x, y = y, x
    more = [partner(g, x)] if name in ("Min", "Max", "Mean", "Sum") and g.rng.random() < 0.3 else []
    g.add(name, [x, y, *more])


@maker("Compare", "Logic", "Where")
def where(g, name):
    x = g.floats()
    y = partner(g, x)
    comparison = g.rng.choice(COMPARISONS)
    if np.abs(g.of(x) - g.of(y)).min() < MARGIN:
        raise Refused
    condition = g.add(comparison, [x, y])
    if name == "Logic":
        other = g.add("Less", [x, g.constant(np.float64(0.123))])
        if np.abs(g.of(x) - 0.123).min() < MARGIN:
            raise Refused
        condition = g.add(g.rng.choice(["And", "Or", "Xor"]), [condition, other])
        if g.rng.random() < 0.4:
            condition = g.add("Not", [condition])
    if name == "Compare":
        g.add("Cast", [condition], to=T.DOUBLE)
    else:
        g.add("Where", [condition, g.rng.choice([x, partner(g, condition)]), g.rng.choice([y, partner(g, condition)])])


@maker("MatMul")
def matmul(g, name):
    a = g.floats(least=1)
    shape = list(g.of(a).shape)
    k, n = shape[-1], g.rng.choice(EXTENTS)
    kind = g.rng.random()
    fits = [m for m, v in g.values.items() if v.dtype.kind == "f" and m not in g.constants and v.ndim >=
                                         2 and v.shape[-2] == k]
    if kind < 0.25 and fits:
        b = g.rng.choice(fits)
    elif kind < 0.4 and len(shape) > 2:
        b = g.weight([*(s if g.rng.random() < 0.7 else 1 for s in shape[:-2]), k, n])
    elif kind < 0.5:
        b = g.weight([k])
    elif kind < 0.6 and len(shape) >= 2:
        a, b = g.weight([n, shape[-2]]), a
    else:
        b = g.weight([k, n])
    g.add("MatMul", [a, b])


@maker("Gemm")
def gemm(g, name):
    a = g.floats(rank=2)
    trans_a, trans_b = g.rng.randint(0, 1), g.rng.randint(0, 1)
    m, k = g.of(a).shape[::-1] if trans_a else g.of(a).shape
    n = g.rng.choice(EXTENTS)
    operands = [a, g.weight([n, k] if trans_b else [k, n])]
    if g.rng.random() < 0.7:
        operands.append(g.weight(g.rng.choice([[n], [1, n], [m, 1], [m, n], [1], []])))
    g.add("Gemm", operands, transA=trans_a, transB=trans_b,
          alpha=g.rng.choice([1.0, 0.5]), beta=g.rng.choice([1.0, 1.0, 0.3]))


@maker("Einsum")
def einsum(g, name):
    a = g.floats(least=1)
    letters = "ijkl"[:g.of(a).ndim] if g.of(a).ndim <= 4 else ""
    if not letters:
        raise Refused
    extent = dict(zip(letters, g.of(a).shape))
    second = [l for l in letters if g.rng.random() < 0.6]
    if g.rng.random() < 0.6:
        extent["m"] = g.rng.choice(EXTENTS)
        second.append("m")
    if not second:
        raise Refused
    g.rng.shuffle(second)
    out = [l for l in dict.fromkeys([*letters, *second]) if g.rng.random() < 0.7]
    g.rng.shuffle(out)
    g.add("Einsum", [a, g.weight([extent[l] for l in second])], equation=f"{letters},{''.join(second)}->{''.join(out)}")


@maker("Conv", "ConvTranspose")
def convolution(g, name):
    spatial = g.rng.choice([1, 1, 2])
    x = g.floats(rank=spatial + 2)
    c, extents = g.of(x).shape[1], g.of(x).shape[2:]
    group = g.rng.choice([d for d in range(1, c + 1) if c % d == 0])
    each = g.rng.choice([1, 2, 3])
    kernel = [g.rng.choice([k for k in (1, 2, 3) if k <= max(e, 1)]) for e in extents]
    attributes = {"kernel_shape": kernel, "group": group, "strides": [g.rng.choice([1, 1, 2]) for _ in extents], "dilations": [
                                                                                   g.rng.choice([1, 1, 2]) for _ in extents]}
    kind = g.rng.random()
    if kind < 0.4:
        attributes["pads"] = [g.rng.randint(0, (k - 1)) for k in kernel] + [g.rng.randint(0, (k - 1)) for k in kernel]
    elif kind < 0.7 and name == "Conv":
        attributes["auto_pad"] = g.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        attributes["dilations"] = [1 for _ in extents]
    if name == "Conv":
        w, outputs = [group * each, c // group, *kernel], group * each
    else:
        w, outputs = [c, each, *kernel], group * each
        if g.rng.random() < 0.3:
            attributes["output_padding"] = [g.rng.randint(0, s - 1) for s in attributes["strides"]]
    g.add(name, [x, g.weight(w), *([g.weight([outputs])] if g.rng.random() < 0.7 else [])], **attributes)


@maker("MaxPool", "AveragePool")
def pool(g, name):
    spatial = g.rng.choice([1, 2])
    x = g.floats(rank=spatial + 2)
    extents = g.of(x).shape[2:]
    kernel = [g.rng.choice([k for k in (1, 2, 3) if k <= e]) for e in extents]
    attributes = {"kernel_shape": kernel, "strides": [g.rng.choice([1, 2]) for _ in extents]}
    if g.rng.random() < 0.4:
        attributes["pads"] = [g.rng.randint(0, k // 2) for k in kernel] * 2
        if name == "AveragePool":
            attributes["count_include_pad"] = g.rng.randint(0, 1)
    if name == "MaxPool" and np.unique(g.of(x)).size < g.of(x).size:
        raise Refused
    g.add(name, [x], **attributes)


@maker("GlobalAveragePool", "GlobalMaxPool")
def global_pool(g, name):
    x = g.floats(rank=g.rng.choice([3, 4]))
    if name == "GlobalMaxPool" and np.unique(g.of(x)).size < g.of(x).size:
        raise Refused
    g.add(name, [x])


@maker("BatchNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "LpNormalization",
     "MeanVarianceNormalization")
def normalization(g, name):
    x = g.floats(rank=4 if name == "MeanVarianceNormalization" else None,
     least=1 if "L" in name[:2] or name == "RMSNormalization" else 3 if name == "InstanceNormalization" else 2)
    shape = g.of(x).shape
    if name == "BatchNormalization":
        if g.opset < 14:  # the evaluator takes these for training
            raise Refused
        c = shape[1]
        mean, variance = g.constant(single(g.numbers.randn(c) * 0.1)
                                    ), g.constant(single(np.abs(g.numbers.randn(c)) + 0.5))
        g.add(name, [x, g.weight([c]), g.weight([c]), mean, variance], epsilon=1e-3)
    elif name == "InstanceNormalization":
        g.add(name, [x, g.weight([shape[1]]), g.weight([shape[1]])], epsilon=1e-2)
    elif name == "GroupNormalization":
        if g.opset < 21:
            raise Refused
        groups = g.rng.choice([d for d in range(1, shape[1] + 1) if shape[1] % d == 0])
        g.add(name, [x, g.weight([shape[1]]), g.weight([shape[1]])], num_groups=groups, epsilon=1e-2)
    elif name in ("LayerNormalization", "RMSNormalization"):
        if g.opset < (17 if name[0] == "L" else 23):
            raise Refused
        axis = g.rng.randint(-len(shape), -1)
        operands = [x, g.weight(shape[axis:])]
        if name[0] == "L" and g.rng.random() < 0.7:
            operands.append(g.weight(shape[axis:]))
        g.add(name, operands, axis=axis, epsilon=1e-2)
    elif name == "LpNormalization":
        g.add(name, [x], axis=g.axis(x), p=g.rng.choice([1, 2]))
    else:
        g.add(name, [x], axes=g.rng.choice([[0, 2, 3], [1], [2, 3]]))


@maker("Softmax", "LogSoftmax", "Hardmax")
def softmax(g, name):
    x = g.floats(least=1)
    axis = g.axis(x)
    if name == "Hardmax" and near_tie(g.of(x), axis):
        raise Refused
    g.add(name, [x], axis=axis)


def near_tie(value, axis):
    ordered = np.sort(value, axis=axis)
    return value.shape[axis] > 1 and np.diff(ordered, axis=axis).min() < MARGIN


@maker(*REDUCTIONS)
def reduction(g, name):
    x = g.floats(least=1)
    rank = g.of(x).ndim
    axes = g.rng.sample(range(rank), g.rng.randint(1, rank)) if g.rng.random() < 0.85 else None
    if name == "ReduceLogSum":
        x = g.away_from_zero(x)
    if name in ("ReduceMax", "ReduceMin") and np.unique(g.of(x)).size < g.of(x).size:
        raise Refused
    if name == "ReduceL2" and np.abs(g.of(x)).min() < 0.01:
        raise Refused
    if axes:
        axes = [a if g.rng.random() < 0.6 else a - rank for a in axes]
    keep = g.rng.randint(0, 1)
    if axes is None:
        g.add(name, [x], keepdims=keep)
    elif name == "ReduceSum" or g.opset >= 18:
        g.add(name, [x, g.constant(np.array(axes, dtype=np.int64))], keepdims=keep)
    else:
        g.add(name, [x], axes=axes, keepdims=keep)


@maker("ArgMax", "ArgMin", "TopK")
def places(g, name):
    x = g.floats(least=1)
    axis = g.axis(x)
    if near_tie(g.of(x), axis):
        raise Refused
    if name == "TopK":
        k = g.rng.randint(1, g.of(x).shape[axis])
        values, _ = g.add("TopK", [x, g.constant(np.array([k], dtype=np.int64))],
                          count=2, axis=axis, largest=g.rng.randint(0, 1))
        return
    found = g.add(name, [x], axis=axis, keepdims=g.rng.randint(0, 1))
    if g.rng.random() < 0.5:
        g.add("Gather", [g.weight([g.of(x).shape[axis], g.rng.choice(EXTENTS)]), found])
    else:
        g.add("Cast", [found], to=T.DOUBLE)


@maker("CumSum")
def cumulative(g, name):
    x = g.floats(least=1)
    g.add(name, [x, g.constant(np.int64(g.axis(x)))], exclusive=g.rng.randint(0, 1), reverse=g.rng.randint(0, 1))


@maker("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile")
def shaped(g, name):
    x = g.floats(least=1)
    shape = list(g.of(x).shape)
    if name == "Reshape":
        target = [s for s in shape]
        for _ in range(g.rng.randint(1, 3)):
            at = g.rng.randrange(len(target))
            divisors = [d for d in range(1, target[at] + 1) if target[at] % d == 0]
            if g.rng.random() < 0.5 and len(target) > 1:
                at = g.rng.randrange(len(target) - 1)
                target[at:at + 2] = [target[at] * target[at + 1]]
            elif len(target) < 5:
                d = g.rng.choice(divisors)
                target[at:at + 1] = [d, target[at] // d]
        if g.rng.random() < 0.3:
            target[g.rng.randrange(len(target))] = -1
        elif target[0] == shape[0] and g.rng.random() < 0.3:
            target[0] = 0
        g.add(name, [x, g.constant(np.array(target, dtype=np.int64))])
    elif name == "Flatten":
        g.add(name, [x], axis=g.rng.randint(0, len(shape)))
    elif name == "Squeeze":
        ones = [a for a, n in enumerate(shape) if n == 1]
        g.add(name, [x, g.constant(np.array(g.rng.sample(ones, g.rng.randint(1, len(ones))), dtype=np.int64))])
    elif name == "Unsqueeze":
        g.add(name, [x, g.constant(np.array([g.rng.randint(0, len(shape))], dtype=np.int64))])
    elif name == "Transpose":
        order = list(range(len(shape)))
        g.rng.shuffle(order)
        g.add(name, [x], perm=order)
    elif name == "Expand":
        target = [n if n > 1 else g.rng.choice([1, 3, 7]) for n in shape]
        if g.rng.random() < 0.3:
            target = [g.rng.choice([2, 3]), *target]
        g.add(name, [x, g.constant(np.array(target, dtype=np.int64))])
    else:
        g.add(name, [x, g.constant(np.array([g.rng.choice([1, 1, 2, 3]) for _ in shape], dtype=np.int64))])


@maker("Concat")
def concat(g, name):
    x = g.floats(least=1)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.rng.randint(1, 2)):
        def rest(v):
            return [n for a, n in enumerate(v.shape) if a != axis % g.of(x).ndim]
        fits = [n for n, v in g.values.items() if v.dtype.kind == "f" and n not in g.constants and v.ndim ==
                                             g.of(x).ndim and rest(v) == rest(g.of(x))]
        if fits and g.rng.random() < 0.5:
            parts.append(g.rng.choice(fits))
        else:
            shape = list(g.of(x).shape)
            shape[axis] = g.rng.choice(EXTENTS)
            parts.append(g.weight(shape))
    g.rng.shuffle(parts)
    g.add(name, parts, axis=axis)


@maker("Split")
def split(g, name):
    x = g.floats(least=1)
    axis = g.axis(x)
    extent = g.of(x).shape[axis]
    if extent < 2:
        raise Refused
    cuts = sorted(g.rng.sample(range(1, extent), g.rng.randint(1, min(2, extent - 1))))
    lengths = [b - a for a, b in zip([0, *cuts], [*cuts, extent])]
    parts = g.add(name, [x, g.constant(np.array(lengths, dtype=np.int64))], count=len(lengths), axis=axis)
    if g.rng.random() < 0.5 and lengths[0] == lengths[1]:
        g.add("Mul", parts[:2])


@maker("Slice")
def slices(g, name):
    x = g.floats(least=1)
    axis = g.axis(x)
    extent = g.of(x).shape[axis]
    step = g.rng.choice([1, 1, 2, -1, -2])
    start, end = sorted([g.rng.randint(0, extent), g.rng.randint(0, extent)])
    if step < 0:
        start, end = end, (start - 1 if start > 0 else -2**40)
    if g.rng.random() < 0.2 and step > 0:
        start, end = start - extent, 2**40
    g.add(name, [x, *(g.constant(np.array([v], dtype=np.int64)) for v in (start, end, axis, step))])


@maker("Pad")
def pad(g, name):
    x = g.floats(least=1)
    rank = g.of(x).ndim
    mode = g.rng.choice(["constant", "constant", "reflect", "edge"] + (["wrap"] if g.opset >= 19 else []))
    most = [2 if mode == "constant" else min(2, n - 1) for n in g.of(x).shape]
    low = [g.rng.randint(-1 if mode == "constant" and n > 2 else 0, m) if g.rng.random()
                         < 0.5 else 0 for n, m in zip(g.of(x).shape, most)]
    high = [g.rng.randint(0, m) if g.rng.random() < 0.5 else 0 for m in most]
    operands = [x, g.constant(np.array(low + high, dtype=np.int64))]
    if mode == "constant" and g.rng.random() < 0.5:
        operands.append(g.constant(np.float64(0.25)))
    g.add(name, operands, mode=mode)


def ids(g, shape, extent, negative=True):
    value = g.numbers.randint(-extent if negative else 0, extent, size=shape)
    return g.constant(np.asarray(value, dtype=np.int64))


@maker("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Embedding", "OneHot")
def places_of(g, name):
    x = g.floats(least=1)
    axis, shape = g.axis(x), list(g.of(x).shape)
    if name == "Gather":
        g.add(name, [x, ids(g, g.rng.choice([(), (3,), (2, 3), (1,), (7,)]), shape[axis])], axis=axis)
    elif name == "GatherElements":
        extents = [g.rng.randint(1, n) for n in shape]
        extents[axis] = g.rng.choice(EXTENTS)
        g.add(name, [x, ids(g, extents, shape[axis])], axis=axis)
    elif name == "GatherND":
        last = g.rng.randint(1, len(shape))
        places = np.stack([g.numbers.randint(0, n, size=(3,)) for n in shape[:last]], axis=-1)
        g.add(name, [x, g.constant(places.astype(np.int64))])
    elif name == "ScatterElements":
        if g.opset < 16:
            raise Refused
        extents = [g.rng.randint(1, n) for n in shape]
        extents[axis] = 1
        g.add(name, [x, ids(g, extents, shape[axis], False), g.weight(extents)],
              axis=axis, reduction=g.rng.choice(["none", "add"]))
    elif name == "ScatterND":
        if g.opset < 16:
            raise Refused
        last = g.rng.randint(1, len(shape))
        places = np.array([[g.rng.randrange(n) for n in shape[:last]]], dtype=np.int64)
        g.add(name, [x, g.constant(places), g.weight([1, *shape[last:]])], reduction=g.rng.choice(["none", "add"]))
    elif name == "Embedding":
        rows = g.rng.choice([3, 7, 13])
        name = g.name("ids")
        batch = next((v.shape[0] for v in g.inputs.values()), 3)
        g.inputs[name] = g.values[name] = g.numbers.randint(
            0, rows, size=[batch, *g.rng.choice([[], [3], [7]])]).astype(np.int64)
        g.add("Gather", [g.weight([rows, g.rng.choice(EXTENTS)]), name])
    else:
        depth = g.rng.choice([3, 7])
        hot = g.add(name, [ids(g, shape[:1], depth, False), g.constant(
            np.int64(depth)), g.constant(np.array([0.0, 1.0]))], axis=-1)
        g.add("MatMul", [hot, g.weight([depth, g.rng.choice(EXTENTS)])])


@maker("Trilu")
def trilu(g, name):
    g.add(name, [g.floats(least=2), g.constant(np.int64(g.rng.randint(-1, 1)))], upper=g.rng.randint(0, 1))


@maker("DepthToSpace", "SpaceToDepth")
def blocks(g, name):
    x = g.floats(rank=4)
    n, c, h, w = g.of(x).shape
    sizes = [b for b in (2, 3) if (c % (b * b) == 0 if name[0] == "D" else h % b == 0 and w % b == 0)]
    if not sizes:
        x = g.weight([n, 4 * g.rng.choice([1, 3]), h, 2] if name[0] == "D" else [n, c, 2, 4])
        sizes = [2]
    attributes = {"mode": g.rng.choice(["DCR", "CRD"])} if name[0] == "D" else {}
    g.add(name, [x], blocksize=sizes[0], **attributes)


@maker("Resize")
def resize(g, name):
    x = g.floats(rank=g.rng.choice([3, 4]))
    shape = list(g.of(x).shape)
    mode = g.rng.choice(["nearest", "linear"])
    target = shape[:2] + [max(1, min(13, n * g.rng.choice([1, 2, 3]) // g.rng.choice([1, 2]))) for n in shape[2:]]
    attributes = {"mode": mode, "coordinate_transformation_mode": g.rng.choice(
        ["half_pixel", "asymmetric", "align_corners"] if mode == "linear" else ["half_pixel", "asymmetric"])}
    if mode == "nearest":
        attributes["nearest_mode"] = g.rng.choice(["floor", "round_prefer_floor"])
    g.add(name, [x, "", "", g.constant(np.array(target, dtype=np.int64))], **attributes)


@maker("LSTM", "GRU", "RNN")
def recurrent(g, name):
    x = g.floats(rank=3)
    steps, _, size = g.of(x).shape
    if steps > 3:
        raise Refused
    gates, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[name], g.rng.choice([1, 2, 3, 5])
    operands = [x, g.weight([1, gates * hidden, size]), g.weight([1, gates * hidden, hidden])]
    if g.rng.random() < 0.6:
        operands.append(g.weight([1, 2 * gates * hidden]))
    attributes = {"linear_before_reset": g.rng.randint(0, 1)} if name == "GRU" else {}
    g.add(name, operands, count=2, hidden_size=hidden, **attributes)


@maker("Attention")
def attention(g, name):
    if g.opset < 23:
        raise Refused
    x = g.floats(rank=3)
    n, s, e = g.of(x).shape
    heads = g.rng.choice([h for h in (1, 2, 3, 7) if e % h == 0])
    q, k, v = (g.add("MatMul", [x, g.weight([e, e])]) for _ in range(3))
    g.add(name, [q, k, v], q_num_heads=heads, kv_num_heads=heads, is_causal=g.rng.randint(0, 1))


@maker("CastLike", "ShapeOf", "Dropout", "ConstantOfShape", "Range")
def odds(g, name):
    x = g.floats(least=1)
    if name == "CastLike":
        if g.opset < 15:
            raise Refused
        g.add("CastLike", [g.constant(np.arange(3)), x])
    elif name == "ShapeOf":
        g.add("Reshape", [x, g.add("Concat", [g.add("Slice", [g.add("Shape", [x]), g.constant(
            np.array([0])), g.constant(np.array([1]))]), g.constant(np.array([-1]))], axis=0)])
    elif name == "Dropout":
        g.add(name, [x, g.constant(np.float64(0.3))])
    elif name == "ConstantOfShape":
        g.add("Mul", [x, g.add(name, [g.add("Shape", [x])], value=helper.make_tensor("value", T.DOUBLE, [1], [0.5]))])
    else:
        n = g.of(x).shape[-1]
        g.add(
    "Mul", [
        x, g.add(
            "Cast", [
                g.add(
                    "Range", [
                        g.constant(
                            np.int64(0)), g.constant(
                                np.int64(n)), g.constant(
                                    np.int64(1))])], to=T.DOUBLE)])


OPERATORS = sorted(MAKERS)


def made(seed, index):
    """Model `index` of a seed; of several tries the first that the checker and the evaluator take."""
    for again in range(20):
        try:
            model = Model(seed + 101 * again, index)
            return model, model.proto(), model.references()
        except (Refused, onnx.checker.ValidationError):
            continue
    raise RuntimeError(f"no model {index} of seed {seed}")


def single_precision(inputs):
    return {n: v.astype(np.float32) if v.dtype.kind == "f" else v for n, v in inputs.items()}


def write_npz(path, arrays):
    """As numpy.savez_compressed, with nothing of the day in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in arrays.items():
            text = io.BytesIO()
            np.lib.format.write_array(text, np.asarray(value, order="C"))
            file.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), text.getvalue(), zipfile.ZIP_DEFLATED)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    arrays, operators = {}, {}
    for index in range(
    arguments.first,
    arguments.first +
    arguments.count) if arguments.only is None else [
        arguments.only]:
        model, proto, references = made(arguments.seed, index)
        for node in model.nodes:
            operators[node.op_type] = operators.get(node.op_type, 0) + 1
        if arguments.folder:
            arguments.folder.mkdir(parents=True, exist_ok=True)
            onnx.save(proto, arguments.folder / f"{index}.onnx")
            write_npz(arguments.folder / f"{index}.npz", single_precision(model.inputs))
            write_npz(arguments.folder / f"{index}-reference.npz", references)
        arrays[f"{index}/model"] = np.frombuffer(proto.SerializeToString(), dtype=np.uint8)
        arrays |= {
    f"{index}/in/{n}": v for n,
    v in single_precision(
        model.inputs).items()} | {
            f"{index}/out/{n}": v for n,
             v in references.items()}
    if arguments.out:
        write_npz(arguments.out, arrays)
    print(f"{len([n for n in arrays if n.endswith('/model')])} models; nodes: {', '.join(f'{n} {c}' for n, c in sorted(operators.items()))}")


if __name__ == "__main__":
    main()

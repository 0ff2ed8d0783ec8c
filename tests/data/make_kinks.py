"""Writes kinks.json: PyTorch's gradients of every operation at ties, at bounds, and where a derivative is infinite. Needs torch.

    python tests/data/make_kinks.py

A row has the operation as Partita registers it (or several of one operand, one after another), its attributes and operands, the cotangent of its first result, and the gradient of each operand
(null: an integer). `choice` says why Partita's gradient is another one, which is then in `ours`. Numbers that are not finite are strings.
"""
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F

INF, NAN = math.inf, math.nan
ROWS = []


def plain(values):
    return [x if isinstance(x, int) or math.isfinite(x) else str(x) for x in values]


def row(op, function, *operands, g=None, choice=None, ours=None, **attributes):
    """Operands: nested lists; those of integers and booleans are no parameters."""
    tensors = [torch.tensor(x) for x in operands]
    tensors = [t.double().requires_grad_() if t.is_floating_point() else t for t in tensors]
    y = function(*tensors)
    cotangent = torch.tensor(g, dtype=torch.float64) if g else 0.5 + torch.arange(y.numel()).double() % 3
    real = [t for t in tensors if t.is_floating_point()]
    found = dict(zip(map(id, real), torch.autograd.grad(y, real, cotangent.reshape(y.shape), allow_unused=True)))
    gradients = [found.get(id(t)) for t in tensors]
    entry = {"op": op, "attributes": attributes,
             "operands": [{"shape": list(t.shape), "dtype": str(t.dtype)[6:], "values": plain(t.detach().int().flatten().tolist()
                           if t.dtype == torch.bool else t.detach().flatten().tolist())} for t in tensors],
             "cotangent": plain(cotangent.flatten().tolist()),
             "gradients": [None if not t.is_floating_point() else plain((torch.zeros_like(t) if d is None else d).flatten().tolist())
                           for t, d in zip(tensors, gradients)]}
    if choice:
        entry |= {"choice": choice, "ours": [None if o is None else plain(o) for o in ours]}
    ROWS.append(entry)


def chain(ops, function, x):
    """Ops of one operand, one after another."""
    row(ops, function, x)


def unary():
    x = [-2.0, -0.0, 0.0, 1.0]
    row("abs", torch.abs, x)
    row("relu", F.relu, x)
    row("relu_grad", lambda x, g: torch.where(x > 0, g, 0.0), x, [1.0, 2.0, 3.0, 4.0])
    row("leaky_relu", lambda x: F.leaky_relu(x, 0.1), x, alpha=0.1)
    row("prelu", lambda x, s: torch.where(x > 0, x, s * x), x, [0.25] * 4)
    row("elu", lambda x: F.elu(x, 1.5), x + [-1000.0, 1000.0], alpha=1.5)
    row("elu", F.elu, x)
    row("selu", F.selu, x + [-1000.0, 1000.0])
    row("softplus", F.softplus, x + [-800.0, 19.0])
    row("softsign", F.softsign, x)
    row("mish", F.mish, x + [-800.0, 19.0])
    row("hard_sigmoid", F.hardsigmoid, [-4.0, -3.0, 0.0, 3.0, 4.0], alpha=0.1666666716337204)
    row("hard_swish", F.hardswish, [-4.0, -3.0, -0.0, 0.0, 3.0, 4.0])
    bounds = [-2.0, -1.0, 0.5, 2.0, 3.0]
    row("clip", lambda x: x.clamp(-1, 2), bounds, lo=-1, hi=2)
    row("clip", lambda x: x.clamp(2, 2), bounds, lo=2, hi=2)
    row("clip", lambda x: F.hardtanh(x, -1, 2), bounds, lo=-1, hi=2, open=1)
    row("clip", F.relu6, [-1.0, -0.0, 0.0, 6.0, 7.0], lo=0, hi=6, open=1)
    row("sqrt", torch.sqrt, [0.0, 0.0, 4.0], g=[0.0, 1.0, 1.0])
    row("rsqrt", torch.rsqrt, [0.0, 0.0, 1e-100, 1.0], g=[0.0, 1.0, 1.0, 1.0])
    row("log", torch.log, [0.0, 0.0, -0.0, 1.0, INF], g=[0.0, 1.0, 1.0, 1.0, 1.0])
    row("reciprocal", torch.reciprocal, [0.0, -0.0, 1e-100, 1e200, INF])
    row("tan", torch.tan, [0.0, 1.0, -1.0])
    row("asin", torch.asin, [-1.0, 0.0, 1.0])
    row("acos", torch.acos, [-1.0, 0.0, 1.0])
    row("acosh", torch.acosh, [1.0, 2.0])
    row("atanh", torch.atanh, [-1.0, 0.0, 1.0])
    row("atan", torch.atan, [-INF, -0.0, 0.0, INF])
    row("asinh", torch.asinh, [-2.0, 0.0])
    row("norm_power", lambda x: x.abs() ** 3, [-2.0, 0.0, 1.0], p=3)


def norms():
    x = [[0.0, 0.0], [-0.0, 0.0], [0.0, -2.0], [3.0, 4.0], [1e-200, 0.0]]
    over = {"axes.0": 1}
    for p, powers, root in [(2, ["square", {}], {}), (3, ["norm_power", {"p": 3}], {"exponent": 1 / 3}), (1.5, ["norm_power", {"p": 1.5}], {"exponent": 1 / 1.5})]:
        chain([powers, ["reduce_sum", over], ["norm_root", root]], lambda x: torch.linalg.vector_norm(x, p, 1), x[:4])
    chain([["norm_power", {"p": 0.5}], ["reduce_sum", over], ["square", {}]], lambda x: torch.linalg.vector_norm(x, 0.5, 1), x[:4])
    chain([["abs", {}], ["reduce_sum", over]], lambda x: torch.linalg.vector_norm(x, 1, 1), x)
    # Of a plain root PyTorch's is 0 / 0.
    chain([["square", {}], ["reduce_sum", over], ["sqrt", {}]], lambda x: (x * x).sum(1).sqrt(), x[:4])


def binary():
    a, b = [1.0, 2.0, 3.0, 0.0, -0.0, INF], [1.0, 3.0, 2.0, -0.0, 0.0, INF]
    row("maximum", torch.maximum, a, b)
    row("minimum", torch.minimum, a, b)
    row("maximum", torch.maximum, [[0.0, 1.0], [1.0, 1.0]], [[1.0]])
    row("div", torch.div, [1.0, 0.0, -0.0, 1e-200, 0.0, 1e200, 2.0], [0.0, 0.0, 0.0, 1e-200, 1e-200, 1e200, INF])
    row("pow", torch.pow, [0.0] * 8 + [-2.0, -2.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, -1.0, -0.5, 3.0, 0.0, 0.0, INF])
    row("pow", torch.pow, [0.0, 1.0, -1.0], [0.0, 0.0, 0.0], g=[0.0, 0.0, 0.0])
    row("mod", torch.remainder, [6.0, -6.0, 5.0, -5.0, 0.0], [3.0, 3.0, -3.0, 3.0, 2.0])
    row("fmod", torch.fmod, [6.0, -6.0, 5.0, -5.0, 0.0], [3.0, 3.0, -3.0, 3.0, 2.0])
    row("xlogy", torch.xlogy, [0.0, 0.0, -0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 2.0, 0.0, 1.0, 3.0],
        choice="0 / 0 in PyTorch", ours=[[0.0, 0.0, 2.5 * math.log(2), -INF, 0.0, 2.5 * math.log(3)], [0.0, 0.0, 0.0, INF, 1.5, 2.5 * 2 / 3]])
    row("where", torch.where, [True, False, True], [1.0, NAN, INF], [NAN, 1.0, -INF])


def reductions():
    x = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -0.0, -1.0], [-INF, -INF, -INF]]
    row("reduce_max", lambda x: x.max(1)[0], x, **{"axes.0": 1})
    row("reduce_min", lambda x: x.min(1)[0], x, **{"axes.0": 1})
    row("reduce_max", lambda x: x.flatten().max(0)[0], x)
    row("reduce_prod", lambda x: x.prod(1), [[1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]], **{"axes.0": 1})
    row("top_k", lambda x: x.sort(stable=True, dim=1, descending=True)[0][:, :2], [[3.0, 1.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0]], k=2)
    window = [[[[1.0, 5.0, 5.0, 2.0], [5.0, 0.0, 5.0, 1.0], [0.0, 0.0, -INF, -INF], [0.0, 0.0, -INF, -INF]]]]
    row("max_pool", lambda x: F.max_pool2d(x, 2, 2), window, kh=2, kw=2, sh=2, sw=2)
    row("max_pool", lambda x: F.max_pool2d(x, 3, 1, 1), window, kh=3, kw=3, pt=1, pl=1, pb=1, pr=1)
    scores = [[1.0, 1.0, 0.0], [0.0, -INF, 1.0], [1000.0, -1000.0, 1000.0]]
    row("softmax", lambda x: F.softmax(x, 1), scores)
    row("softmax", lambda x: torch._safe_softmax(x, 1), scores + [[-INF] * 3], masked=1)
    row("softmax", lambda x: F.softmax(x, 1), [[-INF] * 3, [INF, 0.0, 1.0]])
    row("log_softmax", lambda x: F.log_softmax(x, 1), scores)


def losses():
    y, t = [-2.0, -1.0, -0.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, -0.0, 2.0, 2.0]
    row("l1", F.l1_loss, y, t)
    row("huber", F.huber_loss, y, t)
    row("huber", lambda y, t: F.huber_loss(y, t, delta=0.5), [0.5, -0.5, 0.0, 1.0], [0.0, 0.0, 0.0, 0.5], delta=0.5)
    row("bce_with_logits", F.binary_cross_entropy_with_logits, [-800.0, -0.0, 0.0, 800.0, 1.0], [0.0, 1.0, 0.5, 0.25, 1.0])
    probabilities = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1e-300, 1e-20, 0.25]
    row("bce", lambda y, t: F.binary_cross_entropy(y, t, reduction="none"), probabilities, [0.0, 1.0, 1.0, 0.0, 0.5, 0.5, 1.0, 1.0, 0.75])
    row("kl_divergence", lambda y, t: F.kl_div(y, t, reduction="batchmean"), [[-1.0, -2.0], [-0.5, -INF]], [[0.0, 1.0], [0.5, 0.5]],
        choice="0 / 0 in PyTorch for a probability of 0", ours=[[0.0, -0.25, -0.125, -0.125], [0.0, 0.75, 0.25 * (math.log(0.5) + 1.5), INF]])
    logits = [[0.0, -INF, 1.0], [2.0, 2.0, 2.0], [1000.0, 0.0, -1000.0]]
    row("cross_entropy", F.cross_entropy, logits, [0, 1, 2])
    row("masked_cross_entropy", lambda x, t, n: F.cross_entropy(x, t), logits, [0, 1, -100], 2)


def normalizations():
    rows, w, b = [[2.0, 2.0, 2.0], [0.0, 0.0, 0.0], [1.0, 2.0, 4.0]], [1.0, 2.0, 3.0], [0.5, 0.0, -1.0]
    row("layer_norm", lambda x, w, b: F.layer_norm(x, [3], w, b), rows, w, b)
    row("rms_norm", lambda x, w: F.rms_norm(x, [3], w, 1e-5), rows, w)
    channels = [[[2.0, 2.0], [0.0, 0.0], [1.0, 3.0], [5.0, 5.0]], [[2.0, 2.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]]
    four, more = [1.0, 2.0, 3.0, 4.0], [0.5, 0.0, -1.0, 2.0]
    row("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), channels, four, more, groups=2)
    row("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), channels, four, more)
    row("batch_norm_in_groups", lambda x, w, b: torch.cat([F.batch_norm(part, None, None, w, b, True) for part in x.split(1)]),
        channels, four, more, groups=2)
    row("batch_norm_inference", lambda x, w, b, m, v: (x - m[:, None]) / (v[:, None] + 1e-5).sqrt() * w[:, None] + b[:, None],
        channels, four, more, [2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0])
    q, k, v = [[[[1.0, 2.0], [3.0, 4.0]]]], [[[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]], [[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        row("attention", F.scaled_dot_product_attention, q, k, v)
        row("attention", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v,
            [[False, False, False], [True, False, True]])
    row("attention_sinks", attention_with_sinks, q, k, v, [math.sqrt(2.0)])  # ties with the first row's largest score


def attention_with_sinks(q, k, v, sinks):
    """A score more for each head beside those of the keys, whose value is 0."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    beside = sinks[None, :, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, beside], -1), -1)[..., :-1] @ v


def main():
    unary(), norms(), binary(), reductions(), losses(), normalizations()
    text = ",\n".join(json.dumps(entry, allow_nan=False) for entry in ROWS)
    Path(__file__).with_name("kinks.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()

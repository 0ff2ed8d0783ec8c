"""Checks that a file exported at a fixed batch gives, with --batch, what it gives of each sample, or is refused.

    pip install -r tests/data/requirements.txt
    python tests/data/check_batches.py export FOLDER [NAME..]    exports the models at batch 1 (KINDS also at 2) by both exporters
    python tests/data/check_batches.py run PARTITA FILE..        runs each with --batch 3 (of another file batch B: 3 B and B + 1)

The models are those of make_models.py and make_transformers.py, and KINDS: shapes of code in which the samples do not stay along
axis 0. Each file is run by the ONNX reference evaluator, or where that cannot by PARTITA without --batch, as many samples at a time as
it was exported for; the answers, one after another, are what --batch must give. One line a file: "equal" with the largest difference
relative to the largest value, "refused" with the message, or DIFFERS; the exit code is 1 if any differs.
"""
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-5


# ---------------------------------------------------------------- export

def kinds():
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Of(nn.Module):
        """A function with modules."""

        def __init__(self, function, **modules):
            super().__init__()
            self.function = function
            for name, module in modules.items():
                setattr(self, name, module)

        def forward(self, *x):
            return self.function(self, *x)

    def parameter(*shape):
        return nn.Parameter(torch.randn(shape))

    def with_token(m, x):
        return m.out(torch.cat([m.token.expand(x.shape[0], -1, -1), x], dim=1).mean(1))

    def heads(m, x):
        b, s, d = x.shape
        q = m.q(x).view(b, s, 4, d // 4).transpose(1, 2).reshape(b * 4, s, d // 4)
        y = torch.bmm(torch.softmax(torch.bmm(q, q.transpose(1, 2)), -1), q)
        return m.out(y.view(b, 4, s, d // 4).transpose(1, 2).reshape(b, s, d)[:, 0])

    def shuffle(m, x):
        b, c, h, w = x.shape
        return m.conv(x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)).flatten(1)

    def windows(m, x):
        b, h, w, c = x.shape
        y = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        y = m.attention(y, y, y)[0].view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return y.mean((1, 2))

    class Start(nn.Module):
        def __init__(self, batch_first):
            super().__init__()
            self.lstm = nn.LSTM(6, 5, num_layers=2, batch_first=batch_first)
            self.out = nn.Linear(5, 3)
            self.batch_first = batch_first

        def forward(self, x):
            b = x.shape[0]
            y, _ = self.lstm(x if self.batch_first else x.transpose(0, 1), (torch.zeros(2, b, 5), torch.ones(2, b, 5)))
            return self.out(y[:, -1] if self.batch_first else y[-1])

    def latents(m, x):
        q = m.q(m.norm(m.l.expand(x.shape[0], -1, -1))).view(x.shape[0], -1, 2, 8).transpose(1, 2)
        k = m.k(x).view(x.shape[0], -1, 2, 8).transpose(1, 2)
        y = torch.softmax(q @ k.transpose(-1, -2), -1) @ k
        return m.o(y.transpose(1, 2).flatten(2)) + m.l

    def pairs(m, x, t):
        a, b = F.normalize(m.a(x.mean(1)), dim=-1), F.normalize(m.b(t).mean(1), dim=-1)
        return 3 * a @ b.T

    def pairs_and_towers(m, x, t, mask):
        a = F.normalize(m.a(x.mean(1)), dim=-1)
        b = F.normalize((m.b(t) * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True), dim=-1)
        return m.scale * a @ b.T, (m.scale * a @ b.T).T, a, b

    image, text, grid, ids = torch.randn(2, 8, 4, 4), torch.randn(2, 7, 16), torch.randn(2, 4, 4, 16), torch.randint(0, 9, (2, 7))
    attention = lambda first: nn.MultiheadAttention(16, 4, batch_first=first)  # noqa: E731
    return {
        "attention_first": (Of(lambda m, x: m.a(x, x, x)[0], a=attention(True)), text),
        "attention_second": (Of(lambda m, x: m.a(x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1))[0].transpose(0, 1), a=attention(False)), text),
        "attention_weights": (Of(lambda m, x: m.a(x, x, x)[1], a=attention(True)), text),
        "token": (Of(with_token, token=parameter(1, 1, 16), out=nn.Linear(16, 3)), text),
        "heads": (Of(heads, q=nn.Linear(16, 16), out=nn.Linear(16, 3)), text),
        "shuffle": (Of(shuffle, conv=nn.Conv2d(8, 4, 3)), image),
        "pixel_shuffle": (Of(lambda m, x: F.pixel_shuffle(m.conv(x), 2), conv=nn.Conv2d(8, 8, 3, padding=1)), image),
        "windows": (Of(windows, attention=attention(True)), grid),
        "lstm_first": (Start(True), torch.randn(2, 7, 6)),
        "lstm_second": (Start(False), torch.randn(2, 7, 6)),
        "gru": (Of(lambda m, x: m.g(x)[1][0], g=nn.GRU(16, 4, batch_first=True, bidirectional=True)), text),
        "flatten_0_1": (Of(lambda m, x: m.l(x.flatten(0, 1)), l=nn.Linear(16, 3)), text),
        "flatten_and_back": (Of(lambda m, x: m.l(x.flatten(0, 1)).view(x.shape[0], -1), l=nn.Linear(16, 3)), text),
        "flatten_2": (Of(lambda m, x: m.l(x.flatten(2).transpose(1, 2)).mean(1), l=nn.Linear(8, 3)), image),
        "positions": (Of(lambda m, x: m.l(x + m.p(torch.arange(x.shape[1]).expand(x.shape[0], -1))), p=nn.Embedding(9, 16), l=nn.Linear(16, 3)), text),
        "types": (Of(lambda m, x: m.w(x) + m.t(torch.zeros_like(x)), w=nn.Embedding(9, 16), t=nn.Embedding(2, 16)), ids),
        "causal": (Of(lambda m, x: F.scaled_dot_product_attention(m.l(x), x, x, is_causal=True), l=nn.Linear(16, 16)), text),
        "last": (Of(lambda m, x: m.l(x)[torch.arange(x.shape[0]), -1], l=nn.Linear(16, 3)), text),
        "largest": (Of(lambda m, x: m.w(x)[torch.arange(x.shape[0]), x.argmax(-1)], w=nn.Embedding(9, 16)), ids),
        "squeezed": (Of(lambda m, x: m.l(x.squeeze(0)).unsqueeze(0) if x.shape[0] == 1 else m.l(x), l=nn.Linear(16, 3)), text),
        "squeezed_attention": (Of(lambda m, x: torch.softmax(x[0] @ x[0].T, -1) @ m.l(x[0]), l=nn.Linear(16, 3)), text),
        "channels": (Of(lambda m, x: m.b(x).permute(1, 0, 2, 3).flatten(1).T.reshape(x.shape[0], -1), b=nn.BatchNorm2d(8)), image),
        "scale": (Of(lambda m, x: x * m.g + m.s, g=parameter(8, 1, 1), s=parameter(1, 8, 1, 1)), image),
        "group_norm": (Of(lambda m, x: m.n(x).mean((2, 3)), n=nn.GroupNorm(2, 8)), image),
        "two_inputs": (Of(lambda m, x, t: m.l(x) + m.w(t), l=nn.Linear(16, 3), w=nn.Embedding(9, 3)), (text, ids)),
        "shared_table": (Of(lambda m, x, t: m.l(x) @ t, l=nn.Linear(16, 5)), (text, torch.randn(5, 3))),
        "latents": (Of(latents, l=parameter(1, 5, 16), norm=nn.LayerNorm(16), q=nn.Linear(16, 16), k=nn.Linear(16, 16), o=nn.Linear(16, 16)), text),
        "queries": (Of(lambda m, x: m.a(m.q.weight.unsqueeze(1).repeat(1, x.shape[0], 1), x.transpose(0, 1), x.transpose(0, 1))[0].transpose(0, 1), q=nn.Embedding(5, 16), a=attention(False)), text),
        "pairs": (Of(pairs, a=nn.Linear(16, 8), b=nn.Embedding(9, 8)), (text, ids)),
        "pairs_and_towers": (Of(pairs_and_towers, a=nn.Linear(16, 8), b=nn.Embedding(9, 8), scale=parameter(1)), (text, ids, torch.rand(2, 7) + 0.5)),
        "three_inputs": (Of(lambda m, x, t, mask: m.out((m.w(x) + m.t(t)) * mask[:, :, None]), w=nn.Embedding(9, 16), t=nn.Embedding(9, 16), out=nn.Linear(16, 2)), (ids, ids % 2, torch.rand(2, 7))),
        "sizes": (Of(lambda m, x, size: m.l(x) * size[0] + size[1], l=nn.Linear(16, 3)), (text, torch.rand(2))),
        "position_ids": (Of(lambda m, x, p: m.w(x) + m.p(p.squeeze(0)), w=nn.Embedding(9, 16), p=nn.Embedding(9, 16)), (ids, torch.arange(7)[None])),
        "time_first": (Of(lambda m, x: m.l(x.transpose(0, 1)).transpose(0, 1), l=nn.TransformerEncoderLayer(16, 4, 32, 0.0)), text),
        "repeated": (Of(lambda m, x: m.l(x.repeat(1, 2, 1)).view(x.shape[0], -1), l=nn.Linear(16, 3)), text),
        "interleaved": (Of(lambda m, x: m.l(x.repeat_interleave(2, dim=0)).view(x.shape[0], 2, 7, 3), l=nn.Linear(16, 3)), text),
        # Which mix samples, and must be refused.
        "over_batch": (Of(lambda m, x: m.l(x - x.mean(0, keepdim=True)), l=nn.Linear(16, 3)), text),
        "batch_softmax": (Of(lambda m, x: torch.softmax(m.l(x), dim=0), l=nn.Linear(16, 3)), text),
        "batch_product": (Of(lambda m, x: m.l(x.mean(1)) @ m.l(x.mean(1)).T, l=nn.Linear(16, 3)), text),
        "batch_sum": (Of(lambda m, x: torch.cumsum(m.l(x), dim=0), l=nn.Linear(16, 3)), text),
        "batch_cat": (Of(lambda m, x: m.l(torch.cat([x, -x], dim=0)), l=nn.Linear(16, 3)), text),
        "first_sample": (Of(lambda m, x: m.l(x) + m.l(x[0]), l=nn.Linear(16, 3)), text),
        "reversed": (Of(lambda m, x: m.l(x.flip(0)), l=nn.Linear(16, 3)), text),
        "one_sequence": (Of(lambda m, x: m.a(x.reshape(1, -1, 16), x.reshape(1, -1, 16), x.reshape(1, -1, 16))[0].reshape(x.shape), a=attention(True)), text),
    }


def own_models():
    sys.path.insert(0, str(HERE))
    import make_models as m
    import make_transformers as t
    import torch

    torch.manual_seed(0)
    models = {"digits": (m.Digits(), torch.rand(1, 1, 8, 8)), "resnet18": (m.stir(m.ResNet18()), torch.randn(1, 3, 32, 32)), "mlp": (m.Mlp(), torch.randn(1, 12)),
              "lenet": (m.LeNet(), torch.randn(1, 1, 16, 16)), "mixed": (m.stir(m.Mixed()), torch.randn(1, 4, 9, 10)), "recurrent": (m.Recurrent(), torch.randn(1, 5, 5))}
    for name, (make, _) in t.MODELS.items():
        model, x = t.made(name, make)
        models[name] = (model, x[:1])
    return models


def export(folder, names):
    import torch
    warnings.filterwarnings("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    models = {name: (model, [x]) for name, (model, x) in own_models().items()}
    for name, (model, given) in kinds().items():
        given = given if isinstance(given, tuple) else (given,)
        batch = given[0].shape[0]
        for b in (1, 2):
            models[f"{name}-batch{b}"] = (model, [x[:b] if x.shape[0] == batch else x for x in given])
    for name, (model, x) in models.items():
        if names and name.split("-")[0] not in names:
            continue
        inputs = [f"x{i}" for i in range(len(x))]
        for way, options in (("dynamo", dict(dynamo=True, optimize=False)), ("optimized", dict(dynamo=True, optimize=True)), ("script", dict(dynamo=False))):
            path = folder / f"{name}-{way}.onnx"
            if path.exists():
                continue
            try:
                with torch.no_grad():
                    if options["dynamo"]:
                        torch.onnx.export(model.eval(), tuple(x), input_names=inputs, verbose=False, **options).save(path, external_data=False)
                    else:
                        torch.onnx.export(model.eval(), tuple(x), path, input_names=inputs, **options)
            except Exception as error:  # what an exporter does not take
                print(f"{path.name}: not exported: {str(error).splitlines()[0][:100]}", flush=True)


# ---------------------------------------------------------------- run

INTEGERS = {onnx.TensorProto.INT64, onnx.TensorProto.INT32}


def inputs_of(model):
    known = {t.name for t in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in known]


def data_for(model, samples, batch, rng):
    """Arrays by name; those whose axis 0 is the file's batch have `samples`."""
    arrays = {}
    for i in inputs_of(model):
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        if shape and shape[0] == batch:
            shape[0] = samples
        arrays[i.name] = rng.integers(1, 9, shape) if i.type.tensor_type.elem_type in INTEGERS else rng.standard_normal(shape).astype(np.float32)
    return arrays


def partita_run(partita, file, arrays, folder, *options):
    np.savez(folder / "in.npz", **arrays)
    done = subprocess.run([partita, "run", file, "--inputs", folder / "in.npz", "-o", folder / "out.npz", *options], capture_output=True, text=True)
    if done.returncode != 0:
        return None, f"exit {done.returncode}: {done.stderr.strip()}"
    with np.load(folder / "out.npz") as z:
        return {k: z[k] for k in z.files}, ""


def one_by_one(partita, file, model, arrays, samples, batch, folder):
    """The answers of the file itself, `batch` samples at a time."""
    chunks = []
    try:
        evaluator = ReferenceEvaluator(model)
    except Exception:
        evaluator = None
    shared = {i.name for i in inputs_of(model) if not i.type.tensor_type.shape.dim or i.type.tensor_type.shape.dim[0].dim_value != batch}
    for first in range(0, samples, batch):
        rows = [min(first + k, samples - 1) for k in range(batch)]
        part = {k: v if k in shared else v[rows] for k, v in arrays.items()}
        answer = None
        if evaluator:
            try:
                answer = dict(zip([o.name for o in model.graph.output], evaluator.run(None, part)))
            except Exception:
                evaluator = None
        if answer is None:
            answer, error = partita_run(partita, file, part, folder)
            if answer is None:
                return None, error
        chunks.append(answer)
    return chunks, "evaluator" if evaluator else "partita"


def met(values, shape, whole, samples, batch):
    """Of what has the samples along two axes, those where both are the same: of all samples, or of some answers."""
    axes = [a for a in range(len(shape)) if shape[a] != whole[a]]
    each = [shape[a] // batch for a in axes]
    index = lambda s: tuple(slice(None) if a not in axes else slice(s * each[axes.index(a)], (s + 1) * each[axes.index(a)]) for a in range(len(shape)))  # noqa: E731
    return np.stack([values(s)[index(s if values(s).shape == tuple(whole) else s % batch)] for s in range(samples)])


def joined(parts, shape, samples, batch):
    """Answers one after another along axis 0, or along the axis where they make this shape, without what fills the last ones up."""
    for axis in range(len(shape)):
        if any(p.ndim != len(shape) for p in parts):
            return None
        whole = np.concatenate(parts, axis)
        each = parts[0].shape[axis] // batch
        whole = np.take(whole, range(min(samples * each, whole.shape[axis])), axis)
        if whole.shape == tuple(shape):
            return whole
    return None


def check(partita, file, folder):
    """What became of each batch that was tried."""
    model = onnx.load(file)
    extents = [i.type.tensor_type.shape.dim[0].dim_value for i in inputs_of(model) if i.type.tensor_type.shape.dim]
    batch = extents[0]
    if not batch:
        return [("dynamic", "")]
    found = []
    for samples in [3] if batch == 1 else [3 * batch, batch + 1]:
        arrays = data_for(model, samples, batch, np.random.default_rng(5))
        got, error = partita_run(partita, file, arrays, folder, "--batch", str(samples))
        if got is None:
            found.append(("refused" if "\n" not in error.split("partita: ", 1)[-1] and error.startswith("exit 3") else "FAILS", error))
            continue
        parts, by = one_by_one(partita, file, model, arrays, samples, batch, folder)
        if parts is None:
            found.append(("not runnable", by))
            continue
        worst = 0.0
        for name, value in got.items():
            given = [np.asarray(p[name]) for p in parts]
            if given[0].ndim == value.ndim and sum(a != b for a, b in zip(given[0].shape, value.shape)) > 1:
                expected = met(lambda s: given[s // batch], given[0].shape, value.shape, samples, batch)  # noqa: B023
                value = met(lambda s: value, given[0].shape, value.shape, samples, batch)  # noqa: B023
            else:
                expected = joined(given, value.shape, samples, batch)
            scale = max(np.abs(expected).max(), 1e-30) if expected is not None and expected.size else 1.0
            worst = max(worst, np.abs(expected - value).max() / scale if expected is not None else np.inf)
        found.append(("equal" if worst < TOLERANCE else "DIFFERS", f"{worst:.1e} ({by})"))
    return found


def run(partita, files):
    counts = {}
    with tempfile.TemporaryDirectory() as temporary:
        for file in files:
            for verdict, detail in check(partita, file, Path(temporary)):
                counts[verdict] = counts.get(verdict, 0) + 1
                print(f"{Path(file).stem:32} {verdict:10} {detail[:220]}", flush=True)
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
    return 1 if "DIFFERS" in counts or "FAILS" in counts else 0


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "export":
        export(Path(sys.argv[2]), sys.argv[3:])
    elif len(sys.argv) > 3 and sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    else:
        sys.exit(__doc__)

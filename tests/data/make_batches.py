"""Writes cases/NAME_batch5/{model.onnx,in.npz,ref.npz}: models exported at a batch of 2, what PyTorch computes of 5 samples; and
cases/NAME/{model.onnx,in.npz,ref.npz}: three steps of SGD by PyTorch in float64, for what is worked on in micro-batches.

    pip install -r tests/data/requirements.txt
    python tests/data/make_batches.py
"""
import copy
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F

CASES = Path(__file__).resolve().parent / "cases"


class Latents(nn.Module):
    """Learned rows that attend to each sample (Perceiver, DETR's queries)."""

    def __init__(self):
        super().__init__()
        self.rows, self.norm = nn.Parameter(torch.randn(1, 5, 8)), nn.LayerNorm(8)
        self.q, self.k = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x):
        q, k = self.q(self.norm(self.rows.expand(x.shape[0], -1, -1))), self.k(x)
        return torch.softmax(q @ k.transpose(1, 2), -1) @ k


class Pairs(nn.Module):
    """Two towers, and logits of every image with every text (CLIP)."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.scale = nn.Linear(4, 8), nn.Embedding(9, 8), nn.Parameter(torch.tensor(1.5))

    def forward(self, image, ids, mask):
        a = F.normalize(self.a(image), dim=-1)
        b = F.normalize((self.b(ids) * mask[:, :, None]).sum(1), dim=-1)
        logits = self.scale.exp() * a @ b.T
        return logits, logits.T, a, b


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.kind, self.out = nn.Embedding(9, 8), nn.Embedding(2, 8), nn.Linear(8, 2)

    def forward(self, ids, types, mask):
        x = self.word(ids) + self.kind(types)
        return self.out(torch.softmax(x @ x.transpose(1, 2) + (1 - mask)[:, None] * -1e4, -1) @ x)


class TimeFirst(nn.Module):
    """batch_first=False: samples are the inner digit of sequence x batch, and the middle one of sequence x batch x heads."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0)
        self.each, self.out = nn.Linear(4, 4), nn.Linear(8, 3)

    def forward(self, x):
        y = self.layer(x.transpose(0, 1))
        y = y + torch.tanh(self.each(y.reshape(-1, 4))).reshape(y.shape)
        return self.out(y.reshape(-1, 8)).reshape(x.shape[1], x.shape[0], 3).transpose(0, 1)


class Normalized(nn.Module):
    """Batch norm that keeps no running statistics, with and without scales of its own."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.first, self.second = nn.BatchNorm2d(4, track_running_stats=False), nn.BatchNorm2d(4, affine=False, track_running_stats=False)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        return self.out(torch.relu(self.second(torch.relu(self.first(self.conv(x))))).mean((2, 3)))


def export(folder, model, inputs):
    folder.mkdir(parents=True, exist_ok=True)
    names = list(inputs)
    path = folder / "model.onnx"
    torch.onnx.export(model.eval(), tuple(inputs.values()), dynamo=True, optimize=False, input_names=names, verbose=False).save(path, external_data=False)
    file = onnx.load(path)
    for node in file.graph.node:  # lines of source files
        kept = [p for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for value in [*file.graph.value_info, *file.graph.initializer, *file.graph.output]:
        del value.metadata_props[:]
    onnx.save(file, path)


def numpy(tensors):
    return {k: np.ascontiguousarray(v.detach().numpy()) for k, v in tensors.items()}


def other_batch(name, model, inputs):
    folder = CASES / f"{name}_batch5"
    export(folder, model, {k: v[:2] for k, v in inputs.items()})
    with torch.no_grad():
        outputs = model(*inputs.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    names = [o.name for o in onnx.load(folder / "model.onnx").graph.output]
    np.savez(folder / "in.npz", **numpy(inputs))
    np.savez(folder / "ref.npz", **numpy(dict(zip(names, outputs, strict=True))))


def trained(name, model, x, labels):
    folder = CASES / name
    export(folder, model, {"x": x})
    model, x = copy.deepcopy(model).double().train(), x.double()
    sgd, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        sgd.zero_grad()
        loss = F.mse_loss(model(x), labels.double())
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    np.savez(folder / "in.npz", x=x.numpy(), labels=labels.numpy())
    np.savez(folder / "ref.npz", losses=np.array(losses), **numpy(dict(model.named_parameters())))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    ids, mask = torch.randint(0, 9, (5, 7)), (torch.rand(5, 7) < 0.8).float()
    mask[:, 0] = 1
    other_batch("latents", Latents(), {"x": torch.randn(5, 7, 4)})
    other_batch("pairs", Pairs(), {"image": torch.randn(5, 4), "ids": ids, "mask": mask})
    other_batch("three_inputs", Bert(), {"ids": ids, "types": ids % 2, "mask": mask})
    trained("time_first", TimeFirst(), torch.randn(8, 5, 8), torch.randn(8, 5, 3))
    trained("batch_norm_of_batch", Normalized(), torch.randn(6, 3, 6, 6), torch.randn(6, 3))

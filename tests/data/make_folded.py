"""Writes folded/: models whose parameters the exporters' optimizers transpose, look up, expand, cut or compute with.

    python tests/data/make_folded.py

Needs torch, onnx, onnxscript and numpy. For each NAME: NAME-optimized.onnx (the newer exporter, optimize=True) and
NAME-torchscript.onnx (the older one), and NAME.npz in float64: x, labels, and `losses` and final.PARAMETER of five steps of
PyTorch's SGD (lr 0.1) on the mean squared error, of the model as it is in float32. The files' names say nothing that a test reads.
"""
import copy
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

FOLDER = Path(__file__).resolve().parent / "folded"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "examples"))
from relative_paths import make_paths_relative  # noqa: E402

D, V = 8, 12


class Positions(nn.Module):
    """A table of positions, looked up at constant places."""

    def __init__(self):
        super().__init__()
        self.words, self.places, self.inner, self.head = nn.Embedding(V, D), nn.Embedding(10, D), nn.Linear(D, D), nn.Linear(D, V)

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1]) + 2)
        return self.head(torch.tanh(self.inner(h)))


class TokenTypes(nn.Module):
    """One row of a table for every word."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds, self.inner = nn.Embedding(V, D), nn.Embedding(2, D), nn.Linear(D, D)

    def forward(self, x):
        return self.inner(torch.tanh(self.words(x) + self.kinds(torch.zeros_like(x))))


class TiedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(V, D), nn.Linear(D, D), nn.Linear(D, V, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(torch.tanh(self.inner(self.words(x))))


class TiedByHand(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner = nn.Embedding(V, D), nn.Linear(D, D)

    def forward(self, x):
        return torch.tanh(self.inner(self.words(x))) @ self.words.weight.t()


class TiedRows(nn.Module):
    """The head has the first rows only."""

    def __init__(self):
        super().__init__()
        self.words, self.inner = nn.Embedding(V, D), nn.Linear(D, D)

    def forward(self, x):
        return F.linear(torch.tanh(self.inner(self.words(x))), self.words.weight[:7])


class Called(nn.Module):
    """One layer called twice, and two whose weight is one."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(D, D, bias=False), nn.Linear(D, D), nn.Linear(D, D)
        self.c.weight = self.b.weight

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(torch.tanh(self.a(x)))))))


class Copies(nn.Module):
    """Layers that begin equal and are not one: copies, and some filled with one number or the identity matrix."""

    def __init__(self):
        super().__init__()
        layer = nn.Linear(D, D)
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(3)])
        self.first, self.second, self.third, self.fourth = (nn.Linear(D, D, bias=False) for _ in range(4))
        nn.init.constant_(self.first.weight, 0.125), nn.init.constant_(self.second.weight, 0.125)
        nn.init.eye_(self.third.weight), nn.init.eye_(self.fourth.weight)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.fourth(torch.tanh(self.third(torch.sin(x) + self.second(torch.tanh(self.first(x) + x)))))


class Expanded(nn.Module):
    """A class token for every sample, and positions."""

    def __init__(self, zero=False):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, D) if zero else torch.randn(1, 1, D))
        self.places, self.head = nn.Parameter(torch.randn(1, 7, D)), nn.Linear(D, 3)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(torch.tanh(x).mean(1))


class Sliced(nn.Module):
    def __init__(self):
        super().__init__()
        self.places, self.head = nn.Parameter(torch.randn(1, 16, D)), nn.Linear(D, 3)

    def forward(self, x):
        return self.head(torch.tanh(x + self.places[:, : x.shape[1]]))


class SlicedTwice(nn.Module):
    """Parts of one parameter that have elements in common."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(9, D)), nn.Linear(D, 3)

    def forward(self, x):
        return self.head(torch.tanh(x + self.table[:6]) * torch.sigmoid(x - self.table[:6].flip(0)))


class Biased(nn.Module):
    """Relative positions in attention: a table looked up at differences, transposed."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads, self.table = heads, nn.Parameter(torch.randn(7, heads))
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        places = torch.arange(6)
        self.register_buffer("index", (places[:, None] - places[None]).clamp(-3, 3) + 3)

    def forward(self, x):
        bias = self.table[self.index.view(-1)].view(6, 6, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        q, k, v = (layer(x).view(x.shape[0], 6, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return (torch.softmax(q @ k.transpose(-1, -2) + bias, -1) @ v).transpose(1, 2).reshape(x.shape)


class Turned(nn.Module):
    """A convolution and its transpose with one weight."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(4, 4, 3, 3) / 4), nn.Conv2d(4, 3, 1)

    def forward(self, x):
        x = torch.tanh(F.conv2d(x, self.weight, padding=1))
        return self.head(F.conv2d(x, self.weight.transpose(0, 1).flip(2, 3), padding=1)).mean((2, 3))


class Joined(nn.Module):
    """Pieces of one parameter, in another order."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Parameter(torch.randn(6, D)), nn.Linear(D, 3)

    def forward(self, x):
        return self.head(torch.tanh(x + torch.cat([self.table[3:], self.table[:3]])))


class Viewed(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.randn(D)), nn.Linear(D, 3)

    def forward(self, x):
        return self.head(torch.tanh(x * self.scale.view(1, 4, 2).permute(0, 2, 1).reshape(1, 1, D)))


class Fused(nn.Module):
    """Three matrices in one parameter."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3 * D, D) / 3), nn.Parameter(torch.randn(3 * D))

    def forward(self, x):
        q, k, v = (F.linear(x, w, b) for w, b in zip(self.weight.chunk(3), self.bias.chunk(3)))
        return torch.tanh(q + k) * v


class Computed(nn.Module):
    """What is computed with a parameter, or with two, is a constant: `frozen` has these."""

    def __init__(self):
        super().__init__()
        self.scale, self.a, self.b, self.head = nn.Parameter(torch.randn(D)), nn.Parameter(torch.randn(2, D)), nn.Parameter(torch.randn(4, D)), nn.Linear(D, 3)

    frozen = ("scale", "a", "b")

    def forward(self, x):
        return self.head(torch.tanh(x * torch.exp(self.scale) + torch.cat([self.a, self.b])))


def words():
    return torch.randint(0, V, (3, 5))


def rows():
    return torch.randn(3, 6, D)


MODELS = {"positions": (Positions, words), "token_types": (TokenTypes, words), "tied_head": (TiedHead, words), "tied_by_hand": (TiedByHand, words), "tied_rows": (TiedRows, words),
          "called": (Called, rows), "copies": (Copies, rows), "expanded": (Expanded, rows), "expanded_zeros": (lambda: Expanded(True), rows), "sliced": (Sliced, rows),
          "sliced_twice": (SlicedTwice, rows), "biased": (Biased, rows), "turned": (Turned, lambda: torch.randn(2, 4, 6, 6)), "joined": (Joined, rows), "viewed": (Viewed, rows), "fused": (Fused, rows),
          "computed": (Computed, rows)}


def reference(model, x, labels):
    model = copy.deepcopy(model).double()
    frozen = getattr(model, "frozen", ())
    optimizer = torch.optim.SGD([p for name, p in model.named_parameters() if name not in frozen], lr=0.1)
    x = x.double() if x.is_floating_point() else x
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": np.array(losses)} | {f"final.{name}": p.detach().numpy() for name, p in model.named_parameters()}


def main():
    warnings.filterwarnings("ignore")
    FOLDER.mkdir(exist_ok=True)
    for name, (make, data) in MODELS.items():
        torch.manual_seed(3)
        model, x = make().eval(), data()
        labels = torch.randn_like(model(x).double())
        np.savez(FOLDER / f"{name}.npz", x=x.numpy(), labels=labels.numpy(), **reference(model, x, labels))
        path = FOLDER / f"{name}-optimized.onnx"
        torch.onnx.export(copy.deepcopy(model), (x,), dynamo=True, optimize=True, input_names=["x"], output_names=["y"], verbose=False).save(path)
        make_paths_relative(path)
        torch.onnx.export(copy.deepcopy(model), (x,), FOLDER / f"{name}-torchscript.onnx", dynamo=False, input_names=["x"], output_names=["y"], opset_version=17)


if __name__ == "__main__":
    main()

"""Writes cases/functions_at_kinks: PyTorch's functions at their ties, bounds and zeros, as its exporter writes them in pieces, and three steps of SGD
in float64; and cases/root_of_zero, whose derivative is infinite in PyTorch too. Needs torch, onnx and onnxscript.

    python tests/data/make_kink_model.py
"""
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F

STEPS, LR = 3, 5.0
ZERO_ROW = [[0.0, 0.0, 0.0], [1.0, 2.0, 2.0], [0.0, 3.0, -4.0]]
# Each has a parameter [3, 3], is multiplied by x, and gives [n, 3] or [n, 3, 3].
FUNCTIONS = {
    "std": (lambda z: z.std(-1), [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [0.0, 0.0, 0.0]]),
    "biased_std": (lambda z: z.std(-1, correction=0), [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [0.0, 0.0, 0.0]]),
    "norm": (lambda z: torch.linalg.vector_norm(z, dim=-1), ZERO_ROW),
    "norm1": (lambda z: torch.linalg.vector_norm(z, 1, dim=-1), ZERO_ROW),
    "norm3": (lambda z: torch.linalg.vector_norm(z, 3, dim=-1), ZERO_ROW),
    "normalize": (lambda z: F.normalize(z, dim=-1), ZERO_ROW),
    "normalize3": (lambda z: F.normalize(z, p=3.0, dim=-1), ZERO_ROW),
    "cosine": (lambda z: F.cosine_similarity(z, z.flip(-1) + 1, dim=-1, eps=1e-2), ZERO_ROW),
    "clamp": (lambda z: torch.clamp(z, -1, 2), [[-1.0, 2.0, 0.0], [-2.0, 3.0, 1.0], [-1.0, -1.0, 2.0]]),
    "clamp_min": (lambda z: z.clamp_min(0.0), ZERO_ROW),
    "clamp_tensor": (lambda z: z.clamp(torch.tensor([-1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 2.0])),
                     [[-1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [-2.0, 0.5, 3.0]]),
    "maximum": (lambda z: torch.maximum(z, torch.tensor(0.0)), ZERO_ROW),
    "maximum_of_two": (lambda z: torch.maximum(z, z.flip(-1)), ZERO_ROW),
    "hardtanh": (F.hardtanh, [[-1.0, 1.0, 0.0], [-2.0, 3.0, 1.0], [-1.0, -1.0, 0.5]]),
    "relu6": (torch.nn.ReLU6(), [[0.0, 6.0, 1.0], [-1.0, 7.0, 6.0], [0.0, 0.0, 2.0]]),
    "hardswish": (F.hardswish, [[-3.0, 3.0, 0.0], [1.0, -3.0, 4.0], [0.0, 0.0, -5.0]]),
    "hardsigmoid": (F.hardsigmoid, [[-3.0, 3.0, 0.0], [1.0, -3.0, 4.0], [0.0, 0.0, -5.0]]),
    "softshrink": (F.softshrink, [[-0.5, 0.5, 0.0], [1.0, -2.0, 4.0], [0.0, 0.0, -5.0]]),
    "threshold": (lambda z: F.threshold(z, 0.5, 0.25), [[-0.5, 0.5, 0.0], [1.0, -2.0, 4.0], [0.0, 0.0, -5.0]]),
    "elu": (lambda z: F.elu(z, 1.5), ZERO_ROW),
    "selu": (F.selu, ZERO_ROW),
    "celu": (lambda z: F.celu(z, 1.5), ZERO_ROW),
    "leaky_relu": (F.leaky_relu, ZERO_ROW),
    "logsigmoid": (F.logsigmoid, [[0.0, -1000.0, 100.0], [1.0, 2.0, -3.0], [0.0, 0.0, -2.0]]),
    "bce": (lambda z: F.binary_cross_entropy(torch.sigmoid(z), torch.tensor([0.0, 1.0, 0.5]).to(z).expand_as(z), reduction="none"),
            [[1000.0, -1000.0, 1.0], [-1000.0, 1000.0, 1000.0], [0.0, 2.0, -3.0]]),
    "xlogy": (lambda z: torch.xlogy(z, z * z + 1), ZERO_ROW),
    "pow": (lambda z: z ** 1.5, [[0.0, 0.0, 1.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]),
    "pow0": (lambda z: z ** 0 + z, ZERO_ROW),
    "square": (lambda z: z ** 2, ZERO_ROW),
    "logsumexp": (lambda z: torch.logsumexp(torch.where(z == 0, -torch.inf, z), -1), [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [2.0, 3.0, 3.0]]),
    "softmax": (lambda z: F.softmax(torch.where(z == 0, -torch.inf, z), -1), [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [2.0, 3.0, 3.0]]),
    "max": (lambda z: z.max(-1)[0], [[1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 2.0, 1.0]]),
    "abs": (torch.abs, ZERO_ROW),
    "fmod": (lambda z: torch.fmod(z, 2.0), ZERO_ROW),
    "remainder": (lambda z: torch.remainder(z, 2.0), ZERO_ROW),
}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name, (_, start) in FUNCTIONS.items():
            self.register_parameter("p_" + name, torch.nn.Parameter(torch.tensor(start)))

    def forward(self, x):
        all = [function(x * getattr(self, "p_" + name)) for name, (function, _) in FUNCTIONS.items()]
        return torch.cat([y.flatten(1) for y in all], 1)


class RootOfZero(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.root = torch.nn.Linear(3, 2)
        torch.nn.init.zeros_(self.root.weight), torch.nn.init.zeros_(self.root.bias)

    def forward(self, x):
        return torch.sqrt(self.root(x))


def export(model, x, folder):
    folder.mkdir(exist_ok=True)
    exported = torch.onnx.export(model, (x,), dynamo=True, optimize=False, input_names=["x"], output_names=["y"], verbose=False).model_proto
    for node in exported.graph.node:  # without what takes most of the file, and nobody reads
        kept = [p for p in node.metadata_props if not p.key.endswith(("stack_trace", "fx_node"))]
        node.ClearField("metadata_props")
        node.metadata_props.extend(kept)
    onnx.save(exported, folder / "model.onnx")


def train(model, x, labels, folder, lr):
    """Three steps of SGD in float64; writes what goes in, the losses and the parameters into the folder."""
    model.double()
    optimizer, losses = torch.optim.SGD(model.parameters(), lr), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.double()), labels.double())
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    print(folder.name, "losses", losses)
    np.savez_compressed(folder / "in.npz", x=x.numpy(), labels=labels.numpy())
    np.savez_compressed(folder / "ref.npz", losses=np.array(losses), **{n: p.detach().numpy() for n, p in model.named_parameters()})


def main():
    torch.manual_seed(3)
    export(RootOfZero().eval(), torch.ones(4, 3), Path(__file__).with_name("cases") / "root_of_zero")
    model, folder = Model(), Path(__file__).with_name("cases") / "functions_at_kinks"
    # Powers of 2, under which ties and bounds stay what they are at 1 and move at 0.5.
    x = torch.tensor([1.0, 1.0, 0.5, 1.0])[:, None, None] * torch.ones(4, 3, 3)
    export(model.eval(), x, folder)
    labels = torch.randn(model(x).shape)
    train(model, x, labels, folder, LR)
    assert all(torch.isfinite(p).all() for p in model.parameters())


if __name__ == "__main__":
    main()

"""Writes cases/frozen_norm: a model in training mode, as PyTorch's exporter writes it, with a batch norm that is trained, one that is in eval(), and
a function batch_norm(training=False), and three steps of SGD in float64. Needs torch, onnx and onnxscript.

    python tests/data/make_frozen_norm.py
"""
import torch
import torch.nn.functional as F
from make_kink_model import export
from pathlib import Path

import numpy as np

STEPS, LR = 3, 0.1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        self.trained, self.frozen, self.called = (torch.nn.BatchNorm1d(4) for _ in range(3))

    def forward(self, x):
        y = self.frozen(self.trained(self.first(x)))
        c = self.called
        return self.second(F.batch_norm(y, c.running_mean, c.running_var, c.weight, c.bias, training=False))


def main():
    torch.manual_seed(7)
    model = Model()
    for norm in (model.frozen, model.called):
        norm.running_mean.uniform_(-1, 1), norm.running_var.uniform_(0.5, 2)
    model.train()
    model.frozen.eval()
    folder, x = Path(__file__).with_name("cases") / "frozen_norm", torch.randn(6, 3)
    export(model, x, folder)
    labels = torch.randn(6, 2)
    model.double()
    optimizer, losses = torch.optim.SGD(model.parameters(), LR), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.double()), labels.double())
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    print("losses", losses)
    np.savez_compressed(folder / "in.npz", x=x.numpy(), labels=labels.numpy())
    np.savez_compressed(folder / "ref.npz", losses=np.array(losses), **{n: p.detach().numpy() for n, p in model.named_parameters()})


if __name__ == "__main__":
    main()

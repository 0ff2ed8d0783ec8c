"""Writes residual.onnx and residual-groups.npz: PyTorch's gradient accumulation on a small ResNet. Needs torch, onnx and numpy.

    python tests/data/make_groups.py

Five steps of SGD (lr 0.01, momentum 0.9) in float64 on one batch of 12 samples, in training mode. A step runs forward and backward on
each of M runs of 12 / M samples, one after another, with its part of the mean cross-entropy; so each has batch norm statistics of its
own, and running statistics take them in order.
    x, labels        the batch
    M.losses         for M = 2 and 3: the losses of the whole batch
    M.final.NAME     parameters and running statistics afterwards, under PyTorch's names
"""
import copy
import warnings

import numpy as np
import torch
from make_models import HERE, BasicBlock, export, stir
from torch import nn

SAMPLES = 12


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.block1 = BasicBlock(4, 4, 1)
        self.block2 = BasicBlock(4, 8, 2)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.block2(self.block1(x)).mean((2, 3)))


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    model, x, labels = stir(Residual()), torch.randn(SAMPLES, 3, 12, 12), torch.randint(0, 5, (SAMPLES,))
    export("residual", copy.deepcopy(model).train(), x, optimize=False)
    x = x.double()
    out = {"x": x.numpy(), "labels": labels.numpy()}
    for parts in (2, 3):
        net = copy.deepcopy(model).double().train()
        sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        losses = []
        for _ in range(5):
            sgd.zero_grad()
            loss = 0.0
            for part_x, part_labels in zip(x.chunk(parts), labels.chunk(parts), strict=True):
                part = nn.functional.cross_entropy(net(part_x), part_labels) / parts
                part.backward()
                loss += part.item()
            sgd.step()
            losses.append(loss)
        out[f"{parts}.losses"] = np.array(losses)
        for name, value in net.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                out[f"{parts}.final.{name}"] = value.numpy()
    np.savez_compressed(HERE / "residual-groups.npz", **out)


if __name__ == "__main__":
    main()

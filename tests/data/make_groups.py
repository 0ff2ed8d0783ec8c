"""Writes resnet18-groups.npz: PyTorch's gradient accumulation on resnet18.onnx. Needs torch, onnx and numpy.

    python tests/data/make_groups.py

Five steps of SGD (lr 0.01, momentum 0.9) in float64 on the batch of resnet18-reference.npz, in training mode. A step runs forward and
backward on each of M runs of 6 / M samples, one after another, with its part of the mean cross-entropy; so each has batch norm
statistics of its own, and running statistics take them in order. For M = 2 and 3:
    M.losses         the losses of the whole batch
    M.final.NAME     running statistics and the smaller parameters afterwards, under PyTorch's names
"""
import copy

import numpy as np
import onnx
import torch
from make_models import HERE, ResNet18
from torch import nn

LARGEST = 600  # numbers of a tensor that is written


def main():
    data = np.load(HERE / "resnet18-reference.npz")
    x, labels = torch.from_numpy(data["x"]), torch.from_numpy(data["labels"])
    weights = {w.name: torch.from_numpy(onnx.numpy_helper.to_array(w).copy()) for w in onnx.load(HERE / "resnet18.onnx").graph.initializer}
    model = ResNet18()
    missing = model.load_state_dict({name: weights[name] for name in model.state_dict() if name in weights}, strict=False).missing_keys
    assert all(name.endswith("num_batches_tracked") for name in missing), missing
    out = {}
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
            if not name.endswith("num_batches_tracked") and value.numel() <= LARGEST:
                out[f"{parts}.final.{name}"] = value.numpy()
    np.savez_compressed(HERE / "resnet18-groups.npz", **out)


if __name__ == "__main__":
    main()

"""Writes unet.onnx, and gpt2-accumulated.npz: PyTorch's gradient accumulation on the GPT-2 of gpt2.onnx. Needs torch, transformers,
onnx and numpy.

    python tests/data/make_pipelined.py

Five steps of AdamW in float64 on one batch of 12 sequences. A step runs forward and backward on each of M runs of 12 / M sequences, one
after another, with its part of the mean cross-entropy over all tokens, and clips the norm of the sum.
    x, labels        the batch
    M.losses         for M = 2 and 4: the losses of the whole batch
    M.final.NAME     parameters afterwards, under PyTorch's names
"""
import copy
import warnings

import numpy as np
import torch
from make_models import HERE, export, stir
from make_transformers import MODELS, made, with_constants_as_exported
from torch import nn

SAMPLES = 12


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    """Two levels down and up; what each level leaves on the way down is joined to it on the way up."""

    def __init__(self, width=4):
        super().__init__()
        self.down1, self.down2, self.bottom = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up2, self.join2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), block(4 * width, 2 * width)
        self.up1, self.join1 = nn.ConvTranspose2d(2 * width, width, 2, 2), block(2 * width, width)
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        x = self.bottom(nn.functional.max_pool2d(second, 2))
        x = self.join2(torch.cat([self.up2(x), second], 1))
        return self.out(self.join1(torch.cat([self.up1(x), first], 1)))


def accumulated(model, x, labels, parts):
    model = with_constants_as_exported(copy.deepcopy(model).double().train())
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    losses = []
    for _ in range(5):
        adamw.zero_grad()
        loss = 0.0
        for part_x, part_labels in zip(x.chunk(parts), labels.chunk(parts), strict=True):
            y = model(part_x)
            part = nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), part_labels.reshape(-1)) / parts
            part.backward()
            loss += part.item()
        assert nn.utils.clip_grad_norm_(model.parameters(), 0.5) > 0.5
        adamw.step()
        losses.append(loss)
    return losses, dict(model.named_parameters())


def main():
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    export("unet", stir(UNet()).train(), torch.randn(4, 3, 16, 16), optimize=False)
    model, _ = made("gpt2", MODELS["gpt2"][0])
    x, labels = torch.randint(1, 40, (SAMPLES, 8)), torch.randint(0, 40, (SAMPLES, 8))
    out = {"x": x.numpy(), "labels": labels.numpy()}
    for parts in (2, 4):
        losses, weights = accumulated(model, x, labels, parts)
        out[f"{parts}.losses"] = np.array(losses)
        for name, value in weights.items():
            out[f"{parts}.final.{name}"] = value.detach().numpy()
    np.savez_compressed(HERE / "gpt2-accumulated.npz", **out)


if __name__ == "__main__":
    main()

"""A small convolutional classifier of 8x8 digits, exported to digits.onnx beside this file.

Needs torch, onnx and onnxscript:  python export_digits.py [FOLDER]
"""
import sys
from pathlib import Path

import torch
from torch import nn

from relative_paths import make_paths_relative

HERE = Path(__file__).resolve().parent
BATCH = 45  # divides the 360 test samples; 4 devices get 11, 11, 11 and 12 samples each


class Block(nn.Module):
    """Convolution, batch norm, ReLU; the extents stay as they are."""

    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Digits(nn.Module):
    """Images [batch, 1, 8, 8] to the logits of the ten digits."""

    def __init__(self):
        super().__init__()
        self.stem = Block(1, 16)
        self.middle = Block(16, 32)
        self.pool = nn.MaxPool2d(2)
        self.top = Block(32, 64)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        x = self.pool(self.middle(self.stem(x)))
        return self.classifier(self.mean(self.top(x)).flatten(1))


def main():
    file = Path(sys.argv[1] if len(sys.argv) > 1 else HERE) / "digits.onnx"
    torch.manual_seed(0)
    model = Digits().eval()  # with .train() the exporter writes the same nodes; batch norm is put into training form on import
    # optimize=False keeps batch norm; the optimizer would fold it into the convolution before it, which is no model to train.
    program = torch.onnx.export(model, (torch.zeros(BATCH, 1, 8, 8),), dynamo=True, optimize=False,
                                input_names=["x"], output_names=["logits"])
    program.save(file, external_data=False)
    make_paths_relative(file, HERE)


if __name__ == "__main__":
    main()

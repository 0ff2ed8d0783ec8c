"""A small language model of characters, exported to language_model.onnx beside this file, and its data.

The text is the project's own LICENSE. Samples are runs of 64 characters; the label of each character is the one after it.

Needs torch, onnx and onnxscript:  python export_language_model.py [FOLDER]
"""
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from relative_paths import make_paths_relative

HERE = Path(__file__).resolve().parent
BATCH, STEPS, HIDDEN, HEADS, LAYERS = 16, 64, 64, 4, 2


class Block(nn.Module):
    """Causal attention and a feed-forward network, each normalised first and added to what it read."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    """Characters [batch, steps] to the logits of the next ones [batch, steps, characters]."""

    def __init__(self, characters):
        super().__init__()
        self.characters = nn.Embedding(characters, HIDDEN)
        self.positions = nn.Parameter(0.02 * torch.randn(STEPS, HIDDEN))
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, characters)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.characters(x) + self.positions)))


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else HERE)
    text = (HERE.parent / "LICENSE").read_text()
    number = {c: i for i, c in enumerate(sorted(set(text)))}
    line = np.array([number[c] for c in text])
    samples = (len(line) - 1) // STEPS
    np.savez_compressed(folder / "text.npz", x=line[: samples * STEPS].reshape(-1, STEPS), labels=line[1 : samples * STEPS + 1].reshape(-1, STEPS))
    torch.manual_seed(0)
    program = torch.onnx.export(LanguageModel(len(number)).eval(), (torch.zeros(BATCH, STEPS, dtype=torch.long),), dynamo=True,
                                optimize=False, input_names=["x"], output_names=["logits"])
    program.save(folder / "language_model.onnx", external_data=False)
    make_paths_relative(folder / "language_model.onnx", HERE)


if __name__ == "__main__":
    main()

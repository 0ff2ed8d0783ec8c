#!/usr/bin/env python3
"""Times whole training steps of GPT-2, of four layers of Llama 3 8B and of ResNet-50 in plain PyTorch on a GPU.

    python3 step.py [gpt2] [llama] [resnet]

The models are those of bench/README.md, of the same sizes and batches as there, under autocast to bfloat16 and with a
fused optimizer. For each it prints milliseconds a step, the median and the least, as eager PyTorch runs it and with
torch.compile, and the peak of the memory that was allocated.
"""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"


class GPT2Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        samples, tokens, hidden = x.shape
        parts = self.qkv(self.norm_1(x)).split(hidden, 2)
        q, k, v = (y.view(samples, tokens, self.heads, -1).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(samples, tokens, hidden))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers=12, hidden=768, heads=12, vocabulary=50257, tokens=1024):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, hidden), nn.Embedding(tokens, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.layers = nn.ModuleList(GPT2Layer(hidden, heads) for _ in range(layers))

    def forward(self, ids, labels):
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.words.weight.t()
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class RMSNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, hidden=4096, heads=32, key_heads=8, inner=14336):
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, hidden // heads
        self.norm_1, self.norm_2 = RMSNorm(hidden), RMSNorm(hidden)
        widths = (hidden, key_heads * self.size, key_heads * self.size, hidden)
        self.q, self.k, self.v, self.out = (nn.Linear(hidden, width, bias=False) for width in widths)
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, cos, sin):
        samples, tokens, hidden = x.shape
        y = self.norm_1(x)
        heads = lambda m, n: m(y).view(samples, tokens, n, self.size).transpose(1, 2)
        q, k, v = heads(self.q, self.heads), heads(self.k, self.key_heads), heads(self.v, self.key_heads)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (z.repeat_interleave(self.heads // self.key_heads, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(samples, tokens, hidden))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers=4, vocabulary=128256, hidden=4096, tokens=8192):
        super().__init__()
        self.words, self.norm = nn.Embedding(vocabulary, hidden), RMSNorm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(layers))
        angles = torch.outer(torch.arange(tokens), 500000.0 ** (-torch.arange(0, 128, 2) / 128)).float()
        self.register_buffer("angles", torch.cat((angles, angles), -1))

    def forward(self, ids, labels):
        x = self.words(ids)
        angles = self.angles[: ids.shape[1]]
        cos, sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        import torchvision

        self.model = torchvision.models.resnet50().to(memory_format=torch.channels_last)

    def forward(self, images, labels):
        return F.cross_entropy(self.model(images).float(), labels)


def clock(step, seconds=4.0):
    """(median, least) milliseconds of a step, over groups of five."""
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    begin, times = time.time(), []
    while time.time() - begin < seconds:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        marks[0].record()
        for _ in range(5):
            step()
        marks[1].record()
        marks[1].synchronize()
        times.append(marks[0].elapsed_time(marks[1]) / 5)
    times.sort()
    return times[len(times) // 2], times[0]


def report(name, make, inputs, optimizer):
    for mode in ("eager", "compile"):
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        model = make().to(DEVICE)
        update = optimizer(model.parameters())
        run = torch.compile(model) if mode == "compile" else model

        def step():
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = run(*inputs)
            loss.backward()
            update.step()
            update.zero_grad(set_to_none=True)

        median, least = clock(step)
        memory = torch.cuda.max_memory_allocated() / 1e9
        print(f"{name:32} {mode:8} median {median:7.2f} ms  least {least:7.2f} ms  {memory:6.2f} GB", flush=True)


def main():
    torch.manual_seed(0)
    chosen = sys.argv[1:] or ["gpt2", "llama", "resnet"]
    words = lambda vocabulary, *shape: torch.randint(0, vocabulary, shape, device=DEVICE)
    adam = lambda parameters: torch.optim.Adam(parameters, lr=1e-4, fused=True)
    sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True)
    if "gpt2" in chosen:
        report("GPT-2, batch 16", GPT2, (words(50257, 16, 1024), words(50257, 16, 1024)), adam)
    if "llama" in chosen:
        report("4 layers of Llama 3 8B, batch 1", Llama, (words(128256, 1, 8192), words(128256, 1, 8192)), adam)
    if "resnet" in chosen:
        images = torch.randn(128, 3, 224, 224, device=DEVICE).contiguous(memory_format=torch.channels_last)
        report("ResNet-50, batch 128", ResNet50, (images, words(1000, 128)), sgd)


if __name__ == "__main__":
    main()

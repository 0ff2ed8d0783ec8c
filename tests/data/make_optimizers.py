"""Writes optimizers.json: what PyTorch's optimizers, clipping and schedules make of one small regression. Needs torch.

    python tests/data/make_optimizers.py

y = x w + b with the mean of (y - labels)^2, eight steps on the same four samples, in float64. A run has Partita's settings
(`optimizer`, `lr`, ..) and the loss before each step, w and b after the last.
"""
import json
import math
from pathlib import Path

import torch

STEPS = 8


def linear(warmup, steps):
    """transformers.get_linear_schedule_with_warmup"""
    return lambda t: t / max(1, warmup) if t < warmup else max(0.0, (steps - t) / max(1, steps - warmup))


def cosine(warmup, steps):
    """transformers.get_cosine_schedule_with_warmup"""
    return lambda t: t / max(1, warmup) if t < warmup else max(0.0, 0.5 * (1 + math.cos(math.pi * (t - warmup) / max(1, steps - warmup))))


def lambda_lr(factor):
    return lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


RUNS = [
    ({"optimizer": "sgd", "lr": 0.1}, torch.optim.SGD, {}, None),
    ({"optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.02}, torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.02}, None),
    ({"optimizer": "sgd?nesterov=1", "lr": 0.1, "momentum": 0.8}, torch.optim.SGD, {"momentum": 0.8, "nesterov": True}, None),
    ({"optimizer": "adam", "lr": 0.1}, torch.optim.Adam, {}, None),
    ({"optimizer": "adam?beta1=0.8,beta2=0.95,eps=1e-3", "lr": 0.1, "weight_decay": 0.05}, torch.optim.Adam,
     {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.05}, None),
    ({"optimizer": "adamw", "lr": 0.1, "weight_decay": 0.05}, torch.optim.AdamW, {"weight_decay": 0.05}, None),
    ({"optimizer": "adagrad", "lr": 0.1}, torch.optim.Adagrad, {}, None),
    ({"optimizer": "adagrad", "lr": 0.1, "weight_decay": 0.05}, torch.optim.Adagrad, {"weight_decay": 0.05}, None),
    ({"optimizer": "sgd", "lr": 0.2, "clip_norm": 0.25}, torch.optim.SGD, {}, None),
    ({"optimizer": "adamw", "lr": 0.05, "weight_decay": 0.01, "clip_norm": 1e3}, torch.optim.AdamW, {"weight_decay": 0.01}, None),
    ({"optimizer": "sgd", "lr": 0.1, "schedule": "constant?warmup=3"}, torch.optim.SGD, {}, lambda_lr(lambda t: min(1.0, t / 3))),
    ({"optimizer": "sgd", "lr": 0.1, "schedule": "linear?steps=6"}, torch.optim.SGD, {}, lambda_lr(linear(0, 6))),
    ({"optimizer": "adam", "lr": 0.1, "schedule": "linear?warmup=2,steps=8"}, torch.optim.Adam, {}, lambda_lr(linear(2, 8))),
    ({"optimizer": "sgd", "lr": 0.1, "schedule": "cosine?steps=8"}, torch.optim.SGD, {},
     lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)),
    ({"optimizer": "adamw", "lr": 0.1, "weight_decay": 0.01, "clip_norm": 0.5, "schedule": "cosine?warmup=3,steps=7"}, torch.optim.AdamW,
     {"weight_decay": 0.01}, lambda_lr(cosine(3, 7))),
]


def main():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    x, labels = torch.randn(4, 3), torch.randn(4, 2)
    w0, b0 = torch.randn(3, 2), torch.randn(2)
    runs = []
    for settings, optimizer_class, options, schedule in RUNS:
        w, b = w0.clone().requires_grad_(), b0.clone().requires_grad_()
        optimizer = optimizer_class([w, b], lr=settings["lr"], **options)
        scheduler = schedule(optimizer) if schedule else None
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = ((x @ w + b - labels) ** 2).mean()
            loss.backward()
            if "clip_norm" in settings:
                torch.nn.utils.clip_grad_norm_([w, b], settings["clip_norm"])
            optimizer.step()
            if scheduler:
                scheduler.step()
            losses.append(loss.item())
        runs.append({**settings, "losses": losses, "w": w.flatten().tolist(), "b": b.tolist()})
    data = {"torch": torch.__version__, "x": x.flatten().tolist(), "labels": labels.flatten().tolist(), "w": w0.flatten().tolist(),
            "b": b0.tolist(), "runs": runs}
    (Path(__file__).resolve().parent / "optimizers.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares what tools/profile_torch.py computes with values that another program computed from the same formulas.

    check_profile_torch.py WORKLIST VALUES

VALUES has a list with an object a kernel of the work list: `reads` and `writes`, each with a list of numbers a tensor,
in the order of the work list. Floating numbers are float64. Exit codes: 0 equal, 1 not, 77 there is no PyTorch.
"""
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import profile_torch as p  # noqa: E402
import torch  # noqa: E402

# Their functions remember a forward pass, and write its results into operands.
WITH_A_PAST = {"attention_grad", "cross_entropy_grad", "batch_norm_grad", "max_pool_grad"}


def tensor_of(numbers, dtype, box):
    values = torch.tensor([float(x) for x in numbers], dtype=torch.float64).to(dtype)
    return values.reshape([high - low for low, high in box])


def off_by(found, wanted):
    a, b = found.double(), wanted.double()
    if a.shape != b.shape:
        return math.inf
    off = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, (a - b).abs() / b.abs().clamp(min=1))
    return float(off.nan_to_num(nan=math.inf).max()) if off.numel() else 0.0


def main():
    work = p.read_worklist(sys.argv[1])
    torch.set_default_dtype(torch.float64)
    device, compared, wrong = torch.device("cpu"), 0, []
    for entry, values in zip(work["kernels"], p.read_json(sys.argv[2])):
        make = lambda: p.Kernel(entry, work["formulas"][entry["formula"]])
        kernel = make()
        operands = {}
        for (tensor, (dtype, box)), numbers in zip(kernel.reads.items(), values["reads"]):
            operands[tensor] = (tensor_of(numbers, dtype, box), [low for low, _ in box])
        wanted = {t: tensor_of(n, *kernel.writes[t]) for t, n in zip(kernel.writes, values["writes"])}
        ways = {"each point": lambda: p.Evaluator(make(), device, naive=True).run(operands)}
        ways["stages"] = lambda: p.Evaluator(make(), device).run(operands)
        if kernel.definition not in WITH_A_PAST:
            ways["functions"] = lambda: p.prepared(make(), operands, device)()
        for way, run in ways.items():
            try:
                off = max((off_by(value.detach(), wanted[t]) for t, value in run().items()), default=0.0)
            except Exception as error:  # all are reported
                off = f"{type(error).__name__}: {p.reason(error)}"
            compared += 1
            if not isinstance(off, float) or not off < 1e-9:
                wrong.append(f"{kernel.text()} {kernel.attributes} ranges {kernel.ranges}, {way}: {off}")
    print(f"compared {compared}, {len(wrong)} differ")
    print("\n".join(wrong))
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())

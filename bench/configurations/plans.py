#!/usr/bin/env python3
"""Plans the models that people train, by default: how long it takes, and whether a rule's plan is faster.

    bench/configurations/plans.py [PROGRAM] [--only times,rules] [--draws N] [--seed S]

`times` plans well-known models on well-known clusters with no option but the batch, dtype and optimizer, and compares
the seconds from the program's start to its end with a goal. `rules` draws models, clusters and batches by a printed
seed, and compares the simulated step of `auto` with those of rules. The last line of each part says how many goals are
met. Exit codes: 0 all met, 1 not all, 2 usage.
"""
import argparse
import json
import random
import resource
import subprocess
import sys
import time

# model, batch, cluster, seconds
GOALS = [
    ("zoo:llama-3-8b", 64, "dgx-h100", 5),
    ("zoo:llama-3-70b", 256, "dgx-h100:8", 10),
    ("zoo:llama-3-405b", 2048, "dgx-h100:2048", 60),
    ("zoo:mixtral-8x7b", 512, "dgx-h100:8", 20),
    ("zoo:resnet-18", 256, "p2.8xlarge", 3),
    ("zoo:bert-large", 64, "dgx-1-32gb", 5),
]
DRAWN_MODELS = ["zoo:llama-3-8b?layers=8", "zoo:llama-3-8b", "zoo:llama-3-70b?layers=16", "zoo:gpt2", "zoo:gpt2-xl",
                "zoo:bert-large", "zoo:mixtral-8x7b?layers=8"]
DRAWN_CLUSTERS = ["dgx-h100", "dgx-h100:2", "dgx-h100:4", "dgx-a100", "dgx-a100:4", "p4d:2"]
RULES = ["data-parallel", "zero?stage=1", "zero?stage=2", "zero?stage=3", "zero?stage=3,recompute=layer", "megatron",
         "megatron?zero=1,sequence=1", "megatron?zero=1,recompute=layer",
         "megatron?pipeline=2,layers=even,zero=1,micro-batch-size=1",
         "megatron?tensor=1,pipeline=4,layers=even,zero=1,micro-batch-size=1",
         "zero?stage=2,micro-batch-size=1", "zero?stage=3,micro-batch-size=1"]


def plan(program, model, batch, cluster, search, language=True):
    """The JSON of a plan, or None, with the seconds on the clock and of the processors."""
    command = [program, "plan", model, "--batch", str(batch), "--cluster", cluster, "--objective", "time", "--search",
               search, "--json"]
    if language:
        command += ["--dtype", "bf16", "--optimizer", "adamw"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (json.loads(run.stdout) if run.returncode == 0 else None), seconds, cpu


def times(program):
    met = 0
    print(f"{'model':<18} {'batch':>6} {'cluster':<14} {'seconds':>8} {'of CPU':>7} {'goal':>5}  step")
    for model, batch, cluster, goal in GOALS:
        found, seconds, cpu = plan(program, model, batch, cluster, "auto", "resnet" not in model)
        met += found is not None and seconds <= goal
        step = f"{found['step_time_us'] / 1e6:.3f} s by {found['search']}" if found else "no plan"
        print(f"{model:<18} {batch:>6} {cluster:<14} {seconds:>8.1f} {cpu:>7.1f} {goal:>5}  {step}", flush=True)
    print(f"times: {met} of {len(GOALS)} goals met")
    return met == len(GOALS)


def rules(program, draws, seed):
    print(f"{draws} draws, seed {seed}")
    rng, met = random.Random(seed), 0
    for _ in range(draws):
        model, cluster = rng.choice(DRAWN_MODELS), rng.choice(DRAWN_CLUSTERS)
        batch = rng.choice([16, 32, 64, 128, 256])
        found, seconds, _ = plan(program, model, batch, cluster, "auto")
        best, by = None, "none fits"
        for rule in RULES:
            other, _, _ = plan(program, model, batch, cluster, rule)
            if other and (best is None or other["step_time_us"] < best):
                best, by = other["step_time_us"], rule
        ratio = found["step_time_us"] / best if found and best else None
        good = (ratio is not None and ratio <= 1.0005) or (found is not None and best is None) or (
            found is None and best is None)
        met += good
        shown = f"{ratio:.3f}" if ratio else "-"
        print(f"{shown:>6} of the best rule  {seconds:5.1f} s  {model}, batch {batch} on {cluster}: "
              f"{found['search'] if found else 'no plan'}; {by}{'' if good else '  SLOWER'}", flush=True)
    print(f"rules: {met} of {draws} not slower than any rule")
    return met == draws


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="build/release/partita")
    parser.add_argument("--only", default="times,rules")
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--seed", type=int, default=57)
    a = parser.parse_args()
    parts = a.only.split(",")
    good = [times(a.program) if part == "times" else rules(a.program, a.draws, a.seed) for part in parts]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

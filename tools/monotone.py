#!/usr/bin/env python3
"""Plans small models with less and less memory, and with slower and faster links: more of either never gives a longer step.

    tools/monotone.py [--seed N] [--cases N] [--program build/release/partita]

Draws models, clusters, searches and settings from the seed, which is printed. Each case is planned with all memory; then with a limit
just below what the plan before needed, until nothing fits; then on a cluster file whose links have twice the bandwidth. A step that is
shorter with less memory, or longer with faster links, is printed with its command. Exits 1 if there is one. (docs/plan.md)
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

MODELS = ["zoo:mlp?layers=6,width=256", "zoo:resnet-18?image=32,width=16", "zoo:gpt2?layers=4,hidden=128,heads=4,vocabulary=512,steps=64",
          "zoo:transformer?layers=4,hidden=128,heads=4,vocabulary=256,steps=32", "zoo:rnnlm?steps=6,hidden=128,vocabulary=256"]
RULES = ["data-parallel", "zero?stage=1", "zero?stage=2", "fsdp", "megatron?tensor=2", "megatron?tensor=2,zero=1", "model-parallel", "owt", "single",
         "pipeline?stages=2", "pipeline?stages=4", "pipeline?stages=2,virtual=2", "pipeline?stages=2,schedule=gpipe", "megatron?tensor=2,pipeline=2",
         "megatron?tensor=2,pipeline=2,zero=1", "layer-placement"]
SEARCHES = ["soybean", "tofu", "exact", "placement", "soap", "flexflow", "auto"]
TOLERANCE = 1.001  # orders about as fast as the fastest are as good (kAboutAsFast is of one plan alone)


def planned(program, words):
    done = subprocess.run([program, "plan", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4, 5):
        print(f"exit code {done.returncode}: {' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout) if done.returncode == 0 else None


def drawn(rng, searches):
    words = [rng.choice(MODELS), "--batch", str(rng.choice([16, 32, 64])), "--search", rng.choice(searches),
             "--optimizer", rng.choice(["sgd", "adam"])]
    if rng.random() < 0.3:
        words += ["--dtype", "bfloat16"]
    if rng.random() < 0.3:
        words += ["--recompute", rng.choice(["cheap", "layer"])]
    if rng.random() < 0.3:
        words += ["--micro-batches", rng.choice(["2", "4"])]
    if rng.random() < 0.5:
        words += ["--objective", "time"]
    return words


def wider(text):
    return re.sub(r"(?<!memory_)(bandwidth_gbytes_per_s: )([0-9.]+)", lambda m: f"{m[1]}{2 * float(m[2])}", text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--program", default="build/release/partita")
    parser.add_argument("--searches", action="store_true", help="other searches than rules")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng = random.Random(args.seed)
    found = looked_at = 0
    for _ in range(args.cases):
        words = drawn(rng, SEARCHES if args.searches else RULES)
        cluster = rng.choice(["dgx-1", "flexflow-p100", "dgx-h100", "p2.8xlarge"])
        more = planned(args.program, words + ["--cluster", cluster])
        if more is None:
            continue
        longest, below = more, more["peak_memory_bytes"]
        for _ in range(6):
            limit = int(below - max(1, below // rng.choice([1000, 50, 10])))
            less = planned(args.program, words + ["--cluster", cluster, "--memory-limit", f"{limit}B"])
            if less is None:
                break
            looked_at += 1
            if less["step_time_us"] * TOLERANCE < longest["step_time_us"]:
                found += 1
                print(f"{longest['step_time_us']:.1f} us with {below} bytes, {less['step_time_us']:.1f} us with less: "
                      f"{' '.join(words)} --cluster {cluster} --memory-limit {limit}B", flush=True)
            longest = max(longest, less, key=lambda plan: plan["step_time_us"])
            below = min(below, less["peak_memory_bytes"])
        yaml = subprocess.run([args.program, "clusters", cluster], capture_output=True, text=True, check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wider.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(wider(yaml))
            faster = planned(args.program, words + ["--cluster", path])
            looked_at += 1
            if faster and faster["step_time_us"] > more["step_time_us"] * TOLERANCE:
                found += 1
                print(f"{more['step_time_us']:.1f} us, and {faster['step_time_us']:.1f} us with twice the bandwidth: "
                      f"{' '.join(words)} --cluster {cluster}", flush=True)
    print(f"{looked_at} pairs, {found} where more is longer")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

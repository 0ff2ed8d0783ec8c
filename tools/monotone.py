#!/usr/bin/env python3
"""Plans small models with less and less memory, with faster links, and with more steps of search: more never gives a worse plan.

    tools/monotone.py [--seed N] [--cases N] [--searches [NAME,..]] [--program build/release/partita]

Draws models, clusters, searches and settings from the seed, which is printed. Each case is planned with all memory; then with a limit
just below what the plan before needed, until nothing fits; then on a cluster file whose links have twice the bandwidth; a search that is
no rule also with two and four times --max-steps. Plans are judged by what their search minimises: the step's time, of `auto` and
`exact` without `--objective time` the bytes, of `exact` with it the time of all parts one after another. What is better with less is
printed with its command. Exits 1 if there is one. (docs/reference/plan.md)
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
          "zoo:transformer?layers=4,hidden=128,heads=4,vocabulary=256,steps=32", "zoo:rnnlm?steps=6,hidden=128,vocabulary=256",
          "zoo:moe?layers=2,hidden=64,heads=2,steps=16,vocabulary=100,experts=4,groups=8"]
RULES = ["data-parallel", "zero?stage=1", "zero?stage=2", "fsdp", "megatron?tensor=2", "megatron?tensor=2,zero=1", "model-parallel", "owt", "single",
         "pipeline?stages=2", "pipeline?stages=4", "pipeline?stages=2,virtual=2", "pipeline?stages=2,schedule=gpipe", "megatron?tensor=2,pipeline=2",
         "megatron?tensor=2,pipeline=2,zero=1", "layer-placement"]
SEARCHES = ["soybean", "tofu", "exact", "placement", "soap", "flexflow", "auto"]
WHOLE_BATCH = ["placement", "soap", "flexflow"]  # that plan no micro-batches
TOLERANCE = 1.001  # orders about as fast as the fastest are as good (kAboutAsFast is of one plan alone)


def planned(program, words):
    done = subprocess.run([program, "plan", *words, "--json"], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4, 5):
        print(f"exit code {done.returncode}: {' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout) if done.returncode == 0 else None


def drawn(rng, searches):
    search = rng.choice(searches)
    words = [rng.choice(MODELS), "--batch", str(rng.choice([16, 32, 64])), "--search", search, "--optimizer", rng.choice(["sgd", "adam"])]
    if rng.random() < 0.3:
        words += ["--dtype", "bfloat16"]
    if rng.random() < 0.3:
        words += ["--recompute", rng.choice(["cheap", "layer"])]
    if rng.random() < 0.3 and search not in WHOLE_BATCH:
        words += ["--micro-batches", rng.choice(["2", "4"])]
    if rng.random() < 0.5:
        words += ["--objective", "time"]
    return words


def wider(text):
    return re.sub(r"(?<!memory_)(bandwidth_gbytes_per_s: )([0-9.]+)", lambda m: f"{m[1]}{2 * float(m[2])}", text)


def measure(words):
    """The key of --json that the search minimises."""
    search, in_time = words[words.index("--search") + 1].split("?")[0], "--objective" in words
    if search == "exact" and in_time:
        return "serial_time_us"
    return "comm_bytes" if search in ("auto", "exact") and not in_time else "step_time_us"


class Pairs:
    """Counts pairs of plans, and prints those where the one with more is worse."""

    def __init__(self):
        self.looked_at = self.found = 0

    def compare(self, key, more, less, what):
        self.looked_at += 1
        if less[key] * TOLERANCE < more[key]:
            self.found += 1
            print(f"{key} {more[key]:.1f} with more, {less[key]:.1f} with less: {what}", flush=True)


def less_memory(program, words, cluster, best, rng, pairs):
    key, below = measure(words), best["peak_memory_bytes"]
    for _ in range(6):
        limit = int(below - max(1, below // rng.choice([1000, 50, 10])))
        less = planned(program, words + ["--cluster", cluster, "--memory-limit", f"{limit}B"])
        if less is None:
            return
        pairs.compare(key, best, less, f"{' '.join(words)} --cluster {cluster} --memory-limit {limit}B, and {below}B")
        best = max(best, less, key=lambda plan: plan[key])
        below = min(below, less["peak_memory_bytes"])


def faster_links(program, words, cluster, slower, pairs):
    yaml = subprocess.run([program, "clusters", cluster], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "wider.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(wider(yaml))
        faster = planned(program, words + ["--cluster", path])
    if faster:
        pairs.compare(measure(words), faster, slower, f"{' '.join(words)} --cluster {cluster}, and twice the bandwidth")


def more_steps(program, words, cluster, steps, less, pairs):
    for times in (2, 4):
        more = planned(program, words + ["--cluster", cluster, "--max-steps", str(times * steps)])
        if more:
            pairs.compare(measure(words), more, less, f"{' '.join(words)} --cluster {cluster} --max-steps {steps}, and {times} times")
            less = min(less, more, key=lambda plan: plan[measure(words)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--program", default="build/release/partita")
    parser.add_argument("--searches", nargs="?", const=",".join(SEARCHES), help="these, by default all that are no rules, in place of rules")
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    rng, pairs = random.Random(args.seed), Pairs()
    for _ in range(args.cases):
        words = drawn(rng, args.searches.split(",") if args.searches else RULES)
        cluster = rng.choice(["dgx-1", "flexflow-p100", "dgx-h100", "p2.8xlarge"])
        steps = rng.choice([20, 100, 300])
        limited = words + (["--max-steps", str(steps)] if args.searches else [])
        first = planned(args.program, limited + ["--cluster", cluster])
        if first is None:
            continue
        less_memory(args.program, limited, cluster, first, rng, pairs)
        faster_links(args.program, limited, cluster, first, pairs)
        if args.searches:
            more_steps(args.program, words, cluster, steps, first, pairs)
    print(f"{pairs.looked_at} pairs, {pairs.found} where more is worse")
    return 1 if pairs.found else 0


if __name__ == "__main__":
    sys.exit(main())

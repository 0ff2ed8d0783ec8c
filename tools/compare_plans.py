#!/usr/bin/env python3
"""Whether two builds of Partita give the same plans, byte for byte: for a change that is to change no behaviour.

    tools/compare_plans.py BEFORE AFTER [--sample N] [--seed S] [--jobs J] [--only TEXT] [--times]

BEFORE and AFTER are two programs, or BEFORE is a commit whose program is built first (in a worktree beside build/, minutes).
Each case is a model, a search, an objective, a number of devices and a cluster: the plan file, what `plan --json` prints without its
times, and the simulated trace are compared. --sample N draws N of the cases, by a printed seed. With --times each search is timed
too, in turns, and the ratio of the medians is printed for those that take longest.
Exit codes: 0 all equal, 1 something differs or one of the programs failed where the other did not, 2 usage.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MODELS = [
    "zoo:mlp", "zoo:mlp?layers=3,width=13,batch=10,bias=0", "zoo:cnn?batch=8,layers=3,image=6,filters=16", "zoo:lenet",
    "zoo:inception-v3?batch=8,blocks=1,image=107", "zoo:wide-deep?batch=64,vocabulary=1000", "zoo:transformer?layers=1",
    "zoo:moe?layers=1", "zoo:alexnet?batch=32", "zoo:vgg-16?batch=16", "zoo:resnet-18?batch=32,blocks=1",
    "zoo:wresnet-50-4?batch=16,blocks=1", "zoo:vit-b16?layers=1,batch=8", "zoo:rnn-4-4K?steps=2",
    "zoo:rnnlm?steps=2", "zoo:nmt?steps=2,layers=1", "zoo:gpt2?layers=1,batch=6", "zoo:llama-3-8b?layers=1,batch=8,hidden=512,heads=8,key_heads=2,inner=1024,vocabulary=1000",
    "zoo:mixtral-8x7b?layers=1,batch=4,hidden=256,heads=8,key_heads=2,inner=512,vocabulary=1000", "examples/digits.onnx",
]
SEARCHES = [
    "single", "data-parallel", "model-parallel", "owt", "megatron", "megatron?tensor=2", "layer-placement",
    "layer-placement?assign=contiguous", "soybean", "soybean?tilings=all", "tofu", "tofu?coarsening=off", "allrow-greedy",
    "spartan", "equal-chop", "icml18", "zero?stage=1", "zero?stage=2", "fsdp", "swap", "small-batch", "exact", "auto",
]
CLUSTERS = [["--devices", "2"], ["--devices", "3"], ["--devices", "4"], ["--cluster", "p2.8xlarge"]]
EXTRAS = [[], ["--recompute", "cheap"], ["--dtype", "bfloat16"], ["--optimizer", "adamw"]]
STEPS = "20"  # of exact and auto, whose budget in steps makes them repeatable


def all_cases():
    """Every model with every search and cluster; the objective and one further option go round."""
    cases = []
    for m, model in enumerate(MODELS):
        for s, search in enumerate(SEARCHES):
            for c, cluster in enumerate(CLUSTERS):
                turn = m + s + c
                case = [model, "--search", search, *cluster, "--objective", ["comm", "time"][turn % 2], *EXTRAS[turn % 7 if turn % 7 < 4 else 0]]
                if search in ("exact", "auto"):
                    case += ["--max-steps", STEPS]
                cases.append(case)
    return cases


def run(program, words, folder):
    """What one program makes of a case: {part: hash or text}, and its seconds."""
    plan, trace = os.path.join(folder, "plan.json"), os.path.join(folder, "trace.json")
    begin = time.time()
    done = subprocess.run([program, "plan", *words, "--json", "-o", plan], capture_output=True, text=True, cwd=ROOT)
    seconds = time.time() - begin
    printed = re.sub(r'"(search_seconds|seconds|[a-z_]+_seconds)": *[0-9.e+-]+', "", done.stdout).replace(folder, "")
    said = re.sub(r"(?m)^ *[0-9.]+ s  .*\n", "", done.stderr)  # progress, which comes by the clock
    said = re.sub(r"\b\d+(\.\d+)?(e-?\d+)? (s|ms)\b", "T", said).replace(folder, "")
    parts = {"exit code": done.returncode, "figures": printed, "messages": said}
    for name, path in (("plan", plan), ("trace", trace)):
        if name == "trace" and os.path.exists(plan):
            subprocess.run([program, "simulate", plan, "--trace", trace], capture_output=True, cwd=ROOT)
        if os.path.exists(path):
            with open(path, "rb") as file:
                parts[name] = hashlib.sha256(file.read()).hexdigest()
            os.remove(path)
    return parts, seconds


def compare(before, after, words):
    with tempfile.TemporaryDirectory() as folder:
        old, old_seconds = run(before, words, folder)
        new, new_seconds = run(after, words, folder)
    differs = [part for part in sorted(old.keys() | new.keys()) if old.get(part) != new.get(part)]
    return words, differs, old, new, old_seconds, new_seconds


def time_ratios(before, after, words, repeats):
    """Medians of `repeats` runs in turns."""
    seconds = {before: [], after: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            for program in (before, after):
                begin = time.time()
                subprocess.run([program, "plan", *words, "-o", os.path.join(folder, "plan.json")], capture_output=True, cwd=ROOT)
                seconds[program].append(time.time() - begin)
    return statistics.median(seconds[before]), statistics.median(seconds[after])


def program_of(word):
    """A program's path; a commit is checked out and built beside this build."""
    if os.path.isfile(word):
        return os.path.abspath(word)
    commit = subprocess.run(["git", "rev-parse", "--verify", "--quiet", word + "^{commit}"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    if not commit:
        sys.exit(f"{word}: neither a program nor a commit")
    tree = os.path.join(ROOT, "build", "before-" + commit[:12])
    if not os.path.isdir(tree):
        subprocess.run(["git", "worktree", "add", "--detach", tree, commit], check=True, cwd=ROOT)
        if os.path.isdir(os.path.join(ROOT, ".deps")):
            os.symlink(os.path.join(ROOT, ".deps"), os.path.join(tree, ".deps"))
    subprocess.run("cmake --preset release --log-level=WARNING && cmake --build --preset release --target partita", shell=True, check=True, cwd=tree, stdout=sys.stderr)
    return os.path.join(tree, "build/release/partita")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("before")
    options.add_argument("after")
    options.add_argument("--sample", type=int)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--only", help="cases whose words contain this")
    options.add_argument("--times", action="store_true", help="time the slowest dozen of what was compared")
    args = options.parse_args()
    before, after = program_of(args.before), program_of(args.after)
    cases = [c for c in all_cases() if not args.only or args.only in " ".join(c)]
    if args.sample and args.sample < len(cases):
        print(f"{args.sample} of {len(cases)} cases, drawn with seed {args.seed}")
        cases = random.Random(args.seed).sample(cases, args.sample)
    wrong, plans, slow = 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for words, differs, old, new, old_seconds, new_seconds in pool.map(lambda c: compare(before, after, c), cases):
            plans += "plan" in new
            slow.append((old_seconds, new_seconds, words))
            if not differs:
                continue
            wrong += 1
            print(f"DIFFERS in {', '.join(differs)}: partita plan {' '.join(words)}")
            for part in differs:
                print(f"  {part}\n    before {str(old.get(part))[:300]!r}\n    after  {str(new.get(part))[:300]!r}")
            sys.stdout.flush()
    if args.times:
        for _, _, words in sorted(slow, key=lambda s: -s[0])[:12]:
            a, b = time_ratios(before, after, words, 5)
            print(f"{b / a:6.3f}  {a:7.2f} s {b:7.2f} s  {' '.join(words)}")
    print(f"{len(cases) - wrong} cases equal ({plans} plans), {wrong} differ; {sum(s[0] for s in slow):.0f} s before, {sum(s[1] for s in slow):.0f} s after")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())

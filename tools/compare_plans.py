#!/usr/bin/env python3
"""Whether two builds of Partita give the same plans, byte for byte: for a change that is to change no behaviour.

    tools/compare_plans.py BEFORE AFTER [--sample N] [--seed S] [--jobs J] [--only TEXT] [--times]

BEFORE and AFTER are two programs, or BEFORE is a commit whose program is built first (in a worktree beside build/, minutes).
Each case is a model and a search of those that both programs list (`partita models`, `partita searches`), an objective, a number of devices and
a cluster: the plan file, what `plan --json` prints without its
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

# Options that keep a model of the zoo small; one that is not here is cut down by those of SMALLER that it has. Searches of nasnet take minutes.
SMALL = {
    "zoo:mlp": ["", "layers=3,width=13,batch=10,bias=0"], "zoo:cnn": ["batch=8,layers=3,image=6,filters=16"],
    "zoo:inception-v3": ["batch=8,blocks=1,image=107"], "zoo:wide-deep": ["batch=64,vocabulary=1000"],
    "zoo:alexnet": ["batch=32"], "zoo:vgg-16": ["batch=16"], "zoo:resnet-18": ["batch=32,blocks=1"],
    "zoo:vit-b16": ["layers=1,batch=8"], "zoo:nasnet": [], "zoo:gpt2": ["layers=1,batch=6"],
    "zoo:llama-3-8b": ["layers=1,batch=8,hidden=512,heads=8,key_heads=2,inner=1024,vocabulary=1000"],
    "zoo:mixtral-8x7b": ["layers=1,batch=4,hidden=256,heads=8,key_heads=2,inner=512,vocabulary=1000"],
}
SMALLER = {"layers": 1, "blocks": 1, "steps": 2, "batch": 16}
FILES = ["examples/digits.onnx"]
CLUSTERS = [["--devices", "2"], ["--devices", "3"], ["--devices", "4"], ["--cluster", "p2.8xlarge"]]
EXTRAS = [[], ["--recompute", "cheap"], ["--dtype", "bfloat16"], ["--optimizer", "adamw"]]
STEPS = "20"  # of exact and auto, whose budget in steps makes them repeatable


def listed(program, what):
    """What `partita models` or `partita searches` lists: {name: entry}."""
    done = subprocess.run([program, what, "--json"], capture_output=True, text=True, check=True)
    return {entry["name"]: entry for entry in json.loads(done.stdout)[what]}


def known_by_both(before, after, what):
    """What both programs list, with the options that BEFORE has: {name: options}."""
    old, new = listed(before, what), listed(after, what)
    for name in sorted(old.keys() ^ new.keys()):
        print(f"{name}: known to one of the programs alone, and left out")
    return {name: old[name]["options"] for name in new if name in old}


def models_of(before, after):
    """References to the models that both programs know, small; of several sizes, as rnn-4-4K and rnn-6-4K, the first."""
    references, families = [], set()
    for name, options in known_by_both(before, after, "models").items():
        family = re.match(r"zoo:[a-z]+", name).group()
        if family in families:
            continue
        families.add(family)
        smaller = ",".join(f"{option}={value}" for option, value in SMALLER.items() if option in options)
        references += [name + ("?" + words if words else "") for words in SMALL.get(name, [smaller])]
    return references + FILES


def searches_of(before, after):
    """All searches that both programs know: with defaults, and with each other value of one option ("N": 2)."""
    searches = []
    for name, options in known_by_both(before, after, "searches").items():
        searches.append(name)
        for option, values in options.items():
            searches += [f"{name}?{option}={'2' if value == 'N' else value}" for value in values[1:] if value not in ("PxQ", "A-B")]
    return searches


def all_cases(before, after):
    """Every model with every search and cluster; the objective and one further option go round."""
    cases = []
    models, searches = models_of(before, after), searches_of(before, after)
    for m, model in enumerate(models):
        for s, search in enumerate(searches):
            for c, cluster in enumerate(CLUSTERS):
                turn = m + s + c
                case = [model, "--search", search, *cluster, "--objective", ["comm", "time"][turn % 2], *EXTRAS[turn % 7 if turn % 7 < 4 else 0]]
                if search.split("?")[0] in ("exact", "auto"):
                    case += ["--max-steps", STEPS]
                cases.append(case)
    return cases


def without_pages(text):
    """Pages of the documentation, which comments of clusters and messages name, may move without a change of behaviour."""
    return re.sub(r"docs/[\w/-]+\.md", "docs/..", text)


def run(program, words, folder):
    """What one program makes of a case: {part: hash or text}, and its seconds."""
    plan, trace = os.path.join(folder, "plan.json"), os.path.join(folder, "trace.json")
    begin = time.time()
    done = subprocess.run([program, "plan", *words, "--json", "-o", plan], capture_output=True, text=True, cwd=ROOT)
    seconds = time.time() - begin
    printed = re.sub(r'"(search_seconds|seconds|[a-z_]+_seconds)": *[0-9.e+-]+', "", done.stdout).replace(folder, "")
    said = re.sub(r"(?m)^ *[0-9.]+ s  .*\n", "", done.stderr)  # progress, which comes by the clock
    said = re.sub(r"\b\d+(\.\d+)?(e-?\d+)? (s|ms)\b", "T", said).replace(folder, "")
    parts = {"exit code": done.returncode, "figures": without_pages(printed), "messages": without_pages(said)}
    for name, path in (("plan", plan), ("trace", trace)):
        if name == "trace" and os.path.exists(plan):
            subprocess.run([program, "simulate", plan, "--trace", trace], capture_output=True, cwd=ROOT)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                parts[name] = hashlib.sha256(without_pages(file.read()).encode()).hexdigest()
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
    cases = [c for c in all_cases(before, after) if not args.only or args.only in " ".join(c)]
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

#!/usr/bin/env python3
"""Runs the fuzz targets (tests/fuzz/targets), each for some seconds, and says what each found. `make fuzz` builds them before.

    tools/fuzz.py [--build DIR] [--seconds N] [--seed N] [--jobs N] [TARGET..]        without TARGET: all

A target fails if its reader crashes, hangs for 20 seconds, takes 2 GiB, or throws what is no bad-input error. It begins with its seed
files of up to 64 kB: those in tests/fuzz/targets/seeds/TARGET, and those that its source names after "Seeds:". Inputs that reach new
code are kept in DIR/corpus/TARGET, and the next run begins with them too. Exit codes: 0 nothing found, 1 something was, 2 it cannot
run.
"""
import concurrent.futures
import glob
import os
import random
import re
import subprocess
import sys

import words

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "tests/fuzz/targets")
MOST_SEED_BYTES = 1 << 16
MOST_LINES = 30  # of a finding's report
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", f"-max_len={MOST_SEED_BYTES}"]


def targets():
    return sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(SOURCES, "*.cc")))


def seeds_of(target):
    patterns = [f"tests/fuzz/targets/seeds/{target}/*"]
    with open(os.path.join(SOURCES, target + ".cc"), encoding="utf-8") as file:
        if named := re.search(r"^// Seeds: (.*)$", file.read(), re.M):
            patterns += named.group(1).split()
    files = [path for pattern in patterns for path in sorted(glob.glob(os.path.join(ROOT, pattern)))]
    return [path for path in files if os.path.getsize(path) <= MOST_SEED_BYTES]


def report_of(printed):
    """The beginning of what is wrong, and where the input is."""
    lines = printed.splitlines(keepends=True)
    wrong = [i for i, line in enumerate(lines) if re.search(r"ERROR|terminate called|runtime error", line)]
    begin = wrong[0] if wrong else max(0, len(lines) - MOST_LINES)
    written = [line for line in lines[begin + MOST_LINES:] if "Test unit written" in line]
    return "".join(lines[begin:begin + MOST_LINES] + written)


def run(target, args):
    """(the line that says how it went, what it printed if it found something)."""
    corpus, found = (os.path.join(args.build, name, target) for name in ("corpus", "found"))
    for folder in (corpus, found):
        os.makedirs(folder, exist_ok=True)
    seeds = seeds_of(target)
    listed = os.path.join(args.build, "corpus", target + ".seeds")
    with open(listed, "w", encoding="utf-8") as file:
        file.write(",".join(seeds))
    command = [os.path.join(args.build, "fuzz_" + target), f"-max_total_time={args.seconds}", f"-seed={args.seed}",
               *LIMITS, f"-artifact_prefix={found}/", "-print_final_stats=1", f"-seed_inputs=@{listed}", corpus]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT)
    count = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
    edges = re.findall(r"\bcov: (\d+)", done.stderr)
    line = f"{target:12} {len(seeds):4} seeds  {count.group(1) if count else '?':>8} inputs  {edges[-1] if edges else '?':>6} edges"
    if done.returncode == 0:
        return line, ""
    log = os.path.join(args.build, "found", target + ".txt")
    with open(log, "w", encoding="utf-8") as file:
        file.write(done.stderr)
    return line + "  FOUND", f"{report_of(done.stderr)}all of it: {log}\n"


def main():
    options = words.Parser(__doc__)
    options.add_argument("--build", default=os.path.join(ROOT, "build/fuzz"))
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--seed", type=int, default=random.randrange(1, 1 << 32))
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("targets", nargs="*", metavar="TARGET")
    args = options.parse_args()
    chosen = args.targets or targets()
    if missing := [t for t in chosen if not os.path.exists(os.path.join(args.build, "fuzz_" + t))]:
        print(f"fuzz: not built: {', '.join(missing)}; there are {', '.join(targets())}; make fuzz builds them")
        return 2
    print(f"fuzz: {args.seconds} seconds each, seed {args.seed} (tools/fuzz.py --seed {args.seed})", flush=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for line, printed in pool.map(lambda target: run(target, args), chosen):
            print(f"fuzz: {line}\n{printed}", end="", flush=True)
            failed += bool(printed)
    print(f"fuzz: {len(chosen)} targets, {failed} with a finding")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

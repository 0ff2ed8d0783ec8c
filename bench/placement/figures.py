#!/usr/bin/env python3
"""All figures of placement, in one run.

    cmake --build --preset release --target partita partita_coarsen_bench partita_certify_bench
    python3 -m venv /tmp/judge && /tmp/judge/bin/pip install ortools          # optional: CP-SAT beside ours
    /tmp/judge/bin/python bench/placement/figures.py

Three parts, one after another, which --only chooses from:
  coarsen    30,000 operations to 200 vertices
  variants   our search beside Pesto's program (--solver-seconds) and experts, both in the framework's order and longest
             ways first, Pesto's eleven models (--models: some)
  instances  small random problems, then four families of 50 to 200 vertices (--vertices), --seconds each: our schedules
             and bounds, and CP-SAT's with the same seconds. Each has a processor of its own
Each ends with what was to be reached, `met` or `missed`. Exits with 1 where CP-SAT contradicts ours (judge.py) or a
part cannot be run. --write FOLDER keeps the instances.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(Path(__file__).resolve().parent)]
import judge  # noqa: E402
import place_variants  # noqa: E402
import words  # noqa: E402

PROGRAMS = {"coarsen": "partita_coarsen_bench", "variants": "partita", "instances": "partita_certify_bench"}
PARTS = tuple(PROGRAMS)
COARSEN_S, OVER_PESTO, PROVED_S, ENOUGH, CERTIFIED, GOAL = 0.15, 0.92, 10, 0.05, 10, 13
INSTANCES = 16  # without --vertices
RANDOM, RANDOM_SECONDS = 200, 30


def say(met, what):
    print(f"{'met' if met else 'missed'}: {what}", flush=True)


def run(program, *words):
    """What a program prints, which is printed."""
    result = subprocess.run([program, *words], stdout=subprocess.PIPE, text=True)
    print(result.stdout, end="", flush=True)
    if result.returncode != 0:
        sys.exit(f"{program} ended with {result.returncode}")
    return result.stdout


# The parts return whether nothing contradicts ours.
def coarsen(args):
    text = run(args.build / "partita_coarsen_bench")
    rows = re.findall(r"^(to 200.*?) +200 vertices .*? ([\d.]+) ms \(median", text, re.M)
    slowest = max((float(ms) / 1e3 for _, ms in rows), default=None)
    if slowest is None:
        sys.exit("partita_coarsen_bench printed no row of 200 vertices")
    say(slowest <= COARSEN_S, f"to 200 vertices in at most {slowest:.3f} s in each of {len(rows)} ways "
        f"(at most {COARSEN_S} s)")
    return True


def variants(args):
    found = place_variants.table(argparse.Namespace(partita=str(args.build / "partita"), seconds=args.solver_seconds,
                                                    only=args.models, limit=None))
    ratios = place_variants.over(found, "pesto")
    if ratios:
        mean = statistics.geometric_mean(ratios)
        say(mean <= OVER_PESTO, f"{mean:.3f} x pesto in geometric mean of {len(ratios)} (at most {OVER_PESTO})")
    for expert, order in (("expert", "the framework's order"), ("critical expert", "the critical order")):
        fits = [v for v in found if v[expert] is not None]
        worse = [v for v in fits if v["ours"] is None or v["ours"] > v[expert]]
        say(not worse, f"worse than an expert in {order} that fits in {len(worse)} of {len(fits)} (never)")
    return True


def judged(p, args):
    """CP-SAT's result, None without the package."""
    return judge.judge(p, args.seconds) if judge.cp_model else None


def random_problems(args, folder):
    """Says whether CP-SAT's optima are ours, of problems of all kinds that are small enough for both to prove."""
    folder.mkdir()
    run(args.build / "partita_certify_bench", "--random", str(RANDOM), "--write", folder)
    equal, files = 0, sorted(folder.glob("*.json"))
    for file in files:
        p = json.loads(file.read_text())
        found = judge.judge(p, RANDOM_SECONDS)
        equal += found["proved"] and found["end_ns"] == p["ours"]["end_ns"] == p["ours"]["bound_ns"]
    say(equal == len(files), f"CP-SAT and branch and bound prove the same optimum of {equal} of {len(files)}")


def instances_as_they_come(program, words, folder):
    """Starts the program on one processor, keeps this one to another, and yields each instance when it is there."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    with open(folder / "certify.txt", "w", encoding="utf-8") as text, \
            subprocess.Popen([program, *words], stdout=text) as certify:
        os.sched_setaffinity(0, {cores[-1]})
        try:
            seen = set()
            while True:
                running = certify.poll() is None
                fresh = sorted((f for f in folder.glob("*.json") if f not in seen), key=lambda f: f.stat().st_mtime_ns)
                for file in fresh:
                    seen.add(file)
                    yield json.loads(file.read_text())
                if not running and not fresh:
                    break
                time.sleep(0.2)
        finally:
            certify.terminate()
            os.sched_setaffinity(0, cores)
    print((folder / "certify.txt").read_text(), end="")
    if certify.returncode != 0:
        sys.exit(f"{program} ended with {certify.returncode}")


def gap_of(found):
    return 1 if found["end_ns"] is None else 1 - found["bound_ns"] / found["end_ns"]


def certified(results):
    return sum(gap_of(found) <= ENOUGH for found in results)


def verdict(args, problems, judged_results):
    ours = [p["ours"] for p in problems]
    smallest = [p["ours"] for p in problems if len(p["ops"]) <= 50]
    proved = sum(o["bound_ns"] >= o["end_ns"] and o["seconds"] <= PROVED_S for o in smallest)
    if smallest:
        say(proved == len(smallest), f"{proved} of {len(smallest)} of 50 vertices proved optimal within {PROVED_S} s")
    count = certified(ours)
    found = f"{count} of {len(ours)} certified to {100 * ENOUGH:.0f}% within {args.seconds:g} s by our bounds alone"
    if len(ours) == INSTANCES:
        say(count >= CERTIFIED, f"{found} (at least {CERTIFIED}, {GOAL} a goal)")
    else:
        print(f"{found} (of {INSTANCES} instances {CERTIFIED} have to be)")
    if judged_results:
        shorter = sum(f["end_ns"] is not None and f["end_ns"] < o["end_ns"] for f, o in zip(judged_results, ours))
        higher = sum(f["bound_ns"] > o["bound_ns"] for f, o in zip(judged_results, ours))
        print(f"CP-SAT, in the same seconds: {certified(judged_results)} of {len(judged_results)} to "
              f"{100 * ENOUGH:.0f}%, a shorter schedule than ours {shorter} times, a higher bound {higher} times")


def instances(args):
    folder = args.write or Path(tempfile.mkdtemp(prefix="partita-instances-"))
    folder.mkdir(parents=True, exist_ok=True)
    if judge.cp_model:
        try:
            random_problems(args, folder / "random")
        except judge.Contradiction as error:
            print(f"contradiction: {error}")
            return False
    else:
        print(judge.MISSING)
    words = ["--seconds", f"{args.seconds:g}", "--vertices", args.vertices, "--write", str(folder)]
    print(judge.HEAD, f"{'fine gap':>9}")
    problems, results, contradictions = [], [], 0
    for p in instances_as_they_come(args.build / "partita_certify_bench", words, folder):
        row = f"{p['name']:<22} {len(p['ops']):>8} {judge.text_of(p['ours'])}"
        try:
            found = judged(p, args)
        except judge.Contradiction as error:
            contradictions += 1
            print(f"{row}\ncontradiction: {error}", flush=True)
            continue
        problems.append(p)
        results += [found] if found else []
        print(f"{row} {judge.text_of(found) if found else '-':>34} {100 * p['ours']['fine_gap']:>8.2f}%", flush=True)
    verdict(args, problems, results)
    return contradictions == 0


def counts(text):
    return ",".join(str(words.count(item)) for item in text.split(","))


def empty_folder(text):
    folder = Path(text)
    if not text or (folder.exists() and not folder.is_dir()):
        raise argparse.ArgumentTypeError(f"'{text}' is no folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise argparse.ArgumentTypeError(f"'{text}' has files already; give an empty folder, or a new one")
    return folder


def main():
    parser = words.Parser(__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="has the programs")
    parser.add_argument("--only", type=words.some_of(PARTS, "part"), default=list(PARTS))
    parser.add_argument("--seconds", type=words.positive, default=60)
    parser.add_argument("--solver-seconds", type=words.count, default=30)
    parser.add_argument("--models", type=words.some_of(place_variants.VARIANTS, "model"))
    parser.add_argument("--vertices", type=counts, default="50,100,150,200")
    parser.add_argument("--write", type=empty_folder)
    args = parser.parse_args()
    for part in args.only:
        try:
            words.program(str(args.build / PROGRAMS[part]))
        except argparse.ArgumentTypeError as error:
            parser.error(f"--build: {part}: {error}")
    right = True
    for part in (part for part in PARTS if part in args.only):
        begun = time.monotonic()
        print(f"== {part}", flush=True)
        right = {"coarsen": coarsen, "variants": variants, "instances": instances}[part](args) and right
        print(f"{part}: {time.monotonic() - begun:.0f} s\n", flush=True)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Pesto's eleven models on two V100: the tables of docs/reproduction/pesto.md (Figures 5, 7 and 8, Tables 1 to 3).

    tools/place_variants.py [--partita build/release/partita] [--seconds 60] [--only NAME,..] [--limit 0.6]
                            [--sweeps | --tables | --merges]

Plans each model with one device, experts' placement, Baechi's three rules, Pesto's integer program (60 s of the
solver, unless --seconds says otherwise) and our search, on dgx-1 with 2 devices of 16 GB. Times are predicted steps.
Experts and Pesto have two columns: in the framework's order, as in the paper, and with a kept schedule that takes the
longest way to the end first (order=critical), which the paper's experts have not. Baechi's are in the framework's.
--limit F: each device has F of the memory that the step takes on one device. --sweeps: the figures of RNNLM-2 and
NMT-2 alone: congestion (Figure 5), and devices and links of other speeds (Figure 8). --tables: how many operations
are how long (Table 1), how long placement takes (Table 2), and placement + steps as a part of what the expert's steps
take (Table 3), each beside the paper's. --merges: Pesto by each way of coarsening, on one model of each family.
"""
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import words
from traces import computing

FINE = "fine=1"
# Batches are the paper's; NASNet's filters are 24 times its number. With elementary batch norms two devices of 16 GB do
# not hold NASNet's results, so these norms are one operation each.
VARIANTS = {
    "RNNLM-2-2048": f"zoo:rnnlm?batch=128,{FINE}",
    "RNNLM-4-2048": f"zoo:rnnlm?batch=128,layers=4,{FINE}",
    "RNNLM-16-1024": f"zoo:rnnlm?batch=128,layers=16,hidden=1024,{FINE}",
    "NMT-2-1024": f"zoo:nmt?batch=128,{FINE}",
    "NMT-4-1024": f"zoo:nmt?batch=128,layers=4,{FINE}",
    "Transformer-10-8-1024": f"zoo:encoder-decoder?batch=32,layers=10,heads=8,hidden=1024,{FINE}",
    "Transformer-12-8-1024": f"zoo:encoder-decoder?batch=32,layers=12,heads=8,hidden=1024,{FINE}",
    "Transformer-6-16-2048": f"zoo:encoder-decoder?batch=32,layers=6,heads=16,hidden=2048,{FINE}",
    "NASNet-4-212": "zoo:nasnet?batch=32,cells=4,filters=5088",
    "NASNet-6-148": "zoo:nasnet?batch=32,cells=6,filters=3552",
    "NASNet-6-168": "zoo:nasnet?batch=32,cells=6,filters=4032",
}
EXPERT, CRITICAL_EXPERT = "expert-placement?order=framework", "expert-placement"
BAECHI = ["baechi-mtopo", "baechi-metf", "baechi-msct"]
# Table 1: how many operations take less than 10 us, up to 100 us, and longer.
OF_TABLE_1 = {
    "Transformer-6-16-2048": (14511, 4119, 763),
    "RNNLM-2-2048": (3401, 973, 240),
    "NASNet-4-212": (14191, 1677, 1033),
    "NMT-2-1024": (21243, 8114, 703),
}
# Tables 2 and 3: steps of a training, minutes of placement, and the effort as a part of the expert's; of Baechi and of
# Pesto. The paper's NASNet has 6 cells; the expert's placement of NASNet-6-168 does not fit.
OF_TABLES_2_AND_3 = {
    "NMT-2-1024": (350_000, (1, 30), (0.94, 0.89)),
    "NMT-4-1024": (350_000, (3, 51), (1.08, 0.70)),
    "NASNet-6-148": (375_000, (3, 24), (0.97, 0.81)),
}


def rows_of(partita, model, searches, options, cluster="dgx-1"):
    """The rows of `partita compare`, by search; one without a plan has a `reason`."""
    command = [partita, "compare", model, "--optimizer", "sgd?fine=1", "--cluster", str(cluster), "--devices", "2",
               "--objective", "time", "--search", ",".join(searches), "--json", *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode not in (0, 4):
        sys.exit(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stderr[-2000:]}")
    return dict(zip(searches, json.loads(result.stdout)["rows"]))


def step(row):
    """Of a row, ms; None where it has no plan."""
    return row["step_time_us"] / 1e3 if "step_time_us" in row else None


def shortest(steps):
    return min((s for s in steps if s is not None), default=None)


def ms(step):
    return "no memory" if step is None else f"{step:.1f}"


def less(step, other):
    return "-" if step is None or other is None else f"{100 * (1 - step / other):.0f}%"


def pestos(seconds):
    """Its searches: in the framework's order, and longest ways first."""
    return f"pesto?seconds={seconds}", f"pesto?seconds={seconds},order=critical"


KINDS = ("one", "expert", "critical expert", "baechi", "pesto", "critical pesto", "ours")  # columns of the table


def steps_of(args, name):
    """The steps of a variant by KINDS and the best `other` than Pesto's and ours, ms (None: no plan), its operations,
    and the seconds of Pesto and ours."""
    options, (pesto, critical_pesto) = [], pestos(args.seconds)
    if args.limit:
        single = rows_of(args.partita, VARIANTS[name], ["single"], ["--memory-limit", "1TB"])["single"]
        options = ["--memory-limit", str(int(args.limit * single["least_memory_bytes"]))]
    rows = rows_of(args.partita, VARIANTS[name],
                   ["single", EXPERT, CRITICAL_EXPERT, *BAECHI, pesto, critical_pesto, "placement"], options)
    for search, row in rows.items():
        if "reason" in row:
            print(f"{name}, {search}: {row['reason'][:200]}", file=sys.stderr)
    steps = {"one": step(rows["single"]), "expert": step(rows[EXPERT]), "critical expert": step(rows[CRITICAL_EXPERT]),
             "baechi": shortest(step(rows[s]) for s in BAECHI), "pesto": step(rows[pesto]),
             "critical pesto": step(rows[critical_pesto]), "ours": step(rows["placement"])}
    steps["other"] = shortest(steps[kind] for kind in ("one", "expert", "critical expert", "baechi"))
    ops = next((int(r["counters"]["ops"]) for r in rows.values() if "ops" in r.get("counters", {})), "-")
    seconds = ", ".join(f"{rows[s]['search_seconds']:.0f}" if "search_seconds" in rows[s] else "-"
                        for s in (pesto, "placement"))
    return steps, ops, seconds


def over(variants, other):
    """Our step over the other's, of the variants that both have a plan for."""
    return [v["ours"] / v[other] for v in variants if v["ours"] is not None and v[other] is not None]


def table(args):
    """Prints the table and its means; returns the steps of the variants (steps_of)."""
    against = ("expert", "critical expert", "other", "pesto")
    print("| model | ops | one device | expert | expert, critical order | Baechi | Pesto | Pesto, critical order | ours "
          "| ours: than expert | than expert, critical | than the best other | than Pesto | seconds of Pesto, ours |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    variants = []
    for name in args.only or VARIANTS:
        steps, ops, seconds = steps_of(args, name)
        variants.append(steps)
        print(f"| {name} | {ops} | {' | '.join(ms(steps[kind]) for kind in KINDS)} | "
              f"{' | '.join(less(steps['ours'], steps[other]) for other in against)} | {seconds} |", flush=True)
    print()
    for other, name in (("pesto", "Pesto"), ("critical pesto", "Pesto in the critical order")):
        if ratios := over(variants, other):
            print(f"ours over {name}: {statistics.geometric_mean(ratios):.3f} in geometric mean of {len(ratios)}")
    for other, name in (("other", "the best other"), ("expert", "experts"),
                        ("critical expert", "experts in the critical order"), ("baechi", "Baechi")):
        kept = [100 * (1 - ratio) for ratio in over(variants, other)]
        if kept:
            print(f"ours is shorter than {name} by {statistics.mean(kept):.1f}% in the mean of {len(kept)}, "
                  f"{min(kept):.1f} to {max(kept):.1f}")
    return variants


def dgx_1(partita, folder):
    """What the cluster is, as the text of a file."""
    plan = Path(folder) / "plan.json"
    words.run([partita, "plan", "zoo:mlp", "--cluster", "dgx-1", "--devices", "2", "--search", "single", "-o", plan])
    plan_json = json.loads(plan.read_text())
    return plan_json["cluster"] if isinstance(plan_json["cluster"], str) else plan_json["cluster"]["text"]


def scaled(pattern, factor, text):
    return re.sub(pattern, lambda m: m[1] + f"{float(m[2]) * factor:g}", text)


def scaled_cluster(partita, compute, links, folder):
    """dgx-1 as a file, with devices and links of other speeds."""
    text = dgx_1(partita, folder)
    for precision in ("float32", "float64", "float16", "bfloat16", "tf32"):
        text = scaled(rf"(peak_tflop_per_s: {{[^}}]*?{precision}: )([0-9.]+)", compute, text)
    text = scaled(r"(memory_bandwidth_gbytes_per_s: )([0-9.]+)", compute, text)
    text = scaled(r"(launch_overhead_us: )([0-9.]+)", 1 / compute, text)
    text = scaled(r"((?<!memory_)bandwidth_gbytes_per_s: )([0-9.]+)", links, text)
    file = Path(folder) / f"compute{compute}-links{links}.yaml"
    file.write_text(text)
    return file


def sweeps(args):
    name, model = "RNNLM-2-2048", VARIANTS["RNNLM-2-2048"]
    both = [f"pesto?seconds={args.seconds}", f"pesto?seconds={args.seconds},congestion=no"]
    rows = rows_of(args.partita, model, both, [])
    print(f"{name}, Pesto with congestion {ms(step(rows[both[0]]))} ms, without {ms(step(rows[both[1]]))} ms")
    print("\n| model | compute | links | expert | expert, critical order | ours | ours: than expert | "
          "than expert, critical |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("RNNLM-2-2048", "NMT-2-1024"):
            for compute, links in ((0.5, 1), (1, 1), (2, 1), (4, 1), (1, 0.1), (1, 0.5), (1, 2)):
                cluster = scaled_cluster(args.partita, compute, links, folder)
                searches = [EXPERT, CRITICAL_EXPERT, "placement"]
                rows = rows_of(args.partita, VARIANTS[name], searches, [], cluster)
                expert, critical, ours = (step(rows[s]) for s in searches)
                print(f"| {name} | {compute} | {links} | {ms(expert)} | {ms(critical)} | {ms(ours)} | "
                      f"{less(ours, expert)} | {less(ours, critical)} |", flush=True)


MERGES = ["coarsen=paper,caps=no", "coarsen=paper", "coarsen=heights", "coarsen=parallel"]
OF_MERGES = ["RNNLM-2-2048", "NMT-2-1024", "Transformer-6-16-2048", "NASNet-6-148"]


def merges(args):
    """Pesto's steps in the framework's order and longest ways first, by each way of coarsening."""
    print("| model | pesto? | vertices | largest, of the time | longest path | step | step, critical order |\n"
          "|---|---|---|---|---|---|---|")
    for name in args.only or OF_MERGES:
        for merge in MERGES:
            searches = [f"{pesto},{merge}" for pesto in pestos(args.seconds)]
            rows = rows_of(args.partita, VARIANTS[name], searches, [])
            counters = next((row["counters"] for row in rows.values() if "vertices" in row.get("counters", {})), None)
            vertices = "- | - | -" if counters is None else (
                f"{int(counters['vertices'])} | {100 * counters['largest_vertex']:.0f}% | "
                f"{100 * counters['longest_path']:.0f}%")
            print(f"| {name} | {merge} | {vertices} | {' | '.join(ms(step(rows[s])) for s in searches)} |", flush=True)


def durations(partita, model, folder):
    """Microseconds of each operation of the step on one device, as predicted; memory does not count."""
    plan, trace, cluster = (str(Path(folder) / name) for name in ("plan.json", "trace.json", "cluster.yaml"))
    Path(cluster).write_text(scaled(r"(memory_gibytes: )([0-9.]+)", 100, dgx_1(partita, folder)))
    for command in (["plan", model, "--optimizer", "sgd?fine=1", "--cluster", cluster, "--devices", "1", "--search",
                     "single", "-o", plan], ["simulate", plan, "--trace", trace]):
        words.run([partita, *command])
    return [e["dur"] for e in computing(trace)]


def sizes_of_operations(args):
    print("| model | operations | < 10 us | 10 to 100 us | > 100 us | the paper's |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, paper in OF_TABLE_1.items():
            if args.only and name not in args.only:
                continue
            times = durations(args.partita, VARIANTS[name], folder)
            short, long = sum(t < 10 for t in times), sum(t > 100 for t in times)
            print(f"| {name} | {len(times)} | {short} | {len(times) - short - long} | {long} | "
                  f"{', '.join(map(str, paper))} |", flush=True)


def effort(row, steps):
    """Seconds of placement and of a training's steps; infinite without a plan."""
    return row["search_seconds"] + steps * row["step_time_us"] / 1e6 if "step_time_us" in row else float("inf")


def placement_times(args):
    pesto = f"pesto?seconds={args.seconds}"
    print("\n| model | Baechi: minutes | Pesto | ours | the paper's Baechi, Pesto | steps | effort: Baechi | Pesto | ours "
          "| expert, critical order | the paper's Baechi, Pesto |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for name, (steps, minutes, efforts) in OF_TABLES_2_AND_3.items():
        if args.only and name not in args.only:
            continue
        rows = rows_of(args.partita, VARIANTS[name], [EXPERT, CRITICAL_EXPERT, *BAECHI, pesto, "placement"], [])
        expert, critical = step(rows[EXPERT]), step(rows[CRITICAL_EXPERT])
        if expert is None:
            sys.exit(f"{name}: the expert's placement does not fit, so nothing can be set beside it")
        of_expert = steps * expert / 1e3  # what an expert places is known before
        kinds = [min((rows[s] for s in searches), key=lambda row: effort(row, steps))
                 for searches in (BAECHI, [pesto], ["placement"])]
        seconds = [f"{row['search_seconds'] / 60:.2f}" if "search_seconds" in row else "-" for row in kinds]
        parts = [f"{effort(row, steps) / of_expert:.2f}" if "step_time_us" in row else "-" for row in kinds]
        parts.append("-" if critical is None else f"{critical / expert:.2f}")
        print(f"| {name} | {' | '.join(seconds)} | {minutes[0]}, {minutes[1]} | {steps} | {' | '.join(parts)} | "
              f"{efforts[0]:.2f}, {efforts[1]:.2f} |", flush=True)


def main():
    parser = words.Parser(__doc__)
    parser.add_argument("--partita", type=words.program, default="build/release/partita")
    parser.add_argument("--seconds", type=words.count, default=60)
    parser.add_argument("--only", type=words.some_of(VARIANTS, "model"))
    parser.add_argument("--limit", type=words.positive)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--sweeps", action="store_true")
    which.add_argument("--tables", action="store_true")
    which.add_argument("--merges", action="store_true")
    args = parser.parse_args()
    if args.limit and (args.sweeps or args.tables or args.merges):
        parser.error("--limit is of the plain table; leave it out beside --sweeps, --tables and --merges")
    if args.sweeps and args.only:
        parser.error("--sweeps is of RNNLM-2 and NMT-2; leave --only out")
    tabled = [*OF_TABLE_1, *OF_TABLES_2_AND_3]
    if args.tables and args.only and not set(args.only) & set(tabled):
        parser.error(f"--only: no table has {', '.join(args.only)}; they have: {', '.join(dict.fromkeys(tabled))}")
    words.expect_partita(parser, args.partita)
    if args.tables:
        sizes_of_operations(args)
        placement_times(args)
    elif args.merges:
        merges(args)
    elif args.sweeps:
        sweeps(args)
    else:
        table(args)


if __name__ == "__main__":
    main()

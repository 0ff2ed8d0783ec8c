#!/usr/bin/env python3
"""Predicted against measured steps on this machine: the table of docs/reference/profile.md.

    tools/measure_plans.py [--partita build/release/partita] [--profile profile.json] [--all|--more|--soap|--place|--spread]
                           [--models N] [--tries N] [-o table.md]

Profiles the models once (what the profile has already is not measured again), then plans, runs and compares each of
them with several searches on 1 and 2 devices, by `partita compare --measure`. --all: more plans of each, some hundred in
all; kernels of recomputed layers and of micro-batches are then estimated.
--more: 3 and 4 devices, which share the cores, in a table of their own.
--soap: FlexFlow's six networks, cut down, with plans of its space (Figure 11); 2,000 proposals a search.
--place: Pesto's four families, cut down, in elementary operations that are placed whole (section 5.4).
Prints a table, the mean absolute error, the largest, and Kendall's tau of the order of a model's plans, over pairs
whose measured times differ by more than 5% (of --soap 10%).
--spread: of the models of --place, instead, how far each operation's time varies from step to step (Pesto's Figure 4a).
"""
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import words
from traces import computing

# Models of several kinds, none larger than a laptop trains in a second a step.
MODELS = {
    "mlp": ["zoo:mlp?width=512,batch=128"],
    "transformer": ["zoo:transformer?hidden=128,steps=64"],
    "gpt2": ["zoo:gpt2?layers=2,hidden=256,heads=4,vocabulary=2048,steps=128,batch=4"],
    "lenet": ["zoo:lenet?batch=64"],
    "resnet-18": ["zoo:resnet-18?stem=cifar,image=32,batch=16,width=32,classes=10"],
    "rnnlm": ["zoo:rnnlm?hidden=256,vocabulary=2000,steps=8,batch=16"],
    "moe": ["zoo:moe"],
    "vit": ["zoo:vit-b16?image=64,layers=2,hidden=192,heads=3,batch=8,classes=10"],
}
# FlexFlow section 8.1.
SOAP_MODELS = {
    "alexnet": ["zoo:alexnet?image=67,hidden=512,classes=100,batch=16"],
    "inception-v3": ["zoo:inception-v3?image=75,blocks=1,classes=10,batch=8"],
    "resnet-101": ["zoo:resnet-101?image=64,blocks=1,width=32,classes=10,batch=8"],
    "rnntc": ["zoo:rnntc?steps=8,hidden=512,vocabulary=2000,batch=64"],
    "rnnlm": ["zoo:rnnlm?steps=8,hidden=512,vocabulary=2000,batch=64"],
    "nmt": ["zoo:nmt?steps=6,hidden=512,vocabulary=2000,batch=64"],
}
# Pesto section 5.4, cut down: of all but nasnet most of the time is in operations of 50 us and more (--spread).
PLACE_OPTIONS = ["--optimizer", "sgd?fine=1"]
PLACE_MODELS = {
    "rnnlm": ["zoo:rnnlm?layers=2,hidden=256,vocabulary=2000,steps=6,batch=64,fine=1", *PLACE_OPTIONS],
    "nmt": ["zoo:nmt?layers=2,hidden=256,vocabulary=2000,steps=4,batch=64,fine=1", *PLACE_OPTIONS],
    "encoder-decoder": ["zoo:encoder-decoder?layers=2,heads=4,hidden=256,batch=4,steps=32,vocabulary=2000,fine=1",
                        *PLACE_OPTIONS],
    "nasnet": ["zoo:nasnet?cells=1,filters=192,image=64,stem=16,batch=4,classes=10", *PLACE_OPTIONS],
}
MANY_OF_OTHERS = 0.2  # cores that other programs use, beyond which they are told of
QUICK = {1: ["single"], 2: ["data-parallel", "tofu", "zero"]}
ALL = {1: ["single", "single?recompute=layer"],
       2: ["data-parallel", "data-parallel?micro-batches=2", "tofu", "model-parallel", "megatron", "zero",
           "zero?stage=3", "owt", "exact", "soybean", "spartan", "pipeline?stages=2"]}
MORE = {3: ["data-parallel", "tofu"], 4: ["data-parallel", "megatron", "tofu"]}
SOAP = {1: ["single"], 2: ["data-parallel", "expert", "optcnn", "flexflow", "flexflow?dimensions=o",
                           "flexflow?dimensions=p", "soap"]}
PLACE = {1: ["single"], 2: ["expert-placement", "expert-placement?order=framework", "baechi-mtopo", "baechi-metf",
                            "baechi-msct", "pesto?seconds=10", "placement"]}


class Set(NamedTuple):
    models: dict
    plans: dict
    profiled: int = 2  # plans of up to so many devices
    options: tuple = ()
    least: float = 0.05  # part by which measured times of a pair differ that counts in Kendall's tau


SETS = {
    "quick": Set(MODELS, QUICK),
    "all": Set(MODELS, ALL),
    "more": Set(MODELS, MORE, profiled=4),
    "soap": Set(SOAP_MODELS, SOAP, options=("--objective", "time", "--max-steps", "2000"), least=0.1),
    "place": Set(PLACE_MODELS, PLACE, profiled=1, options=("--objective", "time")),
}


def compared(partita, model, devices, searches, profile, seconds, options):
    """Rows of `compare --measure`, and of a search that the model cannot be planned with its reason, which is told."""
    command = [partita, "compare", *model, "--devices", str(devices), "--search", ",".join(searches), "--measure",
               "--seconds", str(seconds), "--profile", profile, "--json", *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode not in (0, 3, 4) or not result.stdout.strip():
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    rows = json.loads(result.stdout)["rows"]
    for row in rows:
        if "reason" in row:
            print(f"{model[0]}, {row['search']}: {row['reason']}", file=sys.stderr)
    return rows


def rows_of(args, name, model, kind, profile):
    """The rows of a model; what was measured beside other programs is measured again, as often as --tries says."""
    for devices, searches in kind.plans.items():
        for row in compared(args.partita, model, devices, searches, profile, args.seconds, kind.options):
            for _ in range(1, args.tries):
                if row.get("others_cores", 0) <= MANY_OF_OTHERS:
                    break
                again = compared(args.partita, model, devices, [row["search"]], profile, args.seconds, kind.options)
                row = min([row, *again], key=lambda r: r["others_cores"])
            if "measured_step_time_us" in row:
                yield {**row, "model": name, "devices": devices}


def kendall(rows, least):
    """Tau over pairs of a model's plans whose measured times differ by more than `least`; None without such pairs."""
    agree = disagree = 0
    for _, group in itertools.groupby(rows, key=lambda r: r["model"]):
        for a, b in itertools.combinations(list(group), 2):
            ta, tb = a["measured_step_time_us"], b["measured_step_time_us"]
            if abs(ta - tb) <= least * min(ta, tb):
                continue
            if (ta - tb) * (a["step_time_us"] - b["step_time_us"]) > 0:
                agree += 1
            else:
                disagree += 1
    return (agree - disagree) / (agree + disagree) if agree + disagree else None


def table(rows, least):
    lines = ["| model | devices | search | predicted | measured | error | drift |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append(f"| {r['model']} | {r['devices']} | {r['search']} | {r['step_time_us'] / 1e3:.2f} ms "
                     f"| {r['measured_step_time_us'] / 1e3:.2f} ms | {100 * r['error']:+.0f}% | {r['drift']:.2f} |")
    if not rows:
        sys.exit("no plan was measured")
    errors = [abs(r["error"]) for r in rows]
    corrected = [abs(r["corrected_error"]) for r in rows]
    tau = kendall(rows, least)
    lines += ["", f"{len(rows)} plans: mean absolute error {100 * sum(errors) / len(errors):.1f}%, largest "
              f"{100 * max(errors):.0f}%, {sum(e < 0.3 for e in errors)} under 30%; with the drift of the machine "
              f"taken out {100 * sum(corrected) / len(corrected):.1f}% and {100 * max(corrected):.0f}%. Kendall's tau "
              + ("of the order of a model's plans: " + f"{tau:.2f}." if tau is not None else "has no pairs.")]
    return "\n".join(lines)


def trained(partita, model, folder):
    """Microseconds of each operation on one device, by its name: lists of 90 steps, the first of each run left out."""
    runs, trace, times = 10, str(Path(folder) / "trace.json"), {}
    for _ in range(runs):
        words.run([partita, "train", *model, "--devices", "1", "--search", "single", "--steps", "10", "--trace", trace])
        for e in computing(trace):
            if e["args"]["step"] > 0:
                times.setdefault(e["name"], []).append(e["dur"])
    return times


def spread(partita, models):
    """Pesto's Figure 4a: the distribution over operations of standard deviation / mean; short ones are left out."""
    least_us = 50
    lines = [f"| model | operations | {least_us} us or longer | their part of the time | deviation / mean of 10% of them "
             "below | 25% | 50% | 75% | 90% | quartiles' distance / median of 50% below | 90% |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            times = trained(partita, model, folder)
            long = [t for t in times.values() if statistics.mean(t) >= least_us]
            deviations = statistics.quantiles([statistics.pstdev(t) / statistics.mean(t) for t in long], n=20)
            quartiles = [statistics.quantiles(t, n=4) for t in long]
            distances = statistics.quantiles([(q[2] - q[0]) / q[1] for q in quartiles], n=20)
            part = sum(map(sum, long)) / sum(map(sum, times.values()))
            shown = [part, *(deviations[i] for i in (1, 4, 9, 14, 17)), distances[9], distances[17]]
            lines.append(f"| {name} | {len(times)} | {len(long)} | " + " | ".join(f"{100 * x:.0f}%" for x in shown) + " |")
    return "\n".join(lines)


def measured(args, kind):
    """The set's table."""
    models = dict(list(kind.models.items())[:args.models])
    with tempfile.TemporaryDirectory() as folder:
        profile = args.profile or str(Path(folder) / "profile.json")
        for model in models.values():
            words.run([args.partita, "profile", *model, "--devices", kind.profiled, "-o", profile])
        rows = []
        for name, model in models.items():
            rows += rows_of(args, name, model, kind, profile)
            print(f"{name}: {len(rows)} plans so far", file=sys.stderr)
    return table(rows, kind.least)


def main():
    parser = words.Parser(__doc__)
    parser.add_argument("--partita", type=words.program, default="build/release/partita")
    parser.add_argument("--profile", type=words.output, help="the profile's file; what it lacks is measured and added")
    which = parser.add_mutually_exclusive_group()
    for name in ("all", "more", "soap", "place"):
        which.add_argument(f"--{name}", action="store_const", dest="kind", const=name, default="quick")
    which.add_argument("--spread", action="store_true")
    parser.add_argument("--models", type=words.count, default=len(MODELS), help="the first so many")
    parser.add_argument("--seconds", type=words.positive, default=1.5)
    parser.add_argument("--tries", type=words.count, default=1, help="of a plan beside which other programs work")
    parser.add_argument("-o", dest="output", type=words.output)
    args = parser.parse_args()
    words.expect_partita(parser, args.partita)
    text = spread(args.partita, dict(list(PLACE_MODELS.items())[:args.models])) if args.spread else measured(
        args, SETS[args.kind])
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

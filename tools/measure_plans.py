#!/usr/bin/env python3
"""Predicted against measured steps on this machine: the table of docs/profile.md.

    tools/measure_plans.py [--partita build/release/partita] [--profile profile.json] [--all|--more|--soap]
                           [--models N] [-o table.md]

Profiles the models once (what the profile has already is not measured again), then plans, runs and compares each of
them with several searches on 1 and 2 devices, by `partita compare --measure`. --all: more plans of each, some hundred in
all; kernels of recomputed layers and of micro-batches are then estimated.
--more: 3 and 4 devices, which share the cores, in a table of their own.
--soap: FlexFlow's six networks, cut down, with plans of its space (Figure 11); 2,000 proposals a search. Prints a table, the mean absolute error, the
largest, and Kendall's tau of the order of a model's plans, over pairs whose measured times differ by more than 5% (of
--soap 10%).
"""
import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

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
QUICK = {1: ["single"], 2: ["data-parallel", "tofu", "zero"]}
ALL = {1: ["single", "single?recompute=layer"],
       2: ["data-parallel", "data-parallel?micro-batches=2", "tofu", "model-parallel", "megatron", "zero",
           "zero?stage=3", "owt", "exact", "soybean", "spartan", "pipeline?stages=2"]}
MORE = {3: ["data-parallel", "tofu"], 4: ["data-parallel", "megatron", "tofu"]}
SOAP = {1: ["single"], 2: ["data-parallel", "expert", "optcnn", "flexflow", "flexflow?dimensions=o",
                           "flexflow?dimensions=p", "soap"]}
SOAP_OPTIONS = ["--objective", "time", "--max-steps", "2000"]


def compared(partita, model, devices, searches, profile, seconds, options):
    """Rows of `compare --measure`; a search that the model cannot be planned with is told of and left out."""
    command = [partita, "compare", *model, "--devices", str(devices), "--search", ",".join(searches), "--measure",
               "--seconds", str(seconds), "--profile", profile, "--json", *options]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode in (0, 4):
        return json.loads(result.stdout)["rows"]
    if result.returncode != 3:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}\n{result.stderr}")
    if len(searches) == 1:
        print(f"{model[0]}, {searches[0]}: {result.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return []
    return [row for s in searches for row in compared(partita, model, devices, [s], profile, seconds, options)]


def rows_of(partita, name, model, plans, profile, seconds, options):
    for devices, searches in plans.items():
        for row in compared(partita, model, devices, searches, profile, seconds, options):
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
    errors = [abs(r["error"]) for r in rows]
    corrected = [abs(r["corrected_error"]) for r in rows]
    tau = kendall(rows, least)
    lines += ["", f"{len(rows)} plans: mean absolute error {100 * sum(errors) / len(errors):.1f}%, largest "
              f"{100 * max(errors):.0f}%, {sum(e < 0.3 for e in errors)} under 30%; with the drift of the machine "
              f"taken out {100 * sum(corrected) / len(corrected):.1f}% and {100 * max(corrected):.0f}%. Kendall's tau "
              + ("of the order of a model's plans: " + f"{tau:.2f}." if tau is not None else "has no pairs.")]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partita", default="build/release/partita")
    parser.add_argument("--profile", help="the profile's file; what it lacks is measured and added")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--more", action="store_true")
    parser.add_argument("--soap", action="store_true")
    parser.add_argument("--models", type=int, default=len(MODELS), help="the first so many")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("-o", dest="output")
    args = parser.parse_args()
    models = dict(list((SOAP_MODELS if args.soap else MODELS).items())[:args.models])
    plans = SOAP if args.soap else MORE if args.more else ALL if args.all else QUICK
    with tempfile.TemporaryDirectory() as folder:
        profile = args.profile or str(Path(folder) / "profile.json")
        devices = "4" if args.more else "2"
        for model in models.values():
            subprocess.run([args.partita, "profile", *model, "--devices", devices, "-o", profile], check=True,
                           stdout=subprocess.DEVNULL)
        rows = []
        for name, model in models.items():
            rows += rows_of(args.partita, name, model, plans, profile, args.seconds,
                            SOAP_OPTIONS if args.soap else [])
            print(f"{name}: {len(rows)} plans so far", file=sys.stderr)
    text = table(rows, 0.1 if args.soap else 0.05)
    print(text)
    if args.output:
        Path(args.output).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Sets published times beside what the presets predict of them, and prints the table of docs/cluster.md.

    tools/predict_published.py FOLDER [build/release/partita]

FOLDER has collectives.csv with a column `system`. SYSTEMS says which preset a system is; systems that are no preset,
or that their source calls badly set up, are left out.
"""
import csv
import os
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase

# By preset: patterns of systems, and notes that mark a row as measured in another way.
SYSTEMS = {
    "dgx-1": ["DGX-1*", "V100*cube mesh*", "DGX1*"],
    "dgx-a100:2": ["HGX A100*", "ND A100 v4*", "DGX A100*"],
    "p4d:2": ["p4d (A100-40GB)"],
    "dgx-h100:32": ["DGX H100*", "HGX H100-80GB SXM", "HGX H100 (Nebius)", "HGX H100 (CoreWeave*", "HGX H100", "ND H100 v5"],
    "p5:2": ["p5 (H100)"],
    "dgx-h200": ["HGX H200*", "ND H200 v5"],
    "dgx-b200:2": ["HGX B200*", "p6-b200*"],
}
LEFT_OUT = ["*misconfigured*", "*slow setup*", "*RoCE 100G x8*", "*limited per-connection*"]
SIZES = [("below 64 KiB", 0, 65536), ("64 KiB to 1 MiB", 65536, 1 << 20), ("1 MiB and more", 1 << 20, float("inf"))]


def left_out(row):
    return any(fnmatchcase(value, pattern) for value in row.values() for pattern in LEFT_OUT)


def predicted(program, preset, rows):
    """The rows as `partita predict` gives them back."""
    with tempfile.TemporaryDirectory() as folder:
        table, out = os.path.join(folder, "in.csv"), os.path.join(folder, "out.csv")
        # One name, so that every row counts: which system is which preset is said above.
        rows = [dict(row, system=preset) for row in rows]
        with open(table, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        subprocess.run([program, "predict", table, "--cluster", preset, "-o", out], check=True, stdout=subprocess.PIPE)
        with open(out, newline="") as file:
            return list(csv.DictReader(file))


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def line(name, kind, rows):
    """One line of the table: rows, median and 90% of the errors by size."""
    cells = [name, kind]
    for _, least, most in SIZES:
        errors = [float(r["error"]) for r in rows if r["error"] and least <= float(r["bytes"]) < most]
        if not errors:
            cells += ["", "", ""]
            continue
        sizes = [abs(e) for e in errors]
        factor = quantile([max(1 + e, 1 / (1 + e)) for e in errors], 0.5)
        within = sum(s <= 0.35 for s in sizes) / len(sizes)
        cells += [str(len(errors)), f"{100 * quantile(sizes, 0.5):.0f}% (x {factor:.2f})", f"{100 * within:.0f}%"]
    return "| " + " | ".join(cells) + " |"


def main():
    folder = sys.argv[1]
    program = sys.argv[2] if len(sys.argv) > 2 else "build/release/partita"
    with open(os.path.join(folder, "collectives.csv"), newline="") as file:
        table = list(csv.DictReader(file))
    print("| system | collective |" + "".join(f" {size}: rows | median error | within 35% |" for size, _, _ in SIZES))
    print("|---|---|" + "---|---|---|" * len(SIZES))
    every = []
    for preset, patterns in SYSTEMS.items():
        rows = [r for r in table if any(fnmatchcase(r["system"], p) for p in patterns) and not left_out(r)]
        if not rows:
            continue
        names = [r["system"] for r in rows]
        rows = [dict(r, name=n) for r, n in zip(predicted(program, preset, rows), names)]
        every += [dict(r, preset=preset) for r in rows]
        for kind in sorted({r["collective"] for r in rows if r["error"]}):
            for nodes in sorted({r["nodes"] for r in rows if r["error"] and r["collective"] == kind}, key=int):
                of = [r for r in rows if r["collective"] == kind and r["nodes"] == nodes]
                print(line(preset.split(":")[0], kind + ("" if nodes == "1" else f", {nodes} nodes"), of))
    print(line("all", "", every))
    worst = sorted((r for r in every if r["error"] and float(r["bytes"]) >= 1 << 20),
                   key=lambda r: -max(1 + float(r["error"]), 1 / (1 + float(r["error"]))))[:10]
    print("\nFarthest off, of 1 MiB and more:\n")
    for r in worst:
        measured = float(r["predicted_us"]) / (1 + float(r["error"]))
        print(f"- {r['name']}, {r['gpus']} GPUs, {r['collective']} of {int(float(r['bytes'])) >> 20} MiB: "
              f"{float(r['predicted_us']):.4g} us predicted ({r['algorithm']}), {measured:.4g} us measured")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Sets published times beside what the presets predict of them, and prints the tables of docs/reference/cluster.md.

    tools/predict_published.py FOLDER [build/release/partita]

FOLDER has collectives.csv with a column `system`, and gemm.csv, attention.csv and membw.csv with a column `gpu`.
Which preset a GPU is `predict` decides by its name. What nodes and network a system has is not in its name: SYSTEMS says
which preset it is; systems that are no preset, or that their source calls badly set up, are left out.
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
# A row of kernels is of the first of these that has its device.
DEVICES = ["flexflow-p100", "dgx-1", "dgx-a100", "dgx-a100-40gb", "dgx-h100", "dgx-h200", "dgx-b200"]
# By table: what it is of, what counts as near, and the columns by which a row is named.
KERNELS = {
    "gemm.csv": ("products", 0.30, ["m", "n", "k", "dtype", "note"]),
    "attention.csv": ("attention", 0.40, ["impl", "pass", "batch", "heads_q", "heads_kv", "head_dim", "seq_q", "seq_kv", "causal"]),
    "membw.csv": ("memory-bound", 0.40, ["kernel", "bytes", "GBps", "launch_mode"]),
}
LEFT_OUT = ["*misconfigured*", "*slow setup*", "*RoCE 100G x8*", "*limited per-connection*"]
SIZES = [("below 64 KiB", 0, 65536), ("64 KiB to 1 MiB", 65536, 1 << 20), ("1 MiB and more", 1 << 20, float("inf"))]


def left_out(row):
    return any(fnmatchcase(value, pattern) for value in row.values() for pattern in LEFT_OUT)


def of(row, column, patterns):
    return any(fnmatchcase(row[column], pattern) for pattern in patterns)


def read(folder, name):
    with open(os.path.join(folder, name), newline="") as file:
        return list(csv.DictReader(file))


def predicted(program, preset, rows):
    """The rows as `partita predict` gives them back; none where it can say nothing of any."""
    if not rows:
        return []
    with tempfile.TemporaryDirectory() as folder:
        table, out = os.path.join(folder, "in.csv"), os.path.join(folder, "out.csv")
        with open(table, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        done = subprocess.run([program, "predict", table, "--cluster", preset, "-o", out], capture_output=True, text=True)
        if "nothing is predicted" in done.stderr:
            return []
        if done.returncode != 0:
            sys.exit(done.stderr)
        with open(out, newline="") as file:
            return list(csv.DictReader(file))


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def factor(row):
    return max(1 + float(row["error"]), 1 / (1 + float(row["error"])))


def measured(row):
    return float(row["predicted_us"]) / (1 + float(row["error"]))


def line(name, kind, rows):
    """One line of the table of collectives: rows, median and 90% of the errors by size."""
    cells = [name, kind]
    for _, least, most in SIZES:
        errors = [float(r["error"]) for r in rows if r["error"] and least <= float(r["bytes"]) < most]
        if not errors:
            cells += ["", "", ""]
            continue
        sizes = [abs(e) for e in errors]
        middle = quantile([max(1 + e, 1 / (1 + e)) for e in errors], 0.5)
        within = sum(s <= 0.35 for s in sizes) / len(sizes)
        cells += [str(len(errors)), f"{100 * quantile(sizes, 0.5):.0f}% (x {middle:.2f})", f"{100 * within:.0f}%"]
    return "| " + " | ".join(cells) + " |"


def collectives(folder, program):
    table = read(folder, "collectives.csv")
    print("| system | collective |" + "".join(f" {size}: rows | median error | within 35% |" for size, _, _ in SIZES))
    print("|---|---|" + "---|---|---|" * len(SIZES))
    every = []
    for preset, patterns in SYSTEMS.items():
        rows = [r for r in table if of(r, "system", patterns) and not left_out(r)]
        if not rows:
            continue
        # One name, so that every row counts: which system is which preset is said above.
        names = [r["system"] for r in rows]
        rows = [dict(r, name=n) for r, n in zip(predicted(program, preset, [{**r, "system": preset} for r in rows]), names)]
        every += [dict(r, preset=preset) for r in rows]
        for kind in sorted({r["collective"] for r in rows if r["error"]}):
            for nodes in sorted({r["nodes"] for r in rows if r["error"] and r["collective"] == kind}, key=int):
                of_kind = [r for r in rows if r["collective"] == kind and r["nodes"] == nodes]
                print(line(preset.split(":")[0], kind + ("" if nodes == "1" else f", {nodes} nodes"), of_kind))
    print(line("all", "", every))
    worst = sorted((r for r in every if r["error"] and float(r["bytes"]) >= 1 << 20), key=factor, reverse=True)[:10]
    print("\nFarthest off, of 1 MiB and more:\n")
    for r in worst:
        print(f"- {r['name']}, {r['gpus']} GPUs, {r['collective']} of {int(float(r['bytes'])) >> 20} MiB: "
              f"{float(r['predicted_us']):.4g} us predicted ({r['algorithm']}), {measured(r):.4g} us measured")


def kind_of(name, row):
    """Rows of one line of the table."""
    if name == "gemm.csv":
        words = row["dtype"].lower()
        return "products, " + ("float32" if words == "fp32" else "bfloat16" if words.startswith("bf") else "float16")
    if name == "attention.csv":
        passes = {"fwd": "forward", "bwd": "backward", "decode": "one query"}
        return "attention, " + ("unfused" if "standard" in row["impl"] else passes[row["pass"]])
    return "memory-bound"


def kernel_line(preset, kind, rows, near):
    errors = [abs(float(r["error"])) for r in rows]
    within = sum(e <= near for e in errors) / len(errors)
    return (f"| {preset} | {kind} | {len(errors)} | {100 * quantile(errors, 0.5):.0f}% | "
            f"{100 * quantile(errors, 0.9):.0f}% | {100 * within:.0f}% within {100 * near:.0f}% |")


def kernels(folder, program):
    print("\n| device | kernels | rows | median error | 90% within | near |")
    print("|---|---|---|---|---|---|")
    worst = []
    for name, (what, near, columns) in KERNELS.items():
        table, every = read(folder, name), []
        for preset in DEVICES:
            rows = predicted(program, preset, table)
            found = [dict(r, preset=preset) for r in rows if r["error"]]
            if rows:
                table = [t for t, r in zip(table, rows) if r["not_predicted"].startswith("of another device")]
            for kind in sorted({kind_of(name, r) for r in found}):
                print(kernel_line(preset, kind, [r for r in found if kind_of(name, r) == kind], near))
            every += found
        print(kernel_line("all", what, every, near))
        worst.append((what, columns, sorted(every, key=factor, reverse=True)[:10]))
    for what, columns, rows in worst:
        print(f"\nFarthest off, {what}:\n")
        for r in rows:
            print(f"- {r['preset']}: {' '.join(r[c] for c in columns if r[c])}: {float(r['predicted_us']):.4g} us "
                  f"predicted, {measured(r):.4g} us measured")


def main():
    folder = sys.argv[1]
    program = sys.argv[2] if len(sys.argv) > 2 else "build/release/partita"
    if os.path.exists(os.path.join(folder, "collectives.csv")):
        collectives(folder, program)
    kernels(folder, program)


if __name__ == "__main__":
    main()

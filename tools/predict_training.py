#!/usr/bin/env python3
"""Compares published training steps with predicted ones: prints the table of docs/reproduction/published-steps.md.

    tools/predict_training.py FOLDER [build/release/partita] [--seed N] [--most N] [--jobs N] [-o OUT.json]
                              [--device TYPE] [--constants STEP,BESIDE]

FOLDER has training.csv, one training run a row (its columns: docs/reproduction/published-steps.md). A row is planned as
its source says that it ran: model, devices, batch, micro-batches, dtype, what is recomputed, and how the model was split.
Nothing is chosen by row, and no row has a figure of its own. The rules:

  devices    BOARDS says which preset a board is. Up to eight devices are the first of one node.
  model      MODELS says what a name means, from the model's own paper or repository.
  split      what the row says: tensor and pipeline, else the stage of ZeRO, else plain data parallelism.
  recompute  full is `layer`; of Megatron-LM selective is `attention`; an empty field is none where the framework does
             not recompute unless asked (convolutional networks and BERT), else the row is left out.
  framework  PyTorch and what is built on it, Megatron-LM, and OneFlow. Others fuse and schedule in ways of their own.
  batch norm each device has statistics of its own, as these frameworks have unless asked.
  clipping   the norm of the gradients is clipped for transformers, as their sources do, but where a row says "W/O clip".
  memory     the device's. What ran but is predicted not to fit is planned without the limit, and marked.

Of one source at most --most rows a device type are taken, drawn by --seed. Rows that are left out are counted by reason.
Each row is in one of two halves, drawn by the same seed whatever --most is: a constant that is chosen on the first is
judged on the second.

--constants gives each device type `sustained` and `beside_collectives` by other constants than the presets have
(docs/reproduction/published-steps.md): FLOPs of products for each byte beside the plan's, and for each that waits beside
a collective. 0 is no loss.
"""
import argparse
import collections
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from statistics import median, quantiles

# Patterns of boards: device type, and the presets of one node and of several. A '@' is the count of nodes.
BOARDS = [
    ("V100-SXM2-16GB", "V100", "dgx-1", "oneflow-v100"),
    ("LambdaCloud*V100 16GB", "V100", "dgx-1", None),
    ("A100-80GB*", "A100", "dgx-a100", "dgx-a100:@"),
    ("2x A100 80GB SXM4", "A100", "dgx-a100", None),
    ("A100-40GB SXM", "A100", "dgx-a100-40gb", "dgx-a100-40gb:@"),
    ("H100-80GB*", "H100", "dgx-h100", "dgx-h100:@"),
    ("*H100 80GB SXM5", "H100", "dgx-h100", None),
    ("H200 141GB", "H200", "dgx-h200", "dgx-h200:@"),
    ("H200 (a3-ultra)", "H200", "dgx-h200", "dgx-h200:@"),
    ("B200*", "B200", "dgx-b200", "dgx-b200:@"),
]
# hidden, heads, layers. MPT: llm-foundry scripts/train/yamls; its vocabulary is padded to 50,368.
MPT = {"125m": (768, 12, 12), "350m": (1024, 16, 24), "760m": (1536, 12, 24), "1b": (2048, 16, 24), "3b": (2560, 20, 32),
       "7b": (4096, 32, 32), "13b": (5120, 40, 40), "30b": (7168, 56, 48), "70b": (8192, 64, 80)}
# DLPerf, Megatron-LM/README.md: heads by hidden columns.
DLPERF_HEADS = {768: 12, 1536: 16, 2304: 24, 3072: 32}
# Touvron et al. 2023: hidden, heads, layers, inner, heads of keys.
LLAMA2 = {"7b": (4096, 32, 32, 11008, 32), "13b": (5120, 40, 40, 13824, 40), "34b": (8192, 64, 48, 22016, 8),
          "70b": (8192, 64, 80, 28672, 8)}
# Korthikanti et al. 2022, table 3: hidden, heads, layers, tensor, pipeline, virtual stages, devices, batch, micro-batch;
# steps in seconds, table 5. The repository's table gives the rates of these runs.
MEGATRON = {"GPT 22B": (6144, 64, 48, 8, 1, 1, 8, 4, 4, 1.10), "GPT 175B": (12288, 96, 96, 8, 8, 3, 64, 64, 1, 13.75)}
# Published in torchtitan's docs/performance.md of 2024, at a sequence of 8,192: not in training.csv.
TORCHTITAN = [
    {"model": "Llama-3 8B", "gpu": "A100-80GB", "gpus": "64", "framework": "torchtitan FSDP2", "dtype": "bf16",
     "global_batch": "64", "micro_batch": "1", "seq": "8192", "tensor": "1", "pipeline": "1", "zero_or_fsdp": "FSDP2",
     "recompute": "cheap", "tokens_per_s_per_gpu": "2973", "source": "pytorch/torchtitan docs/performance.md"},
    {"model": "Llama-3 70B", "gpu": "A100-80GB", "gpus": "64", "framework": "torchtitan FSDP2", "dtype": "bf16",
     "global_batch": "64", "micro_batch": "1", "seq": "8192", "tensor": "1", "pipeline": "1", "zero_or_fsdp": "FSDP2",
     "recompute": "full", "tokens_per_s_per_gpu": "331", "source": "pytorch/torchtitan docs/performance.md"},
]
FRAMEWORKS = ["*PyTorch*", "OneFlow*", "Megatron-LM*", "*Composer*", "KempnerForge", "torchtitan*", "* OneFlow W/O clip"]


class LeftOut(Exception):
    """Why a row cannot be planned."""


def number(row, column, default=None):
    text = row.get(column) or ""
    return float(text) if text else default


def zoo(name, **options):
    return f"zoo:{name}?" + ",".join(f"{k}={v}" for k, v in options.items())


def transformer(row):
    """The model, and the optimizer that its source trains it with; None: no transformer of known shape."""
    name, steps = row["model"], row.get("seq") or ""
    if found := re.fullmatch(r"MPT-(\w+)", name):
        hidden, heads, layers = MPT[found[1]]
        return zoo("gpt2", layers=layers, hidden=hidden, heads=heads, vocabulary=50368, steps=steps), "adamw"
    if found := re.fullmatch(r"GPT [\d.]+[MB] \(h=(\d+), L=(\d+)\)", name):
        hidden, layers = int(found[1]), int(found[2])
        # Megatron-LM's default dropout, which DLPerf leaves as it is; attention was not one kernel then.
        return zoo("gpt2", layers=layers, hidden=hidden, heads=DLPERF_HEADS[hidden], vocabulary=51200, steps=steps,
                   dropout=0.1), "adam"
    if found := re.fullmatch(r"Llama2 (\w+)", name):
        hidden, heads, layers, inner, keys = LLAMA2[found[1]]
        return zoo("llama-3-8b", layers=layers, hidden=hidden, heads=heads, key_heads=keys, inner=inner,
                   vocabulary=32000, steps=steps), "adamw"
    if name in ("Llama-3 8B", "Llama-3 7B"):  # 8.03 billion parameters
        return zoo("llama-3-8b", steps=steps), "adamw"
    if name in ("Llama-3 70B", "Llama 3.1 70B"):
        return zoo("llama-3-70b", steps=steps), "adamw"
    if name in MEGATRON:
        hidden, heads, layers = MEGATRON[name][:3]
        return zoo("gpt2", layers=layers, hidden=hidden, heads=heads, vocabulary=51200, steps=2048), "adam"
    return None


def model_of(row):
    name = row["model"]
    if found := transformer(row):
        return found
    if name in ("ResNet-50 v1.5", "ResNet-50"):
        return zoo("resnet-50", image=224), "sgd"
    if name == "BERT base pretrain":  # without heads: these see 20 of 128 positions, 4% of the FLOPs
        return zoo("bert-base", steps=row["seq"]), "adam"
    if "SQuAD" in name:
        raise LeftOut("sequence length not published")
    if any(w in name for w in ("GPT OSS", "MoE", "DeepSeek", "Mixtral", "Qwen3 30B", "Qwen3 235B")):
        raise LeftOut("mixture of experts")
    raise LeftOut("model not in the zoo, or shape not published")


def is_network_of_samples(row):
    return "ResNet" in row["model"] or "BERT" in row["model"]


def board_of(row):
    for pattern, kind, one, several in BOARDS:
        if fnmatchcase(row["gpu"], pattern):
            return kind, one, several
    raise LeftOut("board of no preset")


def dtype_of(row, kind):
    text = row["dtype"].lower()
    if "fp8" in text or "mx" in text or "nvfp4" in text:
        raise LeftOut("fp8 or narrower")
    if "bf16" in text:
        return "bf16"
    if "amp" in text or "fp16" in text:
        return "fp16"
    if "tf32" in text and kind != "V100":
        raise LeftOut("TF32")
    if "fp32" in text:
        return "fp32"
    raise LeftOut("dtype not published")


def recompute_of(row):
    text = row.get("recompute") or ""
    if text in ("none", "") and (text or is_network_of_samples(row)):
        return "none"
    if text == "full":
        return "layer"
    if text == "cheap":  # torchtitan's choice by operator: products and attention are kept
        return "cheap"
    if text == "selective" and "Megatron" in row["framework"]:
        return "attention"
    raise LeftOut("some layers are recomputed, others not" if text else "not published what is recomputed")


def search_of(row):
    if row["model"] in MEGATRON:
        _, _, _, tensor, pipeline, virtual = MEGATRON[row["model"]][:6]
        return f"megatron?tensor={tensor},sequence=1" + (f",pipeline={pipeline},virtual={virtual}" if pipeline > 1 else "")
    tensor, pipeline = int(number(row, "tensor", 1)), int(number(row, "pipeline", 1))
    for column in ("context", "expert"):
        if number(row, column, 1) > 1:
            raise LeftOut(f"{column} parallelism")
    zero = row.get("zero_or_fsdp") or ""
    if tensor > 1 or pipeline > 1:
        if "FSDP" in zero:
            raise LeftOut("FSDP with tensor parallelism")
        # DLPerf's Megatron-LM has neither sequence parallelism nor interleaved stages.
        return f"megatron?tensor={tensor}" + (f",pipeline={pipeline},schedule=1f1b" if pipeline > 1 else "")
    if "SHARD_GRAD_OP" in zero:
        return "zero?stage=2"
    if "SHARD" in zero or "FSDP" in zero or zero == "HSDP":
        return "fsdp"
    if zero in ("none", "DDP") or zero.startswith("DP "):
        return "data-parallel"
    raise LeftOut("split not published")


def step_of(row, batch):
    """Seconds of a step."""
    if row["model"] in MEGATRON:
        return MEGATRON[row["model"]][-1]
    if samples := number(row, "samples_per_s"):
        return batch / samples
    if tokens := number(row, "tokens_per_s_per_gpu"):
        return batch * number(row, "seq") / (tokens * number(row, "gpus"))
    raise LeftOut("no throughput")


def plan_of(row):
    """What is planned for a row."""
    kind, one, several = board_of(row)
    model, optimizer = model_of(row)
    if not any(fnmatchcase(row["framework"], pattern) for pattern in FRAMEWORKS):
        raise LeftOut("another framework")
    dtype = dtype_of(row, kind)
    devices = int(number(row, "gpus", 0))
    batch, micro = number(row, "global_batch"), number(row, "micro_batch")
    if row["model"] in MEGATRON:
        devices, batch, micro = MEGATRON[row["model"]][6:9]
    if not batch or not devices:
        raise LeftOut("batch or devices not published")
    if not row.get("seq") and "zoo:resnet" not in model and row["model"] not in MEGATRON:
        raise LeftOut("sequence length not published")
    search, recompute = search_of(row), recompute_of(row)
    options = ["--batch", str(int(batch)), "--dtype", dtype, "--optimizer", optimizer, "--recompute", recompute]
    if optimizer == "sgd":
        options += ["--momentum", "0.9"]
    if "zoo:resnet" in model:
        options += ["--batch-norm-groups", "replica"]
    elif "W/O clip" not in row["framework"]:
        options += ["--clip-norm", "1"]
    if row["gpu"] == "V100-SXM2-16GB" and "pipeline" in search:
        micro = micro or 16 / (devices / int(number(row, "tensor", 1)) / int(number(row, "pipeline", 1)))  # DLPerf
    split = int(number(row, "tensor", 1)) * int(number(row, "pipeline", 1))
    if row["model"] in MEGATRON:
        split = MEGATRON[row["model"]][3] * MEGATRON[row["model"]][4]
    if micro and micro * (devices // split) < batch:
        options += ["--micro-batch-size", str(int(micro))]
    nodes = (devices + 7) // 8
    cluster = one if nodes == 1 else several
    if not cluster:
        raise LeftOut("several nodes of no preset")
    options += ["--cluster", cluster.replace("@", str(nodes)), "--search", search]
    if cluster in (one, "oneflow-v100"):
        options += ["--devices", str(devices)]
    return {"kind": kind, "model": model, "options": options, "devices": devices, "search": search,
            "recompute": recompute, "published": step_of(row, batch), "name": row["model"], "board": row["gpu"],
            "framework": row["framework"].split(" ")[0], "source": row["source"].split(" @")[0].split(" (")[0], "dtype": dtype,
            "batch": int(batch), "seq": row.get("seq") or ""}


def chosen(rows, most, seed):
    """Plans of the rows taken, and how many were left out by reason."""
    rng, halves = random.Random(seed), random.Random(seed + 1)
    plans, left = {}, collections.Counter()
    for row in rows:
        half = halves.randrange(2)
        try:
            plan = plan_of(row)
        except LeftOut as reason:
            left[str(reason)] += 1
            continue
        plans.setdefault((plan["source"], plan["kind"]), []).append({**plan, "half": half})
    taken = []
    for same in plans.values():
        draw = sorted(rng.sample(range(len(same)), min(most, len(same))))
        left["not drawn"] += len(same) - len(draw)
        taken += [same[i] for i in draw]
    return taken, left


def figure(text, key):
    return float(re.search(rf"\b{key}: ([0-9.]+)", text)[1])


def with_constants(program, preset, constants):
    """The text of a preset whose GPUs have `sustained` and `beside_collectives` by these constants."""
    done = subprocess.run([program, "clusters", preset], stdout=subprocess.PIPE, text=True, check=True)
    head, gpu, rest = re.split(r"(    kind: gpu\n.*?\n    launch_overhead_us)", done.stdout, maxsplit=1, flags=re.S)
    peaks, reached = re.findall(r"(?:peak_tflop_per_s|reached): (\{.*\})", gpu)
    dtype = "float16" if figure(peaks, "float16") > 2 * figure(peaks, "float32") else "float32"
    flops = figure(peaks, dtype) * figure(reached, dtype) * (2 if dtype == "float32" else 1)
    ratio = 1e3 * flops / figure(gpu, "memory_bandwidth_gbytes_per_s") / figure(reached, "memory")
    for key, constant in zip(("sustained", "beside_collectives"), constants):
        kept = 1 / (1 + ratio / constant) if constant else 1
        gpu = re.sub(rf"{key}: [0-9.]+", f"{key}: {kept:.2f}", gpu)
    return head + gpu + rest


def set_constants(program, plans, constants, folder):
    """Replaces the presets in plans' options by files that are made in the folder."""
    for plan in plans:
        at = plan["options"].index("--cluster") + 1
        path = os.path.join(folder, plan["options"][at].replace(":", "-") + ".yaml")
        if not os.path.exists(path):
            text = with_constants(program, plan["options"][at], constants)
            with open(path, "w") as file:
                file.write(text)
        plan["options"][at] = path


def run(program, plan):
    """Predicted seconds of the step; None: no plan. Sets `fits`, or `why`."""
    command = [program, "plan", plan["model"], *plan["options"], "--json"]
    for limit in ([], ["--memory-limit", "100000GB"]):
        done = subprocess.run(command + limit, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            plan["fits"] = not limit
            return json.loads(done.stdout)["step_time_us"] / 1e6
        plan["why"] = done.stderr.strip().split("\n")[-1]
    return None


def share(errors, within):
    return f"{100 * sum(abs(e) <= within for e in errors) / len(errors):.0f}%"


def band(errors):
    """Between which multiples of the predicted time eight of ten published ones lie."""
    times = [1 / (1 + e) for e in errors]
    if len(times) == 1:
        return f"{times[0]:.2f}"
    cuts = quantiles(times, n=10, method="inclusive")
    return f"{cuts[0]:.2f} to {cuts[-1]:.2f}"


def summary_line(name, plans):
    errors = [p["error"] for p in plans]
    return (f"| {name} | {len(errors)} | {100 * median(errors):+.0f}% | {100 * median(map(abs, errors)):.0f}% | "
            f"{share(errors, 0.2)} | {share(errors, 0.3)} | {band(errors)} |")


def seconds(value):
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def row_line(p):
    split = p["search"] + (", in parts" if "--micro-batch-size" in p["options"] else "")
    return (f"| {p['board']} | {p['name']}{', ' + p['seq'] if p['seq'] else ''}, {p['dtype']}, {p['framework']} | "
            f"{p['devices']} | {split} | {p['batch']} | {p['recompute']} | {seconds(p['published'])} | "
            f"{seconds(p['predicted'])}{'' if p['fits'] else ' *'} | {100 * p['error']:+.0f}% |")


LENGTHS = [("up to 2,048", 1, 2048), ("2,049 to 8,192", 2049, 8192), ("over 8,192", 8193, 1 << 40)]


def groups(plans):
    """What the errors are summed up by: device, and of a device source, half and length of sequences."""
    kinds = sorted({p["kind"] for p in plans})
    for kind in kinds:
        yield kind, [p for p in plans if p["kind"] == kind]
    for kind in kinds:
        of_kind = [p for p in plans if p["kind"] == kind]
        for source in sorted({p["source"] for p in of_kind}):
            yield f"{kind}, {source}", [p for p in of_kind if p["source"] == source]
        for name, least, most in LENGTHS:
            yield f"{kind}, sequences of {name}", [p for p in of_kind if least <= int(p["seq"] or 0) <= most]
        for half, name in enumerate(("first", "second")):
            yield f"{kind}, {name} half", [p for p in of_kind if p["half"] == half]
    yield "all", plans


def report(plans, left, failed, seed):
    print("| board | model | devices | split | batch | recompute | published | predicted | error |")
    print("|---|---|---|---|---|---|---|---|---|")
    for p in plans:
        print(row_line(p))
    print("\n`*`: predicted not to fit; planned without the memory's limit.\n")
    print("| device | rows | median error | median absolute | within 20% | within 30% | 8 of 10 took, of predicted |")
    print("|---|---|---|---|---|---|---|")
    for name, some in groups(plans):
        if some:
            print(summary_line(name, some))
    print(f"\nError: predicted / published - 1 of the step's time; below zero is too fast. Seed {seed}. Left out:\n")
    for reason, count in left.most_common():
        print(f"- {count}: {reason}")
    for why, count in failed.most_common():
        print(f"- {count}: no plan: {why}")
    print("\nFarthest off:\n")
    for p in sorted(plans, key=lambda p: max(1 + p["error"], 1 / (1 + p["error"])), reverse=True)[:10]:
        print(f"- {p['kind']}, {p['source'].split(' ')[0]}: {p['name']} of batch {p['batch']}{' x ' + p['seq'] if p['seq'] else ''} "
              f"({p['framework']}, {p['dtype']}, {p['search']}) on {p['devices']}: {seconds(p['published'])}, predicted "
              f"{seconds(p['predicted'])} ({100 * p['error']:+.0f}%)")


def main():
    parser = argparse.ArgumentParser(description="published training steps beside predicted ones")
    parser.add_argument("folder")
    parser.add_argument("program", nargs="?", default="build/release/partita")
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--most", type=int, default=30, help="rows of one source and device type")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", dest="out", help="write the rows here, as JSON")
    parser.add_argument("--device", help="rows of this device type alone")
    parser.add_argument("--constants", help="STEP,BESIDE in place of the presets'")
    arguments = parser.parse_args()
    with open(os.path.join(arguments.folder, "training.csv"), newline="") as file:
        rows = list(csv.DictReader(file)) + TORCHTITAN
    plans, left = chosen(rows, arguments.most, arguments.seed)
    plans = [p for p in plans if arguments.device in (None, p["kind"])]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        if arguments.constants:
            set_constants(arguments.program, plans, [float(c) for c in arguments.constants.split(",")], folder)
        for plan, predicted in zip(plans, pool.map(lambda p: run(arguments.program, p), plans)):
            plan["predicted"] = predicted
    failed = collections.Counter(p["why"] for p in plans if p["predicted"] is None)
    plans = [p for p in plans if p["predicted"] is not None]
    for p in plans:
        p["error"] = p["predicted"] / p["published"] - 1
    report(plans, left, failed, arguments.seed)
    if arguments.out:
        with open(arguments.out, "w") as file:
            json.dump(plans, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())

"""For tools/rank_published.py: which `partita plan` command asks for the step of a published row of configs.csv.

`question_of` is the one place that maps a row. `command_of` is the one place that writes a command, so that another
command of the program can answer.

  model      GPT-like models are zoo:gpt2, with the dropout that keeps attention in separate kernels, as their frameworks
             had it. Llama-like models are zoo:llama-3-8b with the row's shape. Attention that is not one kernel is a
             configuration with a dropout of attention, which the program plans in elementary operations.
  cluster    BOARDS says which preset a GPU is. NETWORKS says what the row's network gives each GPU; a row without a
             network has the preset's.
  rule       `megatron`, or `zero` if the parameters are sharded. Options that the program's rule lacks are left out,
             and counted as gaps: the row is then planned without that detail.
  stages     the first cut that the program tries (--max-steps 1), the evenest in time. Frameworks cut equal layers.
"""
import dataclasses
import json
import re
import subprocess
from fnmatch import fnmatchcase

from predict_training import LLAMA2, LeftOut, number, zoo

# Patterns of GPUs: the preset of N nodes, and changes of its text. Each change is a pattern and what replaces it.
BOARDS = [
    ("A100-SXM4-40GB", "dgx-a100-40gb", []),
    ("A100*", "dgx-a100", []),  # vTrain says A100 only; the authors' nodes with 800 Gb/s have 80 GB
    ("A800-80GB", "dgx-a100", [(r"bandwidth_gbytes_per_s: 300\b", "bandwidth_gbytes_per_s: 200")]),
    ("H100-80GB", "dgx-h100", []),
    # GH200: 96 GB of HBM3 at 4 TB/s; four in a node, 25 GB/s of Slingshot each.
    ("GH-96", "dgx-h100", [(r"memory_gibytes: 78.1\b", "memory_gibytes: 94.1"),
                           (r"memory_bandwidth_gbytes_per_s: 3350\b", "memory_bandwidth_gbytes_per_s: 4000")]),
    ("V100-32GB", "dgx-1-32gb", []),
]
# Gigabytes a second that a network gives each GPU, by the row's text.
NETWORKS = [("", None), ("Selene", None), ("800 Gb/s a node*", 12.5), ("4 Omni-Path 100Gb/s a node", 6.25),
            ("4x100Gb RoCE a node", 6.25), ("Jean Zay V100 nodes, 4x Omni-Path", 12.5), ("Slingshot", 25),
            ("8x50 GB/s InfiniBand a node", 50)]
# Patterns of frameworks: what `framework=` calls them, and the optimizer.
FRAMEWORKS = [("Aleph Alpha*", "aleph-alpha", "adamw"), ("Megatron-DeepSpeed*", "megatron-deepspeed", "adam"),
              ("InternEvo", "internevo", "adamw"), ("Megatron-LM", "megatron-lm", "adam"),
              ("torchtitan*", "torchtitan", "adamw")]
RECOMPUTE = {"none": "none", "full layer": "layer", "full": "layer", "selective (core attention)": "attention",
             "core_attn": "attention", "selective op": "cheap"}
# FlashAttention 2, which presets have, is about twice as fast as the first version (Dao 2023, abstract).
FLASH_ATTENTION_1 = (r"fused_attention: ([0-9.]+)", lambda found: f"fused_attention: {float(found[1]) / 2:g}")
# Jean Zay's nodes: four V100 with two links of NVLink between each pair.
JEAN_ZAY = """topology:
  link: {bandwidth_gbytes_per_s: 12.5, latency_us: 1.75, per_device: true}
  children:
    - name: node
      count: @
      link: {bandwidth_gbytes_per_s: 15.75, latency_us: 5}
      host: {type: E5-2698v4, link: {bandwidth_gbytes_per_s: 12, latency_us: 5, per_device: true}}
      children:
        - {name: gpu, count: 4, type: V100}
links:
"""


@dataclasses.dataclass(frozen=True)
class Question:
    """What is asked of the program for a row, and what it leaves out."""
    model: str
    config: str  # the text of a config.json that is asked for instead of `model`; empty: none
    cluster: str  # the text of a cluster file
    devices: int
    options: tuple
    tokens: float  # of a step
    gaps: tuple  # details of the row that the command cannot say

    @property
    def memory_bytes(self):
        """What a plan may use of a device."""
        return float(re.search(r"kind: gpu\n.*?memory_gibytes: ([0-9.]+)", self.cluster, re.S)[1]) * 2**30


class Program:
    """A program, its presets and the options of its rules."""

    def __init__(self, path):
        self.path, self.presets = path, {}
        searches = json.loads(self.output("searches", "--json"))["searches"]
        self.options = {search["name"]: search["options"] for search in searches}

    def output(self, *words):
        return subprocess.run([self.path, *words], stdout=subprocess.PIPE, text=True, check=True).stdout

    def preset(self, name):
        if name not in self.presets:
            self.presets[name] = self.output("clusters", name)
        return self.presets[name]


def matching(table, text, what):
    for row in table:
        if fnmatchcase(text, row[0]):
            return row[1:]
    raise LeftOut(f"{what}: {text or 'not published'}")


def whole(row, column, default=1):
    return int(number(row, column, default))


def jean_zay(nodes):
    pairs = [f"  - {{between: [{node}.gpu{a}, {node}.gpu{b}], bandwidth_gbytes_per_s: 50, latency_us: 1}}\n"
             for node in [f"node{n}" for n in range(nodes)] for a in range(4) for b in range(a + 1, 4)]
    return JEAN_ZAY.replace("@", str(nodes)) + "".join(pairs)


def cluster_of(row, program):
    """The text of the row's cluster, which has a preset's device types."""
    preset, changes = matching(BOARDS, row["gpu"], "no preset of the GPU")
    (network,) = matching(NETWORKS, row["network"], "network")
    per_node = whole(row, "gpus_per_node", 8)
    nodes = -(-whole(row, "gpus") // per_node)
    text = program.preset(preset if preset == "dgx-1-32gb" else f"{preset}:{nodes}")
    if row["attention"] == "flash_attentionv1.0.8":
        changes = [*changes, FLASH_ATTENTION_1]
    for pattern, replacement in changes:
        text = re.sub(pattern, replacement, text)
    if preset == "dgx-1-32gb":
        return text[:text.index("topology:")] + jean_zay(nodes)
    text = re.sub(r"\{name: gpu, count: 8,", f"{{name: gpu, count: {per_node},", text)
    if network:
        text = re.sub(r"(topology:\n  link: \{bandwidth_gbytes_per_s: )[0-9.]+", rf"\g<1>{network}", text)
    return text


def shape_of(row):
    """Layers, hidden, heads, heads of keys, inner and vocabulary."""
    if found := re.fullmatch(r"Llama-2-(\w+)", row["model"]):
        hidden, heads, layers, inner, keys = LLAMA2[found[1].lower()]
        return layers, hidden, heads, keys, inner, 32000
    columns = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
    if any(not row[c] for c in columns):
        raise LeftOut("shape of the model not published")
    return tuple(whole(row, c) for c in columns)


def model_of(row):
    """The model's name; or an empty one, and a configuration."""
    if any(word in row["model"] for word in ("Moonlight", "Qwen3")):
        raise LeftOut("mixture of experts, whose shape is not in the table")
    if not row["seq"]:
        raise LeftOut("sequence length not published")
    layers, hidden, heads, keys, inner, vocabulary = shape_of(row)
    if re.match(r"GPT|BLOOM|OPT", row["model"]):
        if inner != 4 * hidden:
            raise LeftOut("inner of a GPT is not four times hidden")
        return zoo("gpt2", layers=layers, hidden=hidden, heads=heads, vocabulary=vocabulary, steps=row["seq"], dropout=0.1), ""
    if row["attention"] in ("torch", "fused"):
        return "", json.dumps({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": keys, "intermediate_size": inner, "vocab_size": vocabulary,
            "max_position_embeddings": int(row["seq"]), "attention_dropout": 0.1, "tie_word_embeddings": False})
    return zoo("llama-3-8b", layers=layers, hidden=hidden, heads=heads, key_heads=keys, inner=inner, vocabulary=vocabulary,
               steps=row["seq"]), ""


def wanted_of(row):
    """The rule, its options that every program has, and those that it may lack."""
    tensor, stages, virtual = whole(row, "TP"), whole(row, "PP"), whole(row, "virtual")
    if whole(row, "EP") > 1:
        raise LeftOut("experts")
    framework = matching(FRAMEWORKS, row["framework"], "framework")[0]
    zero = row["zero"] or ("ZeRO-1" if "ZeRO-1 as in" in row["note"] else "")
    maybe = {"framework": framework}
    if whole(row, "CP") > 1:
        maybe["context"] = whole(row, "CP")
    if found := re.search(r"over (\d+) GPUs", zero):
        maybe["zero-group"] = int(found[1])
    if stages == 1 and ("FSDP" in zero or "ZeRO-3" in zero):
        return "zero", {"stage": 3, **({"tensor": tensor} if tensor > 1 else {})}, maybe
    options = {"tensor": tensor, "zero": 1 if zero.startswith(("ZeRO-1", "distributed")) else 2 if zero == "ZeRO-2" else 0}
    if row["seq_parallel"] == "1" and tensor > 1:
        options["sequence"] = 1
    if stages > 1:
        options |= {"pipeline": stages, **({"virtual": virtual} if virtual > 1 else {"schedule": "1f1b"})}
        maybe["layers"] = "even"
    return "megatron", options, maybe


def search_of(row, program):
    """The text of --search, and the options that the program's rule lacks."""
    rule, options, maybe = wanted_of(row)
    known = program.options[rule]
    had = {key: value for key, value in maybe.items() if key in known and (key != "framework" or value in known[key])}
    if "context" in maybe and "context" not in had:
        raise LeftOut("context parallelism")
    text = ",".join(f"{key}={value}" for key, value in {**options, **had}.items())
    return f"{rule}?{text}", [f"{key}={value}" for key, value in maybe.items() if key not in had]


def kernels_left_out(row):
    """What the row says about kernels, and the command does not."""
    if row["attention"] == "fused":
        yield "softmax in one kernel of its own"
    if "LLAMA" in row["model"] and "RMS kernel" not in row["attention"]:
        yield "norms in elementary kernels"


def question_of(row, program):
    """What to ask for a row of configs.csv. Raises LeftOut with the reason if the row cannot be asked."""
    if row["precision"] not in ("bf16", "fp16"):
        raise LeftOut(f"precision {row['precision'] or 'not published'}")
    if row["recompute"] not in RECOMPUTE:
        raise LeftOut(f"recomputation: {row['recompute'] or 'not published'}")
    if not row["global_batch"] or not row["micro_batch"]:
        raise LeftOut("batch not published")
    model, config = model_of(row)
    search, gaps = search_of(row, program)
    optimizer = matching(FRAMEWORKS, row["framework"], "framework")[1]
    batch, devices = whole(row, "global_batch"), whole(row, "gpus")
    options = ["--batch", str(batch), "--dtype", row["precision"], "--optimizer", optimizer, "--clip-norm", "1",
               "--recompute", RECOMPUTE[row["recompute"]], "--search", search,
               "--micro-batch-size", str(whole(row, "micro_batch"))]
    return Question(model, config, cluster_of(row, program), devices, tuple(options), batch * number(row, "seq"),
                    (*gaps, *kernels_left_out(row)))


def command_of(question, program, model, cluster, more=()):
    """The command that answers a question, whose cluster (and configuration) are in files."""
    return [program.path, "plan", model, *question.options, "--cluster", cluster, "--devices", str(question.devices),
            "--max-steps", "1", "--memory-limit", "100000GB", *more, "--json"]


def answer_of(text):
    """Of what a command printed: the step in seconds, the memory in bytes, and the part of it that buckets may need."""
    figures = json.loads(text)
    kinds = figures.get("peak_memory_by_kind", {})
    return {"step_s": figures["step_time_us"] / 1e6, "memory": figures.get("least_memory_bytes", figures["peak_memory_bytes"]),
            "buffers": kinds.get("communication buffers", 0) + kinds.get("gaps between them", 0)}

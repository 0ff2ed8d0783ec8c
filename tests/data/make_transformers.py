"""Writes the ONNX files and reference numbers of transformers, and of a ResNet that is not ours, in this folder.

    pip install -r tests/data/requirements.txt
    python tests/data/make_transformers.py [NAME..]   writes them
    python tests/data/make_transformers.py --check    exports again, and compares with what is here; 77: other versions installed

The models are PyTorch's own torch.nn.TransformerEncoder, and classes of the transformers package with small configurations, all
dropout 0. For each NAME: NAME.onnx as the exporter writes it with optimize=False, NAME-optimized.onnx with optimize=True,
NAME-torchscript.onnx by the older exporter where it can, and NAME-reference.npz, all in float64:
    x, y, labels                 one batch, the model's answer in eval mode, and labels to train towards
    losses, final.NAME           of five steps of SGD (lr 0.01) on that batch with the mean cross-entropy; the parameters and
                                 running statistics after them, under PyTorch's names
and for some NAME-optimizers.npz, of five steps from the same start, RUN being one of OPTIMIZERS:
    RUN.losses, RUN.weights      the losses; of each parameter and running statistic, by name, what `summary` tells, one after another

The transformers package computes a few places in float32 whatever the model's dtype is (normalization, rotary tables, routing);
for the reference numbers these are computed in float64, except for tables that the file holds.
"""
import copy
import math
import sys
import tempfile
import warnings
from pathlib import Path

from versions import check_versions

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"


if "--check" in sys.argv:
    check_versions()

import numpy as np
import onnx
import torch
import transformers
from torch import nn

sys.path.insert(0, str(EXAMPLES))
from relative_paths import make_paths_relative  # noqa: E402


class Encoder(nn.Module):
    """Two layers as torch.nn.TransformerEncoder makes them, and a classifier of each position."""

    def __init__(self, activation):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation=activation, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.encoder(x))


class EncoderDecoder(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(input_ids=x, decoder_input_ids=x, use_cache=False).logits


class Logits(nn.Module):
    """A model of the transformers package as a function of one input."""

    def __init__(self, model, argument):
        super().__init__()
        self.model = model
        self.argument = argument

    def forward(self, x):
        return self.model(**{self.argument: x}).logits


TEXT = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, max_position_embeddings=16)


def words():
    return torch.randint(1, 40, (3, 8))


def gpt2():
    config = transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                                     attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False)
    return Logits(transformers.GPT2LMHeadModel(config), "input_ids"), words()


def bert():
    config = transformers.BertConfig(**TEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=5)
    return Logits(transformers.BertForSequenceClassification(config), "input_ids"), words()


def llama():
    config = transformers.LlamaConfig(**TEXT, num_key_value_heads=2, use_cache=False)
    return Logits(transformers.LlamaForCausalLM(config), "input_ids"), words()


def mixtral():
    # One layer: the file of two is larger than it is worth.
    config = transformers.MixtralConfig(**{**TEXT, "num_hidden_layers": 1}, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=5,
                                        use_cache=False)
    config._experts_implementation = "batched_mm"
    return Logits(transformers.MixtralForCausalLM(config), "input_ids"), words()


def vit():
    config = transformers.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=16,
                                    patch_size=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=5)
    return Logits(transformers.ViTForImageClassification(config), "pixel_values"), torch.randn(3, 3, 16, 16)


def resnet():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16], depths=[1, 2, 1], layer_type="bottleneck", num_labels=5)
    return Logits(transformers.ResNetForImageClassification(config), "pixel_values"), torch.randn(4, 3, 32, 32)


def t5():
    config = transformers.T5Config(vocab_size=40, d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=4, dropout_rate=0.0,
                                   decoder_start_token_id=0, pad_token_id=0, use_cache=False)
    return EncoderDecoder(transformers.T5ForConditionalGeneration(config)), words()


def swin():
    config = transformers.SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4,
                                     drop_path_rate=0.0, hidden_dropout_prob=0.0, num_labels=5)
    return Logits(transformers.SwinForImageClassification(config), "pixel_values"), torch.randn(3, 3, 16, 16)


def convnext():
    config = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, patch_size=2, drop_path_rate=0.0, num_labels=5)
    return Logits(transformers.ConvNextForImageClassification(config), "pixel_values"), torch.randn(3, 3, 16, 16)


def mobilenet():
    config = transformers.MobileNetV2Config(depth_multiplier=0.1, min_depth=4, depth_divisible_by=4, image_size=32, classifier_dropout_prob=0.0,
                                            num_labels=5)
    return Logits(transformers.MobileNetV2ForImageClassification(config), "pixel_values"), torch.randn(4, 3, 32, 32)


# Of which only this one file is kept, exported without gradients, which the exporter does not take here.
ONE_FILE = {"t5": False, "swin": True, "convnext": False, "mobilenet": True}  # optimized

# Whose layers, scales and biases are equal at first: exporters merge those that are.
FRESH = {"fresh_encoder"}

# The model, and whether the older exporter knows all that it needs.
MODELS = {
    "fresh_encoder": (lambda: (Encoder("gelu"), torch.randn(3, 6, 16)), True),
    "gelu_encoder": (lambda: (Encoder("gelu"), torch.randn(3, 6, 16)), True),
    "relu_encoder": (lambda: (Encoder("relu"), torch.randn(3, 6, 16)), True),
    "gpt2": (gpt2, False),
    "bert": (bert, True),
    "llama": (llama, False),
    "mixtral": (mixtral, False),
    "vit": (vit, True),
    "resnet": (resnet, True),
    "t5": (t5, False),
    "swin": (swin, False),
    "convnext": (convnext, False),
    "mobilenet": (mobilenet, False),
}


def made(name, make):
    """The model, unless it is fresh with scales and biases that no accident leaves equal or unused."""
    torch.manual_seed(3)
    model, x = make()
    if name in FRESH:
        return model.eval(), x
    with torch.no_grad():
        for p in model.parameters():
            p.add_((torch.rand(p.shape) - 0.5) * 0.2)
        for part in model.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.uniform_(part.running_mean, -0.2, 0.2)
                nn.init.uniform_(part.running_var, 0.6, 1.5)
    return model.eval(), x


def rms_norm_in_double(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def reference(folder, name, model, x):
    model = copy.deepcopy(model).double()
    for part in model.modules():
        if type(part).__name__.endswith("RMSNorm") or type(part).__name__ == "T5LayerNorm":
            type(part).forward = rms_norm_in_double
    x = x.double() if x.is_floating_point() else x
    y = model(x).detach()
    labels = torch.randint(0, y.shape[-1], y.shape[:-1])
    out = {"x": x, "labels": labels, "y": y}
    model.train()
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(model(x).reshape(-1, y.shape[-1]), labels.reshape(-1))
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    for key, value in model.named_parameters(remove_duplicate=False):  # a tied weight under each of its names
        out["final." + key] = value.detach()
    for key, value in model.named_buffers():
        if "running_" in key:
            out["final." + key] = value
    np.savez_compressed(folder / f"{name}-reference.npz", **{key: value.numpy() for key, value in out.items()})


# With Partita's settings, which tests/e2e/onnx_test.cc has too.
OPTIMIZERS = {
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01), None),
    "adam": (lambda p: torch.optim.Adam(p, lr=0.01), None),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1), None),
    "adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.01), None),
    "clipped": (lambda p: torch.optim.SGD(p, lr=0.01), 0.5),
}
OPTIMIZED = {"gpt2", "resnet"}
SAMPLES = 24


def summary(value):
    """SAMPLES of its numbers, evenly apart, or all; then two sums of all of them by factors cos(1 + i) and cos(0.3 i^2)."""
    v = value.detach().flatten()
    n, i = len(v), torch.arange(len(v), dtype=torch.float64)
    few = v if n <= SAMPLES else v[torch.arange(SAMPLES) * n // SAMPLES]
    return torch.cat([few, (v * torch.cos(1 + i)).sum()[None], (v * torch.cos(0.3 * i * i)).sum()[None]])


def with_constants_as_exported(model):
    """GPT-2 with the float32 constants of its file: Adam's and Adagrad's first steps, of one size whatever the gradient, show them."""
    inner, outer = (float(np.float32(c)) for c in (0.044715, math.sqrt(2 / math.pi)))
    for part in model.modules():
        if type(part).__name__ == "NewGELUActivation":
            part.forward = lambda x: 0.5 * x * (1 + torch.tanh(outer * (x + inner * x**3)))
        elif type(part).__name__ == "GPT2Attention":
            part.scaling = float(np.float32(math.sqrt(part.scaling))) ** 2  # half of it in the queries, half in the keys
    return model


def optimizers(folder, name, model, x):
    labels = torch.from_numpy(np.load(folder / f"{name}-reference.npz")["labels"])
    x = x.double() if x.is_floating_point() else x
    out = {}
    for run, (make, clip_norm) in OPTIMIZERS.items():
        trained = with_constants_as_exported(copy.deepcopy(model).double().train())
        optimizer = make(trained.parameters())
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            y = trained(x)
            loss = nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), labels.reshape(-1))
            loss.backward()
            if clip_norm:
                norm = nn.utils.clip_grad_norm_(trained.parameters(), clip_norm)
                assert norm > clip_norm
            optimizer.step()
            losses.append(loss.item())
        values = dict(trained.named_parameters(remove_duplicate=False)) | {key: value for key, value in trained.named_buffers() if "running_" in key}
        out[run + ".losses"] = np.array(losses)
        out[run + ".weights"] = torch.cat([summary(values[key]) for key in sorted(values)]).numpy()
    np.savez_compressed(folder / f"{name}-optimizers.npz", **out)


def export(path, model, x, **options):
    if options.get("dynamo", True):
        torch.onnx.export(model, (x,), dynamo=True, input_names=["x"], output_names=["y"], verbose=False, **options).save(path, external_data=False)
    else:
        torch.onnx.export(model, (x,), path, input_names=["x"], output_names=["y"], **options)
    make_paths_relative(path, EXAMPLES, HERE, Path(torch.__file__).parent.parent, Path(transformers.__file__).parent.parent)


def write(folder, names=()):
    for name, (make, older_exporter) in MODELS.items():
        if names and name not in names:
            continue
        model, x = made(name, make)
        if name in ONE_FILE:
            with torch.no_grad():
                export(folder / (f"{name}-optimized.onnx" if ONE_FILE[name] else f"{name}.onnx"), copy.deepcopy(model).requires_grad_(False), x,
                       optimize=ONE_FILE[name])
            reference(folder, name, model, x)
            continue
        export(folder / f"{name}.onnx", copy.deepcopy(model), x, optimize=False)
        export(folder / f"{name}-optimized.onnx", copy.deepcopy(model), x, optimize=True)
        if older_exporter:
            export(folder / f"{name}-torchscript.onnx", copy.deepcopy(model), x, dynamo=False)
        reference(folder, name, model, x)  # changes classes
        if name in OPTIMIZED:
            optimizers(folder, name, model, x)


def check():
    """Exports into another folder; the nodes, and all numbers up to rounding, must be those that are here."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for path in sorted(Path(folder).iterdir()):
            here = HERE / path.name
            if path.suffix == ".npz":
                ours, again = np.load(here), np.load(path)
                same = sorted(ours) == sorted(again) and all(np.allclose(ours[k], again[k], rtol=1e-6, atol=1e-9) for k in ours)
            else:
                ours, again = onnx.load(here), onnx.load(path)
                same = [(n.op_type, list(n.input), list(n.output)) for n in ours.graph.node] == [(n.op_type, list(n.input), list(n.output)) for n in again.graph.node]
                same = same and all(a.name == b.name and np.allclose(onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b), rtol=1e-5, atol=1e-6)
                                    for a, b in zip(ours.graph.initializer, again.graph.initializer, strict=True))
            print(f"{path.name}: {'as it was' if same else 'DIFFERENT'}")
            wrong += [] if same else [path.name]
    if wrong:
        raise SystemExit(f"exported differently: {', '.join(wrong)}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    check() if "--check" in sys.argv else write(HERE, sys.argv[1:])

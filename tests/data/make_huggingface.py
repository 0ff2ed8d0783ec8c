"""Writes tests/data/huggingface/tiny-*: models of the transformers package as it saves them, and reference numbers.

    pip install -r tests/data/requirements.txt
    python tests/data/make_huggingface.py [NAME..]   writes them
    python tests/data/make_huggingface.py --check    makes them again, and compares with what is here; 77: other versions installed

For each NAME, in huggingface/NAME: config.json and the weights, as save_pretrained writes them (one of several files where the model is
sharded), and reference.npz, all in float64:
    input_ids, token_type_ids, labels   one batch, and labels to train towards: of each position, or of each sequence
    y                                   the model's answer in eval mode
    y2, next_sentence_label             of BertForPreTraining's second head
    losses, final.NAME                  of five steps of SGD (lr 0.01) on that batch; the weights after them, under the names and in the
                                        layouts of the files
Dropout is 0. The loss is the mean over all labels, which are not shifted, plus the load-balancing loss where the model has one. What transformers computes in float32 whatever the model's
dtype (norms, rotary tables, routing) is computed in float64 here.
"""
import contextlib
import sys
import tempfile
from pathlib import Path

from versions import check_versions

HERE = Path(__file__).resolve().parent / "huggingface"

if "--check" in sys.argv:
    check_versions()

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from torch import nn

SIZES = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24, max_position_embeddings=16,
             initializer_range=0.2)


def llama():
    rope = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2, head_dim=6, rope_parameters=rope,
                                                                  attention_bias=True, mlp_bias=True, use_cache=False))


def llama_tied():
    rope = {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.5}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, rope_parameters=rope, tie_word_embeddings=True, hidden_act="gelu",
                                                                  rms_norm_eps=1e-3, use_cache=False))


def gpt2_config(**more):
    return transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                   bos_token_id=0, eos_token_id=0, use_cache=False, initializer_range=0.2, **more)


def gpt2():
    return transformers.GPT2LMHeadModel(gpt2_config())


def gpt2_untied():
    return transformers.GPT2LMHeadModel(gpt2_config(n_inner=24, activation_function="relu", scale_attn_by_inverse_layer_idx=True,
                                                    tie_word_embeddings=False, layer_norm_epsilon=1e-3))


def bert_config(**more):
    return transformers.BertConfig(**SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **more)


def bert_lm():
    return transformers.BertForMaskedLM(bert_config(type_vocab_size=3))


def bert_pretraining():
    return transformers.BertForPreTraining(bert_config())


def bert_classifier():
    return transformers.BertForSequenceClassification(bert_config(num_labels=3, hidden_act="gelu_new"))


def mixtral():
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
                                                                      sliding_window=5, use_cache=False))


def mixtral_balanced():
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, num_key_value_heads=4, num_local_experts=3, num_experts_per_tok=1,
                                                                      output_router_logits=True, router_aux_loss_coef=0.3, use_cache=False))


# The model, and the largest size of a file of its weights.
MODELS = {"tiny-llama": (llama, "12KB"), "tiny-llama-tied": (llama_tied, "1GB"), "tiny-gpt2": (gpt2, "1GB"), "tiny-gpt2-untied": (gpt2_untied, "1GB"),
          "tiny-bert-lm": (bert_lm, "1GB"), "tiny-bert-pretraining": (bert_pretraining, "1GB"), "tiny-bert-classifier": (bert_classifier, "1GB"),
          "tiny-mixtral": (mixtral, "1GB"), "tiny-mixtral-balanced": (mixtral_balanced, "1GB")}


# Of which the files hold two bytes a number.
SHORT = {"tiny-llama-tied": torch.bfloat16, "tiny-gpt2-untied": torch.float16}


@contextlib.contextmanager
def in_double():
    """What asks for float32 gets float64."""
    kept = torch.float, torch.float32, torch.Tensor.float
    torch.float, torch.float32, torch.Tensor.float = torch.float64, torch.float64, torch.Tensor.double
    try:
        yield
    finally:
        torch.float, torch.float32, torch.Tensor.float = kept


def numbers(path):
    if path.suffix == ".npz":
        return np.load(path)
    return {name: values.double().numpy() for name, values in load_file(path).items()}


def saved_weights(model):
    """As save_pretrained names and lays them out."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return numbers(Path(folder) / "model.safetensors")


def write(folder, names=()):
    for name, (make, shard) in MODELS.items():
        if names and name not in names:
            continue
        torch.manual_seed(3)
        model = make().eval()
        with torch.no_grad():  # scales and biases that no accident leaves equal or unused
            for p in model.parameters():
                p.add_((torch.rand(p.shape) - 0.5) * 0.2)
        model.to(SHORT.get(name, torch.float32)).save_pretrained(folder / name, max_shard_size=shard)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        model.config._experts_implementation = "eager"  # which knows float64
        with in_double():
            double = type(model)(model.config)  # with its tables in float64
        double.load_state_dict(model.state_dict())
        reference(folder / name, double.double().eval())


def answers(model, inputs):
    """The logits, and those of a second head, or None."""
    out = model(**inputs)
    return (out.prediction_logits, out.seq_relationship_logits) if "prediction_logits" in out else (out.logits, None)


def reference(folder, model):
    inputs = {"input_ids": torch.randint(1, 40, (3, 8))}
    if model.config.model_type == "bert":
        inputs["token_type_ids"] = torch.randint(0, model.config.type_vocab_size, (3, 8))
    with in_double():
        y, y2 = answers(model, inputs)
        labels = torch.randint(0, y.shape[-1], y.shape[:-1])
        out = {**inputs, "labels": labels, "y": y.detach()}
        if y2 is not None:
            out.update(y2=y2.detach(), next_sentence_label=torch.randint(0, 2, (3,)))
        model.train()
        sgd = torch.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for _ in range(5):
            sgd.zero_grad()
            y, y2 = answers(model, inputs)
            loss = nn.functional.cross_entropy(y.reshape(-1, y.shape[-1]), labels.reshape(-1))
            if y2 is not None:
                loss = loss + nn.functional.cross_entropy(y2, out["next_sentence_label"])
            if model.config.model_type == "mixtral" and model.config.output_router_logits:
                loss = loss + model.config.router_aux_loss_coef * model(**inputs).aux_loss
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    out = {key: value.numpy() for key, value in out.items()}
    out["losses"] = np.array(losses)
    for key, value in saved_weights(model).items():
        out["final." + key] = value
    np.savez_compressed(folder / "reference.npz", **out)


def check():
    """The same numbers, up to rounding, and the same files."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for path in sorted(Path(folder).glob("*/*")):
            here = HERE / path.parent.name / path.name
            if path.suffix == ".json":
                same = here.read_text() == path.read_text()
            else:
                ours, again = numbers(here), numbers(path)
                same = sorted(ours) == sorted(again) and all(np.allclose(ours[k], again[k], rtol=1e-6, atol=1e-9) for k in ours)
            print(f"{path.parent.name}/{path.name}: {'as it was' if same else 'DIFFERENT'}")
            wrong += [] if same else [path.name]
    if wrong:
        raise SystemExit(f"made differently: {', '.join(wrong)}")


if __name__ == "__main__":
    check() if "--check" in sys.argv else write(HERE, sys.argv[1:])

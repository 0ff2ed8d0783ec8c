"""Writes tests/data/huggingface/tiny-*: models of the transformers package as it saves them, and reference numbers.

    pip install -r tests/data/requirements.txt
    python tests/data/make_huggingface.py [NAME..]   writes them
    python tests/data/make_huggingface.py --counts   writes huggingface/parameters.json: the parameters of the models of the other folders, as
                                                     transformers builds them without memory (the meta device)
    python tests/data/make_huggingface.py --check    makes them again, and compares with what is here; 77: other versions installed

For each NAME, in huggingface/NAME: config.json and the weights, as save_pretrained writes them (one of several files where the model is
sharded), and reference.npz, all in float64:
    input_ids, token_type_ids, labels   one batch, and labels to train towards: of each position, or of each sequence
    y                                   the model's answer in eval mode
    y2, next_sentence_label             of BertForPreTraining's second head
    losses, final.NAME                  of five steps of SGD (lr 0.01) on that batch; the weights after them, under the names and in the
                                        layouts of the files
For those of IGNORED also ignored.npz: inputs, labels of which some are -100, losses and final.NAME of five steps with transformers' own
loss. A causal model's labels are those of the next token: it is given them one place later, and the last label of a sequence is -100.
Dropout is 0. The loss is the mean over all labels, which are not shifted, plus the load-balancing loss where the model has one. What transformers computes in float32 whatever the model's
dtype (norms, rotary tables, routing) is computed in float64 here.
"""
import contextlib
import json
import re
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


# As small as shows everything, since each of many models has its reference.
LEAST = dict(vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=4, intermediate_size=12, max_position_embeddings=16,
             initializer_range=0.2, use_cache=False)


def mistral():
    return transformers.MistralForCausalLM(transformers.MistralConfig(**LEAST, num_key_value_heads=2, head_dim=6, sliding_window=3))


def qwen2():
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**LEAST, num_key_value_heads=2, use_sliding_window=True, sliding_window=3,
                                                                  max_window_layers=1, tie_word_embeddings=True))


def qwen3():
    rope = {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 4, "beta_fast": 2.0}
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**LEAST, num_key_value_heads=2, head_dim=6, attention_bias=True,
                                                                  rope_parameters=rope))


def gemma():
    return transformers.GemmaForCausalLM(transformers.GemmaConfig(**LEAST, num_key_value_heads=1, head_dim=6))


def gemma2():
    return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**LEAST, num_key_value_heads=2, head_dim=6, query_pre_attn_scalar=10,
                                                                    sliding_window=3, final_logit_softcapping=2.0,
                                                                    attn_logit_softcapping=0.7))


def gemma3():
    config = transformers.Gemma3TextConfig(**LEAST, num_key_value_heads=2, head_dim=6, query_pre_attn_scalar=10, sliding_window=3,
                                           layer_types=["sliding_attention", "full_attention"], rope_parameters={
                                               "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 8.0},
                                               "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}})
    return transformers.Gemma3ForCausalLM(config)


def phi3(**more):
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(**{**LEAST, "hidden_size": 16}, num_key_value_heads=2, pad_token_id=0, bos_token_id=1,
                                                                eos_token_id=2, **more))


def phi3_long():
    rope = {"rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.5, "short_factor": [1.0], "long_factor": [3.5]}
    return phi3(rope_parameters=rope, original_max_position_embeddings=4, sliding_window=5)


def olmo2():
    return transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**LEAST, num_key_value_heads=2, pad_token_id=0, eos_token_id=1))


def neox(**more):
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**{**LEAST, "hidden_size": 16, **more}))


def neox_sequential():
    return neox(use_parallel_residual=False, hidden_act="gelu_fast", attention_bias=False, tie_word_embeddings=True,
                rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0})


def opt(**more):
    sizes = {key: value for key, value in LEAST.items() if key not in ("intermediate_size", "initializer_range")}
    return transformers.OPTForCausalLM(transformers.OPTConfig(**sizes, ffn_dim=12, word_embed_proj_dim=more.pop("word_embed_proj_dim", 8), dropout=0.0,
                                                              pad_token_id=0, init_std=0.2, **more))


def opt_after():
    return opt(do_layer_norm_before=False, word_embed_proj_dim=6)


def opt_bare():
    return opt(enable_bias=False, layer_norm_elementwise_affine=False, tie_word_embeddings=False)


def qwen2_moe():
    config = transformers.Qwen2MoeConfig(**LEAST, num_key_value_heads=2, moe_intermediate_size=6, shared_expert_intermediate_size=10, num_experts=3,
                                         num_experts_per_tok=2, use_sliding_window=True, sliding_window=3, output_router_logits=True,
                                         router_aux_loss_coef=0.3)
    return transformers.Qwen2MoeForCausalLM(config)


def qwen3_moe():
    config = transformers.Qwen3MoeConfig(**{**LEAST, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=6, moe_intermediate_size=6,
                                         num_experts=3, num_experts_per_tok=2, norm_topk_prob=True, mlp_only_layers=[0])
    return transformers.Qwen3MoeForCausalLM(config)


LATENT = dict(kv_lora_rank=6, qk_nope_head_dim=4, qk_rope_head_dim=2, v_head_dim=3, num_key_value_heads=2, moe_intermediate_size=5,
              n_routed_experts=6, num_experts_per_tok=2, first_k_dense_replace=1)


def deepseek_v2(**more):
    return transformers.DeepseekV2ForCausalLM(transformers.DeepseekV2Config(**{**LEAST, "num_attention_heads": 2}, **LATENT, **more))


def deepseek_v2_greedy():
    return deepseek_v2(q_lora_rank=None, n_shared_experts=2, routed_scaling_factor=1.0, attention_bias=True)


def deepseek_v2_groups():
    rope = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 4, "beta_fast": 2.0, "mscale": 0.7,
            "mscale_all_dim": 0.9}
    return deepseek_v2(q_lora_rank=5, n_shared_experts=1, topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=1.5,
                       rope_parameters=rope)


def deepseek_v3():
    rope = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 4, "mscale": 1.0, "mscale_all_dim": 1.0}
    config = transformers.DeepseekV3Config(**{**LEAST, "num_attention_heads": 2}, **LATENT, q_lora_rank=5, n_shared_experts=1, n_group=3,
                                           topk_group=2, rope_parameters=rope)
    return transformers.DeepseekV3ForCausalLM(config)


def deepseek_v32():
    config = transformers.DeepseekV32Config(**{**LEAST, "num_attention_heads": 2}, **LATENT, q_lora_rank=5, n_shared_experts=1, n_group=3, topk_group=2,
                                            index_topk=8, index_head_dim=4, index_n_heads=2)
    return transformers.DeepseekV32ForCausalLM(config)


def olmo3():
    rope = {"full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}
    return transformers.Olmo3ForCausalLM(transformers.Olmo3Config(**LEAST, num_key_value_heads=2, pad_token_id=0, eos_token_id=1, sliding_window=3,
                                                                  layer_types=["sliding_attention", "full_attention"], rope_parameters=rope))


def smollm3():
    return transformers.SmolLM3ForCausalLM(transformers.SmolLM3Config(**LEAST, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                                                                      use_sliding_window=True, sliding_window=3, no_rope_layers=[1, 0]))


def granite():
    return transformers.GraniteForCausalLM(transformers.GraniteConfig(**LEAST, num_key_value_heads=2, embedding_multiplier=3.0, logits_scaling=2.5,
                                                                      residual_multiplier=0.4, attention_multiplier=0.2, tie_word_embeddings=True))


def qwen2_5_vl():
    vision = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=8, patch_size=2, fullatt_block_indexes=[0])
    text = dict(**LEAST, num_key_value_heads=2, rope_parameters={"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 0, 0]})
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=17, video_token_id=18, vision_start_token_id=19)
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def qwen3_vl():
    vision = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=8, patch_size=2, num_position_embeddings=4,
                  deepstack_visual_indexes=[0])
    text = dict(**LEAST, num_key_value_heads=2, head_dim=6,
                rope_parameters={"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 1], "mrope_interleaved": True})
    config = transformers.Qwen3VLConfig(text_config=text, vision_config=vision, image_token_id=17, video_token_id=18, vision_start_token_id=19)
    return transformers.Qwen3VLForConditionalGeneration(config)


def glm4_moe():
    config = transformers.Glm4MoeConfig(**LEAST, num_key_value_heads=2, head_dim=8, attention_bias=True, use_qk_norm=True, moe_intermediate_size=5,
                                        n_routed_experts=6, num_experts_per_tok=2, n_group=3, topk_group=2, routed_scaling_factor=1.5)
    return transformers.Glm4MoeForCausalLM(config)


def gpt_oss():
    rope = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 4, "beta_fast": 2.0, "truncate": False}
    config = transformers.GptOssConfig(**LEAST, num_key_value_heads=2, head_dim=6, num_local_experts=3, num_experts_per_tok=2, sliding_window=3,
                                       swiglu_limit=0.3, rope_parameters=rope, output_router_logits=True, router_aux_loss_coef=0.3)
    return transformers.GptOssForCausalLM(config)


def llama4():
    config = transformers.Llama4TextConfig(**{**LEAST, "num_hidden_layers": 3}, num_key_value_heads=2, head_dim=6, intermediate_size_mlp=10,
                                           num_local_experts=3, moe_layers=[0, 2], no_rope_layers=[1, 0, 1], attention_chunk_size=8, floor_scale=3,
                                           attn_scale=0.7)
    return transformers.Llama4ForCausalLM(config)


# The model, and the largest size of a file of its weights.
MODELS = {"tiny-llama": (llama, "12KB"), "tiny-llama-tied": (llama_tied, "1GB"), "tiny-gpt2": (gpt2, "1GB"), "tiny-gpt2-untied": (gpt2_untied, "1GB"),
          "tiny-bert-lm": (bert_lm, "1GB"), "tiny-bert-pretraining": (bert_pretraining, "1GB"), "tiny-bert-classifier": (bert_classifier, "1GB"),
          "tiny-mixtral": (mixtral, "1GB"), "tiny-mixtral-balanced": (mixtral_balanced, "1GB"),
          "tiny-mistral": (mistral, "1GB"), "tiny-qwen2": (qwen2, "1GB"), "tiny-qwen3": (qwen3, "1GB"), "tiny-gemma": (gemma, "1GB"),
          "tiny-gemma2": (gemma2, "1GB"), "tiny-gemma3": (gemma3, "1GB"), "tiny-phi3": (phi3, "1GB"), "tiny-phi3-long": (phi3_long, "1GB"),
          "tiny-olmo2": (olmo2, "1GB"), "tiny-neox": (neox, "1GB"), "tiny-neox-sequential": (neox_sequential, "1GB"), "tiny-opt": (opt, "1GB"),
          "tiny-opt-after": (opt_after, "1GB"), "tiny-opt-bare": (opt_bare, "1GB"), "tiny-qwen2-moe": (qwen2_moe, "1GB"),
          "tiny-qwen3-moe": (qwen3_moe, "1GB"), "tiny-deepseek-v2": (deepseek_v2_greedy, "1GB"),
          "tiny-deepseek-v2-groups": (deepseek_v2_groups, "1GB"), "tiny-deepseek-v3": (deepseek_v3, "1GB"),
          "tiny-deepseek-v3.2": (deepseek_v32, "1GB"), "tiny-olmo3": (olmo3, "1GB"), "tiny-smollm3": (smollm3, "1GB"), "tiny-granite": (granite, "1GB"),
          "tiny-qwen2.5-vl": (qwen2_5_vl, "1GB"), "tiny-qwen3-vl": (qwen3_vl, "1GB"), "tiny-glm4-moe": (glm4_moe, "1GB"),
          "tiny-gpt-oss": (gpt_oss, "1GB"), "tiny-llama4": (llama4, "1GB")}


# Weights of images, which text does not meet.
VISUAL = re.compile(r"(^|\.)visual\.")
# Of which there is ignored.npz.
IGNORED = {"tiny-gpt2", "tiny-bert-pretraining"}
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
            for key, buffer in model.named_buffers():
                if key.endswith("e_score_correction_bias"):
                    buffer.add_((torch.rand(buffer.shape) - 0.5) * 0.2)
        model.to(SHORT.get(name, torch.float32)).save_pretrained(folder / name, max_shard_size=shard)
        (folder / name / "generation_config.json").unlink(missing_ok=True)
        model.config._experts_implementation = "eager"  # which knows float64
        reference(folder / name, in_float64(model))
        if name in IGNORED:
            ignored_reference(folder / name, in_float64(model))


def in_float64(model):
    with in_double():
        double = type(model)(model.config)  # with its tables in float64
    double.load_state_dict(model.state_dict())
    return double.double().eval()


def answers(model, inputs):
    """The logits, and those of a second head, or None."""
    out = model(**inputs)
    return (out.prediction_logits, out.seq_relationship_logits) if "prediction_logits" in out else (out.logits, None)


def save_run(path, arrays, losses, model):
    """What a run was given and answered, its losses, and the weights after it."""
    out = {key: value.numpy() for key, value in arrays.items()}
    out["losses"] = np.array(losses)
    for key, value in saved_weights(model).items():
        if not VISUAL.search(key):
            out["final." + key] = value
    np.savez_compressed(path, **out)


def reference(folder, model):
    words = model.config.get_text_config().vocab_size
    inputs = {"input_ids": torch.randint(1, words - (3 if hasattr(model.config, "vision_config") else 0), (3, 8))}  # none of images
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
            if getattr(model.config, "output_router_logits", False):
                loss = loss + model.config.router_aux_loss_coef * model(**inputs).aux_loss
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    save_run(folder / "reference.npz", out, losses, model)


def ignored_reference(folder, model):
    """Whole and half sequences of labels that do not count, and single ones."""
    inputs = {"input_ids": torch.randint(1, model.config.vocab_size, (3, 8))}
    labels = torch.randint(0, model.config.vocab_size, (3, 8))
    labels[0], labels[1, 3:], labels[:, -1], labels[2, 2] = -100, -100, -100, -100
    given = {"labels": labels}
    if model.config.model_type == "bert":
        inputs["token_type_ids"] = torch.randint(0, model.config.type_vocab_size, (3, 8))
        given["next_sentence_label"] = torch.tensor([1, -100, 0])
    out = {**inputs, **given}
    if model.config.model_type != "bert":
        given["labels"] = labels.roll(1, 1)  # the model shifts them back
    model.train()
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    with in_double():
        for _ in range(5):
            sgd.zero_grad()
            loss = model(**inputs, **given).loss
            loss.backward()
            sgd.step()
            losses.append(loss.item())
    save_run(folder / "ignored.npz", out, losses, model)


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


# Families whose class is that of another, and text parts of models of images, with the class that has their parameters.
AS_OTHERS = {"kimi_k2": ("DeepseekV3Config", "DeepseekV3ForCausalLM"), "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"),
             "llama4": ("Llama4TextConfig", "Llama4ForCausalLM")}


def text_of_images(config):
    """The parameters of such a model without those of images."""
    with torch.device("meta"):
        model = getattr(transformers, config.architectures[0])(config)
    model.tie_weights()
    return sum(p.numel() for name, p in model.named_parameters() if not VISUAL.search(name))


def count(folder):
    fields = json.loads((folder / "config.json").read_text())
    if fields["model_type"] in AS_OTHERS:
        config_class, model_class = (getattr(transformers, name) for name in AS_OTHERS[fields["model_type"]])
        fields = fields.get("text_config", fields)
        config = config_class(**{key: value for key, value in fields.items() if key not in ("model_type", "auto_map")})
    else:
        config = transformers.AutoConfig.from_pretrained(folder)
        model_class = getattr(transformers, config.architectures[0])
    if hasattr(config, "vision_config"):
        return text_of_images(config)
    with torch.device("meta"):
        model = model_class(config)
    model.tie_weights()
    return sum(p.numel() for p in model.parameters())


def write_counts():
    """How many parameters the models of published configurations have."""
    counts = {path.parent.name: count(path.parent) for path in sorted(HERE.glob("*/config.json")) if path.parent.name not in MODELS}
    (HERE / "parameters.json").write_text(json.dumps(counts, indent=1) + "\n")


if __name__ == "__main__":
    if "--counts" in sys.argv:
        write_counts()
    elif "--check" in sys.argv:
        check()
    else:
        write(HERE, sys.argv[1:])

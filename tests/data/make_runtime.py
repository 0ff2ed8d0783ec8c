"""Writes runtime_nodes.npz: single operators of ONNX Runtime's own, with what ONNX Runtime (1.32.0) computes; the keys are those of make_nodes.py.

    pip install -r tests/data/requirements.txt
    python tests/data/make_runtime.py
"""
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

MS = "com.microsoft"
random = np.random.default_rng(1)
arrays = {}


def normal(*shape):
    return random.normal(size=shape).astype(np.float32)


def case(name, operation, inputs, outputs=1, domain=MS, opset=16, same_as=None, **attributes):
    """`inputs`: arrays in the operator's order, None where absent; `outputs`: how many, or which; `same_as`: other inputs that mean the
    same, where ONNX Runtime runs these on GPUs only."""
    model, known, names = model_of(name, operation, inputs, outputs, domain, opset, attributes)
    arrays[f"{name}/model"] = np.frombuffer(model.SerializeToString(), dtype=np.uint8)
    for k, v in known.items():
        arrays[f"{name}/in/{k}"] = v
    if same_as is not None:
        model, known, names = model_of(name, operation, same_as, outputs, domain, opset, attributes)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for r, v in zip(names, session.run(None, known)):
        arrays[f"{name}/out/{r}"] = v


def model_of(name, operation, inputs, outputs, domain, opset, attributes):
    outputs = range(outputs) if isinstance(outputs, int) else outputs
    known = {f"i{k}": v for k, v in enumerate(inputs) if v is not None}
    results = ["" if r not in outputs else f"o{r}" for r in range(max(outputs) + 1)]
    node = h.make_node(operation, [f"i{k}" if v is not None else "" for k, v in enumerate(inputs)], results, domain=domain, **attributes)
    graph = h.make_graph(
        [node],
        name,
        [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in known.items()],
        [h.make_tensor_value_info(r, T.FLOAT, None) for r in results if r],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid(MS, 1)], ir_version=8), known, [r for r in results if r]


def norms():
    x, skip, scale, offset, bias = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8), normal(8)
    case("layer_norm_before_17", "LayerNormalization", [x, scale, offset], 3, domain="", axis=-1, epsilon=1e-3)
    case("layer_norm_axis", "LayerNormalization", [x, normal(3, 8)], 1, domain="", axis=1)
    case("simplified", "SimplifiedLayerNormalization", [x, scale], 1, domain="", axis=-1, epsilon=1e-6, stash_type=1)
    case("simplified_axis", "SimplifiedLayerNormalization", [x, normal(3, 8)], 1, domain="", axis=1)
    case("simplified_two", "SimplifiedLayerNormalization", [x, scale], 2, domain="", axis=-1)
    for name, second in {"": skip, "_shared": normal(1, 3, 8), "_flat": normal(3, 8)}.items():
        case(f"skip{name}", "SkipLayerNormalization", [x, second, scale, offset], 1, epsilon=1e-5)
        case(f"skip_simplified{name}", "SkipSimplifiedLayerNormalization", [x, second, scale], 1, epsilon=1e-5)
    case("skip_plain", "SkipLayerNormalization", [x, skip, scale], 1)
    case("skip_bias", "SkipLayerNormalization", [x, skip, scale, offset, bias], [0, 3], epsilon=1e-3)
    case("skip_no_offset", "SkipLayerNormalization", [x, skip, scale, None, bias], [0, 3])
    case("skip_simplified_bias", "SkipSimplifiedLayerNormalization", [x, skip, scale, bias], [0, 3], epsilon=1e-3)


def activations():
    x, bias = 3 * normal(2, 3, 8), normal(8)
    case("gelu", "Gelu", [x])
    case("fast_gelu", "FastGelu", [x])
    case("fast_gelu_bias", "FastGelu", [x, bias])
    case("bias_gelu", "BiasGelu", [x, bias])
    case("quick_gelu", "QuickGelu", [x])
    case("quick_gelu_alpha", "QuickGelu", [x], alpha=1.25)


def products():
    case("fused_plain", "FusedMatMul", [normal(2, 3, 4), normal(2, 4, 5)], alpha=0.5)
    case("fused_a", "FusedMatMul", [normal(2, 4, 3), normal(2, 4, 5)], transA=1)
    case("fused_b", "FusedMatMul", [normal(2, 3, 4), normal(5, 4)], transB=1, alpha=2.0)
    case("fused_both", "FusedMatMul", [normal(4, 3), normal(5, 4)], transA=1, transB=1)
    case("fused_batch_a", "FusedMatMul", [normal(3, 2, 4), normal(2, 4, 5)], transBatchA=1)
    case("fused_batch_b", "FusedMatMul", [normal(2, 3, 4), normal(4, 2, 5)], transBatchB=1)
    case("fused_batch_and_b", "FusedMatMul", [normal(2, 3, 4), normal(5, 2, 4)], transB=1, transBatchB=1, alpha=0.3)


def tables(places, half):
    angles = random.uniform(0, 6, size=(places, half))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotary():
    ids = np.array([[3, 1, 0], [2, 4, 6]], np.int64)
    cos, sin = tables(7, 4)
    for interleaved in [0, 1]:
        case(f"rotary_{interleaved}", "RotaryEmbedding", [normal(2, 3, 16), ids, cos, sin], interleaved=interleaved)
        case(f"rotary_heads_{interleaved}", "RotaryEmbedding", [normal(2, 2, 3, 8), ids, cos, sin], interleaved=interleaved)
        case(f"rotary_from_{interleaved}", "RotaryEmbedding", [normal(2, 3, 16), np.array([2], np.int64), cos, sin], interleaved=interleaved)
        case(f"rotary_part_{interleaved}", "RotaryEmbedding", [normal(2, 3, 24), ids, cos, sin], interleaved=interleaved, num_heads=2, rotary_embedding_dim=8)


def attention():
    q, k, v = normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 12)
    lengths, mask, full = np.array([5, 2], np.int32), np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]], np.int32), np.ones((2, 3, 5), np.int32)
    full[1, 0, 2] = full[0, 2, 0] = 0
    case("mha", "MultiHeadAttention", [q, k, v], num_heads=2)
    case("mha_scale", "MultiHeadAttention", [q, k, v], num_heads=2, scale=0.3)
    case("mha_bias", "MultiHeadAttention", [q, k, v, normal(28)], num_heads=2)
    case("mha_lengths", "MultiHeadAttention", [q, k, v, None, lengths], num_heads=2)
    case("mha_mask", "MultiHeadAttention", [q, k, v, None, mask], num_heads=2)
    case("mha_mask_filter", "MultiHeadAttention", [q, k, v, None, mask], num_heads=4, mask_filter_value=-3.0)
    case("mha_full_mask", "MultiHeadAttention", [q, k, v, None, full], num_heads=2)
    case("mha_added", "MultiHeadAttention", [q, k, v, None, None, normal(2, 2, 3, 5)], num_heads=2)
    case("mha_added_shared", "MultiHeadAttention", [q, k, v, None, mask, normal(1, 1, 3, 5)], num_heads=2)
    case("mha_causal", "MultiHeadAttention", [q, normal(2, 3, 8), normal(2, 3, 8)], num_heads=2, unidirectional=1)
    case("mha_present", "MultiHeadAttention", [q, normal(2, 3, 8), normal(2, 3, 8), normal(24)], 3, num_heads=2)
    packed, keys = normal(2, 3, 2, 3, 4), normal(2, 5, 2, 2, 4)
    apart = [packed[:, :, :, i].reshape(2, 3, 8) for i in range(3)]
    case("mha_packed", "MultiHeadAttention", [packed], num_heads=2, same_as=apart)
    case("mha_packed_keys", "MultiHeadAttention", [q, keys], num_heads=2, same_as=[q] + [keys[:, :, :, i].reshape(2, 5, 8) for i in range(2)])
    case("mha_heads", "MultiHeadAttention", [q, normal(2, 2, 5, 4), normal(2, 2, 5, 4)], num_heads=2)


def grouped():
    length, last, total = 5, np.array([4, 4], np.int32), np.array(5, np.int32)
    q, k, v = normal(2, length, 64), normal(2, length, 32), normal(2, length, 32)
    cos, sin = tables(9, 8)
    heads = dict(num_heads=4, kv_num_heads=2)
    case("gqa", "GroupQueryAttention", [q, k, v, None, None, last, total], 3, **heads)
    case("gqa_scale", "GroupQueryAttention", [q, k, v, None, None, last, total], 1, scale=0.2, **heads)
    case("gqa_softcap", "GroupQueryAttention", [q, k, v, None, None, last, total], 1, softcap=2.0, **heads)
    case("gqa_packed", "GroupQueryAttention", [normal(2, length, 128), None, None, None, None, last, total], 3, **heads)
    for interleaved in [0, 1]:
        case(f"gqa_rotary_{interleaved}", "GroupQueryAttention", [q, k, v, None, None, last, total, cos, sin], 3, do_rotary=1, rotary_interleaved=interleaved, **heads)
    case("gqa_packed_rotary", "GroupQueryAttention", [normal(2, length, 128), None, None, None, None, last, total, cos, sin], 1, do_rotary=1, **heads)
    case("gqa_added", "GroupQueryAttention", [q, k, v, None, None, last, total, None, None, None, normal(2, 4, length, length)], 1, **heads)
    case("gqa_window", "GroupQueryAttention", [q, k, v, None, None, last, total], 1, local_window_size=2, **heads)
    case("gqa_window_softcap", "GroupQueryAttention", [q, k, v, None, None, last, total], 1, local_window_size=3, softcap=2.0, **heads)
    case("gqa_window_no_effect", "GroupQueryAttention", [q, k, v, None, None, last, total], 1, local_window_size=8, **heads)
    case("gqa_one_group", "GroupQueryAttention", [q, normal(2, length, 16), normal(2, length, 16), None, None, last, total], 1, num_heads=4, kv_num_heads=1)


if __name__ == "__main__":
    for make in [norms, activations, products, rotary, attention, grouped]:
        make()
    np.savez_compressed(Path(__file__).resolve().parent / "runtime_nodes.npz", **arrays)
    print(sum(key.endswith("/model") for key in arrays), "cases")

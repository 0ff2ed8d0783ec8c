// Llama, and what has its layers with small changes: Mistral, Qwen2, Qwen3, Phi-3, OLMo 2.
#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {

void read_llama_fields(Llama& m, Reading& in, const LlamaDefaults& d) {
  Fields& f = in.f;
  read_common(m, in, kUsualFields, d.sizes);
  m.vocabulary = f.integer("vocab_size", d.vocabulary);
  m.inner = f.integer("intermediate_size", d.inner);
  // null: one for each of the queries' heads
  m.key_heads =
      f.integer("num_key_value_heads", f.is_null("num_key_value_heads") || d.key_heads == 0 ? m.heads : d.key_heads);
  const int64_t quotient = std::max<int64_t>(m.hidden / m.heads, 1);
  m.size = f.integer("head_dim", d.size == 0 || f.is_null("head_dim") ? quotient : d.size);
  m.eps = f.positive("rms_norm_eps", d.eps);
  m.activation = f.activation(d.activation_field, d.activation);
  m.tied = f.flag("tie_word_embeddings", d.tied);
  m.attention_dropout = f.probability("attention_dropout", 0);
  if (in.options.dropout) m.attention_dropout = *in.options.dropout;
  if (d.size == 0 && !f.has("head_dim") && m.hidden % m.heads)
    f.problem("hidden_size={} is not a multiple of num_attention_heads={}; give head_dim if it is meant", m.hidden,
              m.heads);
  if (m.heads % m.key_heads)
    f.problem("num_attention_heads={} is not a multiple of num_key_value_heads={}", m.heads, m.key_heads);
}

void read_llama_rotary(Llama& m, Reading& in, RotaryDefaults d) {
  d.size = m.size;
  d.positions = in.f.integer("max_position_embeddings", d.positions);
  m.rotaries = {read_rotary(in, d, m.steps)};
}

void name_llama_weights(const Llama& m, WeightNames& names) {
  if (m.tied) names.same["lm_head.weight"] = "model.embed_tokens.weight";
  names.unused = {".rotary_emb.inv_freq"};
}

void read_qwen_window(Llama& m, Reading& in, const std::function<bool(int64_t layer, int64_t most)>& is_local) {
  const bool used = in.f.flag("use_sliding_window", false);
  const int64_t window = in.f.integer_or_none("sliding_window", 4096),
                most = in.f.integer("max_window_layers", 28, INT64_MAX);
  const std::vector<bool> local =
      read_local_layers(in, m.layers, [&](int64_t layer) { return used && window > 0 && is_local(layer, most); });
  if (!(used && window > 0) && std::find(local.begin(), local.end(), true) != local.end())
    in.f.problem("layer_types has sliding_attention, which needs use_sliding_window=true and a sliding_window");
  for (const bool here : local) m.kinds.push_back({.window = here ? window : 0});
}

Model finish_llama(const Llama& m, Reading& in) {
  in.stop();
  Model model = build_llama(m, in.registry);
  name_llama_weights(m, model.weight_names);
  return model;
}

Model read_llama(Reading& in) {
  Llama m;
  read_llama_fields(m, in, {});
  read_llama_rotary(m, in, {.positions = 2048, .theta = 10000});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.feed_forward_bias = in.f.flag("mlp_bias", false);
  return finish_llama(m, in);
}

Model read_mistral(Reading& in) {
  Llama m;
  read_llama_fields(m, in, {.sizes = {4096, 32, 32, 131072}, .inner = 14336, .key_heads = 8});
  read_llama_rotary(m, in, {.positions = 131072, .theta = 10000});
  m.kinds = {{.window = in.f.integer_or_none("sliding_window", 4096)}};
  in.f.absent("layer_types", "layers that differ are of other models than mistral's, as ministral's");
  return finish_llama(m, in);
}

Model read_qwen2(Reading& in) {
  Llama m;
  read_llama_fields(m, in, {.sizes = {4096, 32, 32, 32768}, .vocabulary = 151936, .inner = 22016, .key_heads = 32});
  read_llama_rotary(m, in, {.positions = 32768, .theta = 10000});
  m.attention_bias = true;
  read_qwen_window(m, in, [](int64_t layer, int64_t most) { return layer >= most; });
  return finish_llama(m, in);
}

Model read_qwen3(Reading& in) {
  Llama m;
  read_llama_fields(
      m, in, {.sizes = {4096, 32, 32, 32768}, .vocabulary = 151936, .inner = 22016, .key_heads = 32, .size = 128});
  read_llama_rotary(m, in, {.positions = 32768, .theta = 10000});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.query_norm = Llama::QueryNorm::kHead;
  read_qwen_window(m, in, [](int64_t layer, int64_t most) { return layer >= most; });
  return finish_llama(m, in);
}

Model read_phi3(Reading& in) {
  Llama m;
  read_llama_fields(m, in, {.sizes = {3072, 32, 32, 4096}, .vocabulary = 32064, .inner = 8192, .eps = 1e-5});
  read_llama_rotary(m, in,
                    {.positions = 4096,
                     .theta = 10000,
                     .partial = true,
                     .original_positions = 4096,
                     .renamed = {{"su", "longrope"}, {"yarn", "longrope"}}});
  m.fused = true;
  m.kinds = {{.window = in.f.integer_or_none("sliding_window", 0)}};
  m.residual_dropout = in.f.probability("resid_pdrop", 0);
  if (in.options.dropout) m.residual_dropout = *in.options.dropout;
  const auto [object, path] = rotary_object(in);
  for (const char* type : {"linear", "dynamic", "llama3"})
    if (object->value("rope_type", json()) == type || object->value("type", json()) == type)
      in.f.problem("{}: a phi3 model has longrope or nothing, not {}", path, type);
  return finish_llama(m, in);
}

Model read_olmo2(Reading& in) {
  Llama m;
  read_llama_fields(m, in, {.sizes = {4096, 32, 32, 2048}, .vocabulary = 50304, .inner = 11008, .eps = 1e-5});
  read_llama_rotary(m, in, {.positions = 2048, .theta = 10000});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.query_norm = Llama::QueryNorm::kAll;
  m.norm_before = false, m.norm_after = true;
  return finish_llama(m, in);
}

}  // namespace partita::huggingface

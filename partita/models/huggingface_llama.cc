// Reads Llama, and families with its layers but for small changes: Mistral, Qwen2, Qwen3, Phi-3, OLMo 2 and 3, SmolLM3,
// Granite.
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

int64_t used_window(Reading& in, int64_t otherwise) {
  if (in.f.flag("use_sliding_window", false)) return in.f.integer_or_none("sliding_window", otherwise);
  in.f.has("sliding_window");  // it means nothing then: transformers writes null or 0
  return 0;
}

void read_qwen_window(Llama& m, Reading& in, const std::function<bool(int64_t layer, int64_t most)>& is_local,
                      int64_t most_layers) {
  const int64_t window = used_window(in, 4096), most = in.f.count("max_window_layers", most_layers, INT64_MAX);
  const std::vector<bool> local =
      read_local_layers(in, m.layers, [&](int64_t layer) { return window > 0 && is_local(layer, most); });
  if (window == 0 && std::find(local.begin(), local.end(), true) != local.end())
    in.f.problem("layer_types has sliding_attention, which needs use_sliding_window=true and a sliding_window");
  for (const bool here : local) m.kinds.push_back({.window = here ? window : 0});
}

void read_layer_kinds(Llama& m, Reading& in, const std::function<bool(int64_t)>& is_local) {
  const int64_t window = in.f.integer_or_none("sliding_window", 4096);
  const std::vector<bool> local = read_local_layers(in, m.layers, is_local);
  if (window == 0 && std::find(local.begin(), local.end(), true) != local.end())
    in.f.problem("sliding_window=null, and there are layers of sliding_attention, which need it");
  for (const bool here : local)
    m.kinds.push_back({.window = here ? window : 0, .rotary = here ? m.rotaries.size() - 1 : 0});
}

void read_two_rotaries(Llama& m, Reading& in, const RotaryDefaults& all, const RotaryDefaults& local) {
  static const json kNothing = json::object();
  Fields& f = in.f;
  const json* both = f.find("rope_parameters");
  auto kind = [&](const char* name) {
    const json* found = both && both->is_object() && both->contains(name) ? &(*both)[name] : nullptr;
    return found && found->is_object() ? found : &kNothing;
  };
  if (both && (!both->is_object() ||
               (!both->empty() && !both->contains("full_attention") && !both->contains("sliding_attention"))))
    f.problem("rope_parameters has neither full_attention nor sliding_attention");
  const json* scaling = f.find("rope_scaling");  // of layers that see all, in older files
  if (scaling && !scaling->is_object()) f.problem("{} is not an object", f.shown("rope_scaling"));
  json full = *kind("full_attention");
  if (scaling && scaling->is_object()) full.update(*scaling);
  m.rotaries = {read_rotary(in, full, "rope_parameters.full_attention", all, m.steps),
                read_rotary(in, *kind("sliding_attention"), "rope_parameters.sliding_attention", local, m.steps)};
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

namespace {

void read_qwen2_bias(Llama& m, Reading& in) {
  for (const char* field : {"attention_bias", "qkv_bias"})
    in.f.only(field, true, "transformers' Qwen2 always has biases of queries, keys and values");
  m.attention_bias = true;
}

}  // namespace

Model read_qwen2(Reading& in) {
  Llama m;
  read_llama_fields(m, in, {.sizes = {4096, 32, 32, 32768}, .vocabulary = 151936, .inner = 22016, .key_heads = 32});
  read_llama_rotary(m, in, {.positions = 32768, .theta = 10000});
  read_qwen2_bias(m, in);
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
  in.f.only("use_qk_norm", true, "transformers' Qwen3 always has the norm of queries and keys");
  read_qwen_window(m, in, [](int64_t layer, int64_t most) { return layer >= most; });
  return finish_llama(m, in);
}

// Text has one position, for each of the three that a section of a head may read.
Model read_qwen2_vl(Reading& in) {
  Llama m;
  read_llama_fields(
      m, in, {.sizes = {8192, 80, 64, 32768}, .vocabulary = 152064, .inner = 29568, .key_heads = 8, .eps = 1e-5});
  if (m.size * m.heads != m.hidden)
    in.f.problem("head_dim={}: transformers' class has hidden_size / num_attention_heads", m.size);
  read_llama_rotary(m, in, {.positions = 32768, .theta = 1e6, .sections = true, .renamed = {{"mrope", "default"}}});
  read_qwen2_bias(m, in);
  read_qwen_window(
      m, in, [](int64_t layer, int64_t most) { return layer >= most; }, 80);
  Model model = finish_llama(m, in);
  model.weight_names.heads = {"visual."};
  return model;
}

namespace {

// The text part's weights beside those of images, in files of the whole.
void name_text_part(const Graph& graph, WeightNames& names) {
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kParameter && t.name.starts_with("model."))
      names.renamed[t.name] = "model.language_model" + t.name.substr(5);
  names.heads = {"model.visual."};
}

}  // namespace

Model read_qwen3_vl(Reading& in) {
  Llama m;
  read_llama_fields(
      m, in, {.sizes = {4096, 32, 32, 128000}, .vocabulary = 151936, .inner = 22016, .key_heads = 32, .size = 128});
  read_llama_rotary(m, in, {.positions = 128000, .theta = 500000, .sections = true, .renamed = {{"mrope", "default"}}});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.query_norm = Llama::QueryNorm::kHead;
  Model model = finish_llama(m, in);
  name_text_part(model.graph, model.weight_names);
  return model;
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

namespace {

// The common fields of OLMo 2 and OLMo 3.
void read_olmo_fields(Llama& m, Reading& in) {
  read_llama_fields(m, in, {.sizes = {4096, 32, 32, 2048}, .vocabulary = 50304, .inner = 11008, .eps = 1e-5});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.query_norm = Llama::QueryNorm::kAll;
  m.norm_before = false, m.norm_after = true;
}

}  // namespace

Model read_olmo2(Reading& in) {
  Llama m;
  read_olmo_fields(m, in);
  read_llama_rotary(m, in, {.positions = 2048, .theta = 10000});
  return finish_llama(m, in);
}

Model read_olmo3(Reading& in) {
  Llama m;
  read_olmo_fields(m, in);
  constexpr double kTheta = 500000;
  const RotaryDefaults rotary{
      .size = m.size, .positions = in.f.integer("max_position_embeddings", 2048), .theta = kTheta};
  const json* both = in.f.find("rope_parameters");
  const bool both_told =
      both && both->is_object() && both->contains("full_attention") && both->contains("sliding_attention");
  if (!both_told && in.f.positive("rope_theta", kTheta) != kTheta)
    in.f.problem(
        "{}: transformers takes it for layers of full_attention alone, and 500000 for the others; write both into "
        "rope_parameters.full_attention and .sliding_attention",
        in.f.shown("rope_theta"));
  read_two_rotaries(m, in, rotary, rotary);
  read_layer_kinds(m, in, [](int64_t layer) { return (layer + 1) % 4 != 0; });
  return finish_llama(m, in);
}

Model read_smollm3(Reading& in) {
  Llama m;
  Fields& f = in.f;
  read_llama_fields(
      m, in, {.sizes = {2048, 36, 16, 32768}, .vocabulary = 128256, .inner = 11008, .key_heads = 4, .tied = true});
  read_llama_rotary(m, in, {.positions = 32768, .theta = 2000000});
  m.attention_bias = m.output_bias = f.flag("attention_bias", false);
  m.feed_forward_bias = f.flag("mlp_bias", false);
  const std::vector<bool> turned = read_turned_layers(in, m.layers);
  const int64_t window = f.flag("use_sliding_window", false) ? f.integer_or_none("sliding_window", 0) : 0;
  f.find("sliding_window");
  const std::vector<bool> local = read_local_layers(
      in, m.layers, [&](int64_t layer) { return window > 0 && !turned[static_cast<std::size_t>(layer)]; });
  if (window == 0 && std::find(local.begin(), local.end(), true) != local.end())
    f.problem("layer_types has sliding_attention, which needs use_sliding_window=true and a sliding_window");
  for (std::size_t i = 0; i < local.size(); ++i)
    m.kinds.push_back({.window = local[i] ? window : 0, .turned = turned[i]});
  return finish_llama(m, in);
}

Model read_granite(Reading& in) {
  Llama m;
  Fields& f = in.f;
  read_llama_fields(m, in, {});
  read_llama_rotary(m, in, {.positions = 2048, .theta = 10000});
  m.attention_bias = m.output_bias = f.flag("attention_bias", false);
  m.feed_forward_bias = f.flag("mlp_bias", false);
  m.embedding_scale = f.positive("embedding_multiplier", 1);
  m.attention_scale = f.positive("attention_multiplier", 1);
  m.residual_scale = f.positive("residual_multiplier", 1);
  m.final_divisor = f.positive("logits_scaling", 1);
  return finish_llama(m, in);
}

}  // namespace partita::huggingface

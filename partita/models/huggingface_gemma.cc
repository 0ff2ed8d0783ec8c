// Gemma 1 to 3.
#include <cmath>

#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {
namespace {

// What all three have: norms by 1 + w, the embedding times sqrt(hidden), which transformers rounds to the weights'
// type.
void read_gemma_fields(Llama& m, Reading& in, const LlamaDefaults& defaults) {
  read_llama_fields(m, in, defaults);
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.norm_from_one = true;
  m.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(m.hidden)));
  in.f.only("use_bidirectional_attention", false, "attention to tokens that follow");
}

// What Gemma 2 brought.
void read_gemma2_fields(Llama& m, Reading& in, double final_cap, double attention_cap) {
  m.norm_after = true;
  m.attention_scale = 1 / std::sqrt(in.f.positive("query_pre_attn_scalar", 256));
  m.final_softcap = in.f.positive_or_none("final_logit_softcapping", final_cap);
  m.attention_softcap = in.f.positive_or_none("attn_logit_softcapping", attention_cap);
  if (m.hidden % m.heads) in.f.problem("hidden_size={} is not a multiple of num_attention_heads={}", m.hidden, m.heads);
}

// Layers that see the last keys only have rotary positions of their own, where there are two kinds.
void read_gemma_kinds(Llama& m, Reading& in, const std::function<bool(int64_t)>& is_local) {
  const int64_t window = in.f.integer_or_none("sliding_window", 4096);
  const std::vector<bool> local = read_local_layers(in, m.layers, is_local);
  if (window == 0 && std::find(local.begin(), local.end(), true) != local.end())
    in.f.problem("sliding_window=null, and there are layers of sliding_attention, which need it");
  for (const bool here : local)
    m.kinds.push_back({.window = here ? window : 0, .rotary = here ? m.rotaries.size() - 1 : 0});
}

}  // namespace

Model read_gemma(Reading& in) {
  Llama m;
  read_gemma_fields(m, in,
                    {.sizes = {3072, 28, 16, 8192},
                     .vocabulary = 256000,
                     .inner = 24576,
                     .key_heads = 16,
                     .size = 256,
                     .activation = "gelu_pytorch_tanh",
                     .tied = true});
  // transformers takes "gelu", which the first files say, for the approximation that the model was trained with.
  if (in.f.text("hidden_act", "") == "gelu") m.activation = "gelu_tanh";
  in.f.only("hidden_activation", "gelu_pytorch_tanh", "transformers looks at hidden_act in its place");
  read_llama_rotary(m, in, {.positions = 8192, .theta = 10000});
  return finish_llama(m, in);
}

Model read_gemma2(Reading& in) {
  Llama m;
  read_gemma_fields(m, in,
                    {.sizes = {2304, 26, 8, 8192},
                     .vocabulary = 256000,
                     .inner = 9216,
                     .key_heads = 4,
                     .size = 256,
                     .activation = "gelu_pytorch_tanh",
                     .activation_field = "hidden_activation",
                     .tied = true});
  read_gemma2_fields(m, in, 30, 50);
  read_llama_rotary(m, in, {.positions = 8192, .theta = 10000});
  read_gemma_kinds(m, in, [](int64_t layer) { return layer % 2 == 0; });
  return finish_llama(m, in);
}

Model read_gemma3(Reading& in) {
  Llama m;
  Fields& f = in.f;
  read_gemma_fields(m, in,
                    {.sizes = {2304, 26, 8, 131072},
                     .vocabulary = 262208,
                     .inner = 9216,
                     .key_heads = 4,
                     .size = 256,
                     .activation = "gelu_pytorch_tanh",
                     .activation_field = "hidden_activation",
                     .tied = true});
  read_gemma2_fields(m, in, 0, 0);
  // transformers' class takes this cap, and its attention has none.
  if (m.attention_softcap > 0)
    f.problem("{}: transformers' Gemma 3 has no such cap", f.shown("attn_logit_softcapping"));
  m.query_norm = Llama::QueryNorm::kHead;
  const int64_t positions = f.integer("max_position_embeddings", 131072);
  const RotaryDefaults all{.size = m.size, .positions = positions, .theta = 1e6};
  const RotaryDefaults local{
      .size = m.size, .positions = positions, .theta = 10000, .theta_field = "rope_local_base_freq"};
  static const json kNothing = json::object();
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
  const int64_t pattern = f.integer("sliding_window_pattern", 6);
  read_gemma_kinds(m, in, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  return finish_llama(m, in);
}

}  // namespace partita::huggingface

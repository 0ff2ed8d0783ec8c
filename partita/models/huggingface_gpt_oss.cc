// Reads gpt-oss: a score beside those of a query's keys (attention sinks), and experts of limited gates with biases.
#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {

Model read_gpt_oss(Reading& in) {
  Mixtral m;
  Fields& f = in.f;
  read_llama_fields(
      m, in,
      {.sizes = {2880, 36, 64, 131072}, .vocabulary = 201088, .inner = 2880, .key_heads = 8, .size = 64, .eps = 1e-5});
  static const json kStretched = {{"rope_type", "yarn"}, {"factor", 32.0},
                                  {"beta_fast", 32.0},   {"beta_slow", 1.0},
                                  {"truncate", false},   {"original_max_position_embeddings", 4096}};
  const auto [given, path] = rotary_object(in);
  m.rotaries = {read_rotary(
      in, given->empty() ? kStretched : *given, path,
      {.size = m.size, .positions = f.integer("max_position_embeddings", 131072), .theta = 150000}, m.steps)};
  m.attention_bias = m.output_bias = f.flag("attention_bias", true);
  m.sinks = true;
  if (m.attention_dropout > 0)
    f.problem("attention_dropout={}: dropout beside attention sinks is not supported", m.attention_dropout);
  const int64_t window = f.integer_or_none("sliding_window", 128);
  for (const bool local : read_local_layers(in, m.layers, [](int64_t layer) { return layer % 2 == 0; })) {
    if (local && window == 0)
      f.problem("sliding_window=null, and there are layers of sliding_attention, which need it");
    m.kinds.push_back({.window = local ? window : 0});
  }
  read_experts(m, in, f.has("num_experts") ? "num_experts" : "num_local_experts", 128, 4, m.inner);
  f.only("hidden_act", "silu", "transformers' gpt-oss has gates of its own");
  m.experts.fused = m.experts.interleaved = m.experts.bias = m.experts.router_bias = true;
  m.experts.limit = f.positive("swiglu_limit", 7);
  m.experts.alpha = f.positive("swiglu_alpha", 1.702);
  read_balance_loss(m, in);
  in.stop();
  Model model = build_mixtral(m, in.registry);
  name_llama_weights(m, model.weight_names);
  for (int64_t i = 0; i < m.layers; ++i)
    for (const char* part : {"weight", "bias"})
      model.weight_names.renamed[fmt::format("model.layers.{}.mlp.gate.{}", i, part)] =
          fmt::format("model.layers.{}.mlp.router.{}", i, part);
  return model;
}

}  // namespace partita::huggingface

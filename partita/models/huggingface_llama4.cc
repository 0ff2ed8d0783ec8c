// Reads the text part of Llama 4: layers without positions among others, a norm of turned queries and keys, and experts
// whose input is scaled by a token's score.
#include <cmath>

#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {
namespace {

// Queries that are not turned grow with their position: log(1 + floor((t + 1) / floor_scale)) attn_scale + 1.
void read_temperature(Llama& m, Reading& in) {
  const bool tuned = in.f.flag("attn_temperature_tuning", true);
  const double scale = in.f.number("attn_scale", 0.1, 0, 1e300), floor = in.f.positive("floor_scale", 8192);
  if (!tuned || static_cast<double>(m.steps) < floor) return;
  for (int64_t t = 0; t < m.steps; ++t)
    m.query_scales.push_back(std::log1p(std::floor(static_cast<double>(t + 1) / floor)) * scale + 1);
}

// A layer that turns sees its own chunk of a sequence, which must be all of it.
void check_chunks(Llama& m, Reading& in, const std::vector<bool>& turned) {
  Fields& f = in.f;
  const int64_t chunk = f.integer_or_none("attention_chunk_size", 8192);
  bool chunked = std::find(turned.begin(), turned.end(), true) != turned.end();
  if (const json* types = f.find("layer_types")) {
    chunked = false;
    for (const json& type : *types) {
      chunked |= type == "chunked_attention";
      if (type != "chunked_attention" && type != "full_attention")
        f.problem("layer_types: {} is not supported; there are chunked_attention and full_attention",
                  type.dump(-1, ' ', false, json::error_handler_t::replace));
    }
  }
  if (chunked && chunk > 0 && !in.options.steps) m.steps = std::min(m.steps, chunk);
  if (chunked && chunk > 0 && m.steps > chunk)
    f.problem(
        "attention_chunk_size={}: attention in chunks of a sequence of steps={} is not supported; use --bind steps={}",
        chunk, m.steps, chunk);
}

// Reads the layers that have experts.
void read_sparse_layers(Mixtral& m, Reading& in) {
  const int64_t step = in.f.integer("interleave_moe_layer_step", 1);
  const json* listed = in.f.find("moe_layers");
  const bool right = !listed || (listed->is_array() && std::all_of(listed->begin(), listed->end(), [](const json& i) {
                                   return i.is_number_integer();
                                 }));
  if (!right) in.f.problem("{} is not a list of layers' numbers", in.f.shown("moe_layers"));
  for (int64_t i = 0; i < m.layers; ++i)
    m.dense.push_back(listed && right ? std::find(listed->begin(), listed->end(), json(i)) == listed->end()
                                      : (i + 1) % step != 0);
}

void name_weights(const Mixtral& m, WeightNames& names) {
  names.prefix = "language_model.";
  names.heads = {"vision_model.", "multi_modal_projector."};
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string ours = fmt::format("model.layers.{}.mlp.", i),
                      theirs = fmt::format("model.layers.{}.feed_forward.", i);
    const bool dense = m.dense[static_cast<std::size_t>(i)];
    for (const char* part : {"gate_proj.weight", "up_proj.weight", "down_proj.weight"}) {
      const std::string own = dense ? part : fmt::format("shared_expert.{}", part);
      names.renamed[ours + own] = theirs + own;
    }
    if (dense) continue;
    names.renamed[ours + "gate.weight"] = theirs + "router.weight";
    for (const char* part : {"experts.gate_up_proj", "experts.down_proj"}) names.renamed[ours + part] = theirs + part;
  }
}

}  // namespace

Model read_llama4(Reading& in) {
  Mixtral m;
  Fields& f = in.f;
  read_llama_fields(
      m, in,
      {.sizes = {5120, 48, 40, 131072}, .vocabulary = 202048, .inner = 8192, .key_heads = 8, .size = 128, .eps = 1e-5});
  read_llama_rotary(m, in, {.positions = 131072, .theta = 500000});
  for (Rotary& rotary : m.rotaries) rotary.interleaved = true;
  m.attention_bias = m.output_bias = f.flag("attention_bias", false);
  if (f.flag("use_qk_norm", true)) m.query_norm = Llama::QueryNorm::kTurned;
  const std::vector<bool> turned = read_turned_layers(in, m.layers);
  for (const bool here : turned) m.kinds.push_back({.turned = here});
  check_chunks(m, in, turned);
  read_temperature(m, in);
  read_experts(m, in, "num_local_experts", 16, 1, m.inner);
  m.experts.fused = m.experts.sigmoid = m.experts.unnormalized = m.experts.scored_inputs = true;
  if (m.experts.choices != 1)
    f.problem("num_experts_per_tok={}: experts that take a token by its score have one choice", m.experts.choices);
  m.shared = m.inner;
  m.shared_name = "shared_expert";
  m.inner = f.integer("intermediate_size_mlp", 16384);
  read_sparse_layers(m, in);
  f.only("router_jitter_noise", 0.0, "noise on what the router sees");
  f.find("router_aux_loss_coef");
  f.only("output_router_logits", false, "a load-balancing loss");
  in.stop();
  Model model = build_mixtral(m, in.registry);
  name_llama_weights(m, model.weight_names);
  name_weights(m, model.weight_names);
  return model;
}

}  // namespace partita::huggingface

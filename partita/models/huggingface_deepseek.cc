// Reads configurations of DeepSeek-V2, V3 and V3.2.
#include <cmath>

#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {
namespace {

// yarn's weight of all dimensions, by which the scores are scaled twice.
double score_scale(Reading& in) {
  const auto [object, path] = rotary_object(in);
  Fields r(*object, path + ".", in.problems);
  if (r.text(r.has("rope_type") ? "rope_type" : "type", "default") == "default") return 1;
  const double weight = r.number("mscale_all_dim", 0, 0, 1e300);
  if (weight == 0) return 1;
  const double factor = r.positive("factor", 1);
  const double scale = factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
  return scale * scale;
}

struct Defaults {
  LlamaDefaults llama;
  int64_t experts, choices, inner, shared, dense, query_rank;
  double scale;
};

void read_fields(DeepSeek& m, Reading& in, const Defaults& d) {
  Fields& f = in.f;
  read_llama_fields(m, in, d.llama);
  f.find("head_dim");  // it means nothing here
  m.key_rank = f.integer("kv_lora_rank", 512);
  m.query_rank = f.integer_or_none("q_lora_rank", d.query_rank);
  m.plain_size = f.integer("qk_nope_head_dim", 128);
  m.turned_size = f.integer("qk_rope_head_dim", 64);
  m.value_size = f.integer("v_head_dim", 128);
  m.size = m.turned_size;  // rotary positions are made of it
  if (m.key_heads != m.heads)
    f.problem("num_key_value_heads={} is not num_attention_heads={}: heads of latent attention are not shared",
              m.key_heads, m.heads);
  m.attention_bias = m.output_bias = f.flag("attention_bias", false);
  m.attention_scale = score_scale(in) / std::sqrt(static_cast<double>(m.plain_size + m.turned_size));
  read_llama_rotary(m, in, {.positions = d.llama.sizes.positions, .theta = 10000});
  const char* count = f.has("num_experts")         ? "num_experts"
                      : f.has("num_local_experts") ? "num_local_experts"
                                                   : "n_routed_experts";
  read_experts(m, in, count, d.experts, d.choices, f.integer("moe_intermediate_size", d.inner));
  m.experts.scale = f.positive("routed_scaling_factor", d.scale);
  m.shared = m.experts.inner * f.integer("n_shared_experts", d.shared);
  m.shared_name = "shared_experts";
  read_first_dense_layers(m, in, d.dense);
  f.only("moe_layer_freq", 1, "transformers has experts in all layers after the first ones");
}

void read_parts(Mixtral& m, Reading& in, int64_t parts, int64_t chosen) {
  m.experts.parts = in.f.integer("n_group", parts);
  m.experts.chosen_parts = in.f.integer("topk_group", chosen);
  const Experts& e = m.experts;
  if (e.count % e.parts) in.f.problem("{} experts are not n_group={} equal groups", e.count, e.parts);
  else if (e.chosen_parts > e.parts) in.f.problem("topk_group={} is more than n_group={}", e.chosen_parts, e.parts);
  else if (e.choices > e.chosen_parts * (e.count / e.parts))
    in.f.problem("num_experts_per_tok={} is more than topk_group={} groups of {} experts have", e.choices,
                 e.chosen_parts, e.count / e.parts);
  else if (e.part_best > e.count / e.parts)
    in.f.problem("n_group={}: groups of {} experts, and their best {} are added", e.parts, e.count / e.parts,
                 e.part_best);
}

Model finish(const DeepSeek& m, Reading& in) {
  const int64_t more = read_mtp_layers(in);
  in.stop();
  Model model = build_deepseek(m, in.registry);
  name_llama_weights(m, model.weight_names);
  name_experts(m, model.weight_names, "mlp", kExpertParts);
  name_mtp_layers(m, more, model.weight_names);
  return model;
}

}  // namespace

Model read_deepseek_v2(Reading& in) {
  DeepSeek m;
  read_fields(m, in,
              {.llama = {.sizes = {4096, 32, 32, 2048}, .vocabulary = 102400},
               .experts = 64,
               .choices = 0,
               .inner = 1407,
               .shared = 2,
               .dense = 0,
               .query_rank = 1536,
               .scale = 1});
  Fields& f = in.f;
  for (Rotary& rotary : m.rotaries) rotary.interleaved = true;
  m.feed_forward_bias = m.shared_bias = f.flag("mlp_bias", false);
  m.experts.unnormalized = true;
  if (!f.has("num_experts_per_tok")) f.problem("num_experts_per_tok is missing");
  const std::string method = f.text("topk_method", "greedy");
  if (method == "group_limited_greedy") read_parts(m, in, 1, 1);
  else if (method != "greedy")
    f.problem("{} is not supported; there are greedy and group_limited_greedy", f.shown("topk_method"));
  f.only("norm_topk_prob", false, "transformers' DeepSeek-V2 does not divide what choices count by their sum");
  f.only("scoring_func", "softmax", "transformers' DeepSeek-V2 has one");
  f.only("output_router_logits", false, "a load-balancing loss");
  return finish(m, in);
}

namespace {

// Reads the experts of V3 and V3.2.
void read_v3_fields(DeepSeek& m, Reading& in, int64_t positions) {
  read_fields(m, in,
              {.llama = {.sizes = {7168, 61, 128, positions}, .vocabulary = 129280, .inner = 18432, .key_heads = 128},
               .experts = 256,
               .choices = 8,
               .inner = 2048,
               .shared = 1,
               .dense = 3,
               .query_rank = 1536,
               .scale = 2.5});
  read_v3_routing(m, in, 8, 4);
}

}  // namespace

void read_first_dense_layers(Mixtral& m, Reading& in, int64_t usual) {
  const int64_t dense = in.f.count("first_k_dense_replace", usual);
  for (int64_t i = 0; i < m.layers; ++i) m.dense.push_back(i < dense);
}

int64_t read_mtp_layers(Reading& in) { return in.f.count("num_nextn_predict_layers", 1); }

void name_mtp_layers(const Mixtral& m, int64_t more, WeightNames& names) {
  for (int64_t i = 0; i < more; ++i) names.heads.push_back(fmt::format("model.layers.{}.", m.layers + i));
}

void read_v3_routing(Mixtral& m, Reading& in, int64_t parts, int64_t chosen_parts) {
  m.experts.unnormalized = !in.f.flag("norm_topk_prob", true);
  m.experts.sigmoid = m.experts.corrected = true;
  m.experts.part_best = 2;
  read_parts(m, in, parts, chosen_parts);
  in.f.only("topk_method", "noaux_tc", "transformers' class has one");
  in.f.only("scoring_func", "sigmoid", "transformers' class has one");
}

Model read_deepseek_v3(Reading& in) {
  DeepSeek m;
  read_v3_fields(m, in, 4096);
  const bool interleaved = in.f.flag("rope_interleave", true);
  for (Rotary& rotary : m.rotaries) rotary.interleaved = interleaved;
  return finish(m, in);
}

namespace {

// `mlp_layer_types`, dense or sparse of each layer, in place of first_k_dense_replace.
void read_dense_layers(DeepSeek& m, Reading& in) {
  const json* types = in.f.find("mlp_layer_types");
  if (!types) return;
  const bool right =
      types->is_array() && static_cast<int64_t>(types->size()) >= m.layers &&
      std::all_of(types->begin(), types->end(), [](const json& type) { return type == "dense" || type == "sparse"; });
  if (!right) return in.f.problem("{} is not a list of dense and sparse, one a layer", in.f.shown("mlp_layer_types"));
  for (int64_t i = 0; i < m.layers; ++i)
    m.dense[static_cast<std::size_t>(i)] = (*types)[static_cast<std::size_t>(i)] == "dense";
}

}  // namespace

// A query sees the `index_topk` keys that its indexer finds. In sequences that are no longer it sees all, as in V3, and
// the indexer changes nothing; transformers does not train it.
Model read_deepseek_v32(Reading& in) {
  DeepSeek m;
  Fields& f = in.f;
  read_v3_fields(m, in, 163840);
  for (Rotary& rotary : m.rotaries) rotary.interleaved = true;
  if (m.query_rank == 0) f.problem("q_lora_rank=null: the indexer takes latent queries");
  m.indexer_heads = f.integer("index_n_heads", 64);
  m.indexer_size = f.integer("index_head_dim", 128);
  const int64_t seen = f.integer("index_topk", 2048);
  if (!in.options.steps) m.steps = std::min(m.steps, seen);
  if (m.steps > seen)
    f.problem(
        "index_topk={}: a query sees so many keys of a sequence of steps={}, and such attention is not supported; use "
        "--bind steps={}, or, for attention to all keys as DeepSeek-V3's, --bind index_topk={}",
        seen, m.steps, seen, m.steps);
  f.only("rope_interleave", true, "transformers' DeepSeek-V3.2 has neighbours");
  const json* kinds = f.find("layer_types");
  if (kinds && !std::all_of(kinds->begin(), kinds->end(), [](const json& kind) { return kind == "indexed_attention"; }))
    f.problem("{}: only layers of indexed_attention are supported", f.shown("layer_types"));
  read_dense_layers(m, in);
  return finish(m, in);
}

}  // namespace partita::huggingface

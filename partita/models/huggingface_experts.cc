// Reads models with experts for their feed-forward parts: Mixtral, Qwen2-MoE, Qwen3-MoE.
#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {

void name_experts(const Mixtral& m, WeightNames& names, const std::string& own,
                  const std::map<std::string, std::string>& parts) {
  for (int64_t i = 0; i < m.layers; ++i) {
    if (!m.dense.empty() && m.dense[static_cast<std::size_t>(i)]) continue;
    const std::string ours = fmt::format("model.layers.{}.mlp", i), theirs = fmt::format("model.layers.{}.{}", i, own);
    if (ours != theirs) names.renamed[ours + ".gate.weight"] = theirs + ".gate.weight";
    for (const auto& [part, name] : parts)
      for (int64_t e = 0; e < m.experts.count; ++e)
        names.parts[fmt::format("{}.experts.{}", ours, part)].push_back(
            fmt::format("{}.experts.{}.{}.weight", theirs, e, name));
  }
}

void read_experts(Mixtral& m, Reading& in, const char* count_field, int64_t count, int64_t choices, int64_t inner) {
  Fields& f = in.f;
  m.experts.count = f.integer(count_field, count, 4096);
  m.experts.choices = f.integer("num_experts_per_tok", choices);
  m.experts.inner = inner;
  m.experts.gated = true;
  m.experts.activation = m.activation;
  m.experts.groups = m.batch;
  m.experts.normalize_single = true;
  m.experts.capacity = f.number("capacity", 0, 0, 1e9);
  m.experts.imbalance = f.number("imbalance", 1, 1, 1e9);
  if (m.experts.capacity > 0 && f.has("imbalance"))
    f.problem("{}: experts with a capacity have places of that alone; leave out one of the two", f.shown("imbalance"));
  if (m.experts.choices > m.experts.count)
    f.problem("num_experts_per_tok={} is more than {}={}", m.experts.choices, count_field, m.experts.count);
}

void read_balance_loss(Mixtral& m, Reading& in) {
  const double balance = in.f.number("router_aux_loss_coef", 0.001, 0, 1e300);
  if (in.f.flag("output_router_logits", false)) m.balance = balance;
  m.balance_together = true;
}

namespace {

// Reads the common fields of Qwen2-MoE and Qwen3-MoE: the layers with experts, and the choices' weights.
void read_qwen_experts(Mixtral& m, Reading& in, const char* count_field, int64_t count, int64_t choices,
                       int64_t inner) {
  Fields& f = in.f;
  read_experts(m, in, count_field, count, choices, f.integer("moe_intermediate_size", inner));
  m.experts.unnormalized = !f.flag("norm_topk_prob", false);
  read_balance_loss(m, in);
  const int64_t step = f.integer("decoder_sparse_step", 1);
  std::set<int64_t> plain;
  if (const json* listed = f.find("mlp_only_layers")) {
    const bool right = listed->is_array() && std::all_of(listed->begin(), listed->end(),
                                                         [](const json& layer) { return layer.is_number_integer(); });
    if (right)
      for (const json& layer : *listed) plain.insert(layer.get<int64_t>());
    else f.problem("{} is not a list of layers' numbers", f.shown("mlp_only_layers"));
  }
  for (int64_t i = 0; i < m.layers; ++i) m.dense.push_back(plain.contains(i) || (i + 1) % step != 0);
}

Model finish_experts(const Mixtral& m, Reading& in, const std::string& own,
                     const std::map<std::string, std::string>& parts) {
  in.stop();
  Model model = build_mixtral(m, in.registry);
  name_llama_weights(m, model.weight_names);
  name_experts(m, model.weight_names, own, parts);
  return model;
}

}  // namespace

const std::map<std::string, std::string> kExpertParts{
    {"gate_proj", "gate_proj"}, {"up_proj", "up_proj"}, {"down_proj", "down_proj"}};

Model read_mixtral(Reading& in) {
  Mixtral m;
  read_llama_fields(m, in, {.sizes = {4096, 32, 32, 131072}, .inner = 14336, .key_heads = 8, .eps = 1e-5});
  read_llama_rotary(m, in, {.positions = 131072, .theta = 1e6});
  m.kinds = {{.window = in.f.integer_or_none("sliding_window", 0)}};
  // Either name is taken.
  read_experts(m, in, in.f.has("num_experts") ? "num_experts" : "num_local_experts", 8, 2, m.inner);
  in.f.only("router_jitter_noise", 0.0, "noise on what the router sees");
  read_balance_loss(m, in);
  return finish_experts(m, in, "block_sparse_moe", {{"gate_proj", "w1"}, {"down_proj", "w2"}, {"up_proj", "w3"}});
}

Model read_qwen2_moe(Reading& in) {
  Mixtral m;
  read_llama_fields(m, in, {.sizes = {2048, 24, 16, 32768}, .vocabulary = 151936, .inner = 5632, .key_heads = 16});
  read_llama_rotary(m, in, {.positions = 32768, .theta = 10000});
  m.attention_bias = in.f.flag("qkv_bias", true);
  read_qwen_window(m, in, [](int64_t layer, int64_t most) { return layer % 2 == 0 && layer < most; });
  read_qwen_experts(m, in, "num_experts", 60, 4, 1408);
  m.shared = in.f.integer("shared_expert_intermediate_size", 5632);
  m.shared_name = "shared_expert";
  m.shared_gate = true;
  return finish_experts(m, in, "mlp", kExpertParts);
}

Model read_qwen3_moe(Reading& in) {
  Mixtral m;
  read_llama_fields(m, in, {.sizes = {2048, 24, 32, 32768}, .vocabulary = 151936, .inner = 6144, .key_heads = 4});
  read_llama_rotary(m, in, {.positions = 32768, .theta = 10000});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.query_norm = Llama::QueryNorm::kHead;
  in.f.only("use_qk_norm", true, "transformers' Qwen3 always has the norm of queries and keys");
  if (const int64_t window = used_window(in, 4096); window > 0) m.kinds = {{.window = window}};
  read_qwen_experts(m, in, in.f.has("num_local_experts") ? "num_local_experts" : "num_experts", 128, 8, 768);
  return finish_experts(m, in, "mlp", kExpertParts);
}

Model read_qwen3_vl_moe(Reading& in) {
  Mixtral m;
  read_llama_fields(m, in, {.sizes = {2048, 24, 16, 128000}, .vocabulary = 151936, .inner = 5632, .key_heads = 16});
  read_llama_rotary(m, in, {.positions = 128000, .theta = 500000, .sections = true, .renamed = {{"mrope", "default"}}});
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.query_norm = Llama::QueryNorm::kHead;
  read_qwen_experts(m, in, in.f.has("num_local_experts") ? "num_local_experts" : "num_experts", 60, 4, 1408);
  in.f.only("norm_topk_prob", true, "transformers' Qwen3-VL always divides what choices count by their sum");
  m.experts.unnormalized = false;
  return finish_experts(m, in, "mlp", kExpertParts);
}

}  // namespace partita::huggingface

// Reads GLM-4.5: Llama's attention with a part of each head turned, and DeepSeek-V3's experts.
#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {

Model read_glm4_moe(Reading& in) {
  Mixtral m;
  Fields& f = in.f;
  read_llama_fields(
      m, in, {.sizes = {4096, 46, 96, 131072}, .vocabulary = 151552, .inner = 10944, .key_heads = 8, .eps = 1e-5});
  read_llama_rotary(m, in, {.positions = 131072, .theta = 10000, .part = 0.5, .partial = true});
  m.attention_bias = f.flag("attention_bias", false);
  if (f.flag("use_qk_norm", false)) m.query_norm = Llama::QueryNorm::kHead;
  read_experts(m, in, f.has("num_local_experts") ? "num_local_experts" : "n_routed_experts", 128, 8,
               f.integer("moe_intermediate_size", 1408));
  read_v3_routing(m, in, 1, 1);
  read_first_dense_layers(m, in, 1);
  m.experts.scale = f.positive("routed_scaling_factor", 1);
  m.shared = m.experts.inner * f.integer("n_shared_experts", 1);
  m.shared_name = "shared_experts";
  f.only("output_router_logits", false, "a load-balancing loss");
  const int64_t more = read_mtp_layers(in);
  in.stop();
  Model model = build_mixtral(m, in.registry);
  name_llama_weights(m, model.weight_names);
  name_experts(m, model.weight_names, "mlp", kExpertParts);
  name_mtp_layers(m, more, model.weight_names);
  return model;
}

}  // namespace partita::huggingface

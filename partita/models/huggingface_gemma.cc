// Reads configurations of Gemma 1 to 3.
#include <cmath>

#include "partita/models/huggingface_fields.h"

namespace partita::huggingface {
namespace {

// The common fields of all three: norms by 1 + w, the embedding times sqrt(hidden), which transformers rounds to the
// weights' type.
void read_gemma_fields(Llama& m, Reading& in, const LlamaDefaults& defaults) {
  read_llama_fields(m, in, defaults);
  m.attention_bias = m.output_bias = in.f.flag("attention_bias", false);
  m.norm_from_one = true;
  m.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(m.hidden)));
  in.f.only("use_bidirectional_attention", false, "attention to tokens that follow");
}

// The new fields of Gemma 2.
void read_gemma2_fields(Llama& m, Reading& in, double final_cap, double attention_cap) {
  m.norm_after = true;
  m.attention_scale = 1 / std::sqrt(in.f.positive("query_pre_attn_scalar", 256));
  m.final_softcap = in.f.positive_or_none("final_logit_softcapping", final_cap);
  m.attention_softcap = in.f.positive_or_none("attn_logit_softcapping", attention_cap);
  if (m.hidden % m.heads) in.f.problem("hidden_size={} is not a multiple of num_attention_heads={}", m.hidden, m.heads);
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
  // transformers takes "gelu", the first files' word, for the approximation that the model was trained with.
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
  read_layer_kinds(m, in, [](int64_t layer) { return layer % 2 == 0; });
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
  read_two_rotaries(m, in, all, local);
  const int64_t pattern = f.integer("sliding_window_pattern", 6);
  read_layer_kinds(m, in, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  return finish_llama(m, in);
}

}  // namespace partita::huggingface

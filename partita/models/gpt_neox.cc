// Builds GPT-NeoX, as Hugging Face has it.
#include "partita/base/error.h"
#include "partita/models/transformers.h"

namespace partita {
namespace {

// Each head has its own q, k and v beside each other in the product.
TensorId attention(Network& net, const GptNeoX& m, TensorId x, const std::string& name, const RotaryTable& rotary) {
  const int64_t size = m.hidden / m.heads;
  const TensorId all = net.layers.linear(x, name + ".query_key_value", 3 * m.hidden, m.attention_bias);
  const std::vector<TensorId> qkv =
      net.split(net.layers.split_heads(all, name + ".qkv", m.heads), 3, {size, size, size}, name + ".split");
  const TensorId q = net.apply_rotary(qkv[0], rotary, name + ".q.rotary"),
                 k = net.apply_rotary(qkv[1], rotary, name + ".k.rotary");
  const TensorId a = net.attention(q, k, qkv[2], name, {.causal = true, .dropout = m.attention_dropout});
  return net.layers.dropout(net.layers.linear(a, name + ".dense", m.hidden, m.attention_bias), name + ".post_dropout",
                            m.dropout);
}

TensorId feed_forward(Network& net, const GptNeoX& m, TensorId x, const std::string& name) {
  TensorId y = net.layers.linear(x, name + ".dense_h_to_4h", m.inner);
  y = net.layers.linear(net.b.op(m.activation, {y}, {}, name + ".act"), name + ".dense_4h_to_h", m.hidden);
  return net.layers.dropout(y, name + ".post_dropout", m.dropout);
}

}  // namespace

Model build_gpt_neox(const GptNeoX& m, std::shared_ptr<const OpRegistry> registry) {
  Network net(m.name, m.dtype, std::move(registry));
  GraphBuilder& b = net.b;
  const RotaryTable rotary = net.rotary_table(m.rotary, m.steps, "rotary");
  const TensorId tokens = b.input(m.tokens, {m.batch, m.steps}, DType::kInt64);
  const TensorId words = net.table("gpt_neox.embed_in.weight", {m.vocabulary, m.hidden});
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, "gpt_neox.embed_in");
  x = net.layers.dropout(x, "gpt_neox.emb_dropout", m.dropout);
  for (int64_t i = 0; i < m.layers; ++i) {
    const std::string name = fmt::format("gpt_neox.layers.{}", i);
    const TensorId a = attention(net, m, net.norm(x, name + ".input_layernorm", m.eps), name + ".attention", rotary);
    const TensorId sum = net.add(x, a, name + ".attention.add");
    const TensorId taken = m.parallel ? x : sum;
    const TensorId y = feed_forward(net, m, net.norm(taken, name + ".post_attention_layernorm", m.eps), name + ".mlp");
    x = net.add(sum, y, name + ".mlp.add");
  }
  x = net.norm(x, "gpt_neox.final_layer_norm", m.eps);
  return {b.finish({net.head(x, m.tied ? words : TensorId(), "embed_out", m.vocabulary)}),
          Loss{.kind = "cross_entropy"}};
}

}  // namespace partita

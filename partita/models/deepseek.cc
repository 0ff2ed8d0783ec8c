// Builds DeepSeek-V2 and V3, as Hugging Face has them (DeepSeek-V2, section 2.1). Keys and values of all heads are made
// of one latent vector a token. The part of the keys that positions turn is the same for all heads.
#include "partita/base/error.h"
#include "partita/models/transformers.h"

namespace partita {
namespace {

constexpr double kLatentEps = 1e-6;  // of the norms of latent vectors, apart from that of the others

TensorId queries(Network& net, const DeepSeek& m, TensorId x, const std::string& self) {
  const int64_t columns = m.heads * (m.plain_size + m.turned_size);
  TensorId q = x;
  if (m.query_rank > 0) {
    q = net.layers.linear(x, self + ".q_a_proj", m.query_rank, m.attention_bias);
    q = net.layers.linear(net.rms_norm(q, self + ".q_a_layernorm", kLatentEps), self + ".q_b_proj", columns, false);
  } else {
    q = net.layers.linear(x, self + ".q_proj", columns, false);
  }
  return net.layers.split_heads(q, self + ".q", m.heads);
}

// The weights of a layer's indexer.
void add_indexer(Network& net, const DeepSeek& m, const std::string& name) {
  const auto add = [&](const char* part, Shape shape, double fill = 0) {
    net.layers.parameter(name + part, std::move(shape), fill == 0 ? kNormalBound : 0, fill);
  };
  add(".wq_b.weight", {m.indexer_heads * m.indexer_size, m.query_rank});
  add(".wk.weight", {m.indexer_size, m.hidden});
  add(".k_norm.weight", {m.indexer_size}, 1);
  add(".k_norm.bias", {m.indexer_size});
  add(".weights_proj.weight", {m.indexer_heads, m.hidden});
}

TensorId latent_attention(Network& net, const DeepSeek& m, TensorId x, const std::string& self,
                          const RotaryTable& rotary) {
  GraphBuilder& b = net.b;
  if (m.indexer_heads > 0) add_indexer(net, m, self + ".indexer");
  const std::vector<TensorId> q =
      net.split(queries(net, m, x, self), 3, {m.plain_size, m.turned_size}, self + ".q.split");
  const TensorId latent =
      net.layers.linear(x, self + ".kv_a_proj_with_mqa", m.key_rank + m.turned_size, m.attention_bias);
  const std::vector<TensorId> parts = net.split(latent, 2, {m.key_rank, m.turned_size}, self + ".kv_a.split");
  const TensorId normed = net.rms_norm(parts[0], self + ".kv_a_layernorm", kLatentEps);
  const TensorId wide = net.layers.linear(normed, self + ".kv_b_proj", m.heads * (m.plain_size + m.value_size), false);
  const std::vector<TensorId> kv = net.split(net.layers.split_heads(wide, self + ".kv", m.heads), 3,
                                             {m.plain_size, m.value_size}, self + ".kv.split");
  TensorId shared = b.op("unsqueeze", {parts[1]}, {{"axes.0", 1}}, self + ".k.shared");
  shared = net.apply_rotary(shared, rotary, self + ".k.rotary");
  tdl::Attributes shape;
  const Shape all{m.batch, m.heads, m.steps, m.turned_size};
  for (std::size_t a = 0; a < all.size(); ++a) shape[fmt::format("shape.{}", a)] = static_cast<double>(all[a]);
  shared = b.op("expand", {shared}, shape, self + ".k.expand");
  const TensorId turned = net.apply_rotary(q[1], rotary, self + ".q.rotary");
  const TensorId whole_q = net.layers.concat({q[0], turned}, self + ".q.concat", 3);
  const TensorId whole_k = net.layers.concat({kv[0], shared}, self + ".k.concat", 3);
  const TensorId a = net.attention(whole_q, whole_k, kv[1], self,
                                   {.causal = true, .scale = m.attention_scale, .dropout = m.attention_dropout});
  return net.layers.linear(a, self + ".o_proj", m.hidden, m.output_bias);
}

}  // namespace

Model build_deepseek(const DeepSeek& m, std::shared_ptr<const OpRegistry> registry) {
  Mixtral mixtral = m;
  mixtral.attention = [&](Network& net, TensorId x, const std::string& name, const RotaryTable& rotary) {
    return latent_attention(net, m, x, name + ".self_attn", rotary);
  };
  return build_mixtral(mixtral, std::move(registry));
}

}  // namespace partita

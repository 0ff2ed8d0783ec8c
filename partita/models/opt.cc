// Builds OPT, as Hugging Face has it: the first two rows of its table of positions stand for no position.
#include "partita/base/error.h"
#include "partita/models/transformers.h"

namespace partita {
namespace {

constexpr int64_t kFirstPosition = 2;

TensorId attention(Network& net, const Opt& m, TensorId x, const std::string& self) {
  auto heads = [&](const char* part) {
    const TensorId y = net.layers.linear(x, fmt::format("{}.{}_proj", self, part), m.hidden, m.bias);
    return net.layers.split_heads(y, fmt::format("{}.{}", self, part), m.heads);
  };
  const TensorId q = heads("q"), k = heads("k"), v = heads("v");
  const TensorId a = net.attention(q, k, v, self, {.causal = true, .dropout = m.attention_dropout});
  return net.layers.linear(a, self + ".out_proj", m.hidden, m.bias);
}

TensorId layer(Network& net, const Opt& m, TensorId x, const std::string& name) {
  const std::string first = name + ".self_attn_layer_norm", second = name + ".final_layer_norm";
  auto norm = [&](TensorId y, const std::string& which) { return net.layer_norm(y, which, m.eps, m.affine); };
  TensorId y = attention(net, m, m.norm_before ? norm(x, first) : x, name + ".self_attn");
  x = net.add(x, net.layers.dropout(y, name + ".self_attn.resid_dropout", m.dropout), name + ".self_attn.add");
  if (!m.norm_before) x = norm(x, first);
  y = net.layers.linear(m.norm_before ? norm(x, second) : x, name + ".fc1", m.inner, m.bias);
  y = net.layers.linear(net.b.op(m.activation, {y}, {}, name + ".activation"), name + ".fc2", m.hidden, m.bias);
  x = net.add(x, net.layers.dropout(y, name + ".dropout", m.dropout), name + ".add");
  return m.norm_before ? x : norm(x, second);
}

}  // namespace

Model build_opt(const Opt& m, std::shared_ptr<const OpRegistry> registry) {
  Network net(m.name, m.dtype, std::move(registry));
  GraphBuilder& b = net.b;
  const std::string decoder = "model.decoder.";
  const TensorId tokens = b.input(m.tokens, {m.batch, m.steps}, DType::kInt64);
  const TensorId words = net.table(decoder + "embed_tokens.weight", {m.vocabulary, m.width});
  TensorId x = b.op("gather", {words, tokens}, {{"axis", 0}}, decoder + "embed_tokens");
  if (m.width != m.hidden) x = net.layers.linear(x, decoder + "project_in", m.hidden, false);
  const TensorId positions = net.table(decoder + "embed_positions.weight", {m.positions + kFirstPosition, m.hidden});
  x = net.add(x, net.first_rows(positions, m.steps, decoder + "embed_positions", kFirstPosition),
              decoder + "embedding");
  for (int64_t i = 0; i < m.layers; ++i) x = layer(net, m, x, fmt::format("{}layers.{}", decoder, i));
  if (m.final_norm) x = net.layer_norm(x, decoder + "final_layer_norm", m.eps, m.affine);
  if (m.width != m.hidden) x = net.layers.linear(x, decoder + "project_out", m.width, false);
  return {b.finish({net.head(x, m.tied ? words : TensorId(), "lm_head", m.vocabulary)}), Loss{.kind = "cross_entropy"}};
}

}  // namespace partita

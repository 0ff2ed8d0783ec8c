// Builds Mixtral, as Hugging Face has it: no token is dropped.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/models/family.h"
#include "partita/models/transformers.h"

namespace partita {
namespace {

// experts * sum over them of their share of all choices, times `choices`, and their mean probability.
TensorId balance_of_all(Network& net, const std::vector<ExpertsResult>& layers) {
  GraphBuilder& b = net.b;
  TensorId chosen, probability;  // [experts], sums over layers and tokens
  double rows = 0;
  int64_t experts = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = fmt::format("balance.{}", i);
    const Shape p = b.shape(layers[i].probabilities);
    experts = p[2];
    rows += static_cast<double>(p[0] * p[1]);
    Values numbers{.dtype = DType::kInt64, .shape = {experts}};
    for (int64_t e = 0; e < experts; ++e) numbers.integer.push_back(e);
    const TensorId number = b.constant(name + ".experts", std::move(numbers));
    const TensorId each = b.op("unsqueeze", {layers[i].chosen}, {{"axes.0", 3}}, name + ".each");
    const TensorId hit = b.op("cast", {b.op("equal", {each, number}, {}, name + ".equal")},
                              {{"to", static_cast<double>(net.layers.dtype)}}, name + ".hit");
    const TensorId c =
        b.op("reduce_sum", {hit}, {{"axes.0", 0}, {"axes.1", 1}, {"axes.2", 2}, {"keepdims", 0}}, name + ".chosen");
    const TensorId s = b.op("reduce_sum", {layers[i].probabilities}, {{"axes.0", 0}, {"axes.1", 1}, {"keepdims", 0}},
                            name + ".probability");
    chosen = i ? net.add(chosen, c, name + ".chosen.sum") : c;
    probability = i ? net.add(probability, s, name + ".probability.sum") : s;
  }
  const TensorId product = b.op("mul", {chosen, probability}, {}, "balance.product");
  const TensorId sum = b.op("reduce_sum", {product}, {{"axes.0", 0}, {"keepdims", 0}}, "balance.sum");
  return b.op("mul", {sum, b.scalar("balance.scale", static_cast<double>(experts) / (rows * rows), net.layers.dtype)},
              {}, "balance");
}

TensorId sum_of_balances(Network& net, const std::vector<ExpertsResult>& layers,
                         const std::vector<std::string>& names) {
  TensorId sum = layers[0].balance;
  for (std::size_t i = 1; i < layers.size(); ++i) sum = net.add(sum, layers[i].balance, names[i] + ".mlp.balance.sum");
  return sum;
}

// The expert that all tokens go to.
TensorId shared(Network& net, const Mixtral& m, TensorId x, const std::string& name) {
  const std::string own = fmt::format("{}.{}", name, m.shared_name);
  const TensorId y = net.gated(x, own, m.shared, m.activation, m.shared_bias);
  if (!m.shared_gate) return y;
  const TensorId gate = net.layers.linear(x, own + "_gate", 1, false);
  return net.b.op("mul", {net.b.op("sigmoid", {gate}, {}, own + "_gate.sigmoid"), y}, {}, own);
}

}  // namespace

Model build_mixtral(const Mixtral& m, std::shared_ptr<const OpRegistry> registry) {
  TensorId unbalanced;
  std::vector<ExpertsResult> all;
  std::vector<std::string> names;
  Llama llama = m;
  llama.feed_forward = [&](Network& net, TensorId x, const std::string& name, int64_t layer) {
    if (!m.dense.empty() && m.dense[static_cast<std::size_t>(layer)]) return TensorId();
    const ExpertsResult result = experts(net.layers, x, name + ".mlp", m.experts);
    all.push_back(result);
    names.push_back(name);
    return m.shared == 0 ? result.y : net.add(result.y, shared(net, m, x, name + ".mlp"), name + ".mlp.sum");
  };
  llama.behind_layers = [&](Network& net) {
    if (m.balance == 0 || all.empty()) return;
    if (m.balance_together) unbalanced = balance_of_all(net, all);
    else unbalanced = sum_of_balances(net, all, names);
  };
  Model model = build_llama(llama, std::move(registry));
  if (m.balance > 0 && unbalanced.valid()) model.loss.penalties.emplace_back(unbalanced, m.balance);
  return model;
}

namespace {

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  Mixtral m;
  m.name = options.model();
  m.dtype = options.dtype();
  m.batch = options.integer("batch"), m.steps = options.integer("steps"), m.layers = options.integer("layers");
  m.hidden = options.integer("hidden"), m.heads = options.integer("heads"), m.inner = options.integer("inner");
  m.key_heads = options.integer("key_heads"), m.vocabulary = options.integer("vocabulary");
  m.activation = "silu";
  m.tied = false;
  if (m.hidden % m.heads || m.heads % m.key_heads)
    fail("zoo:{}: hidden={}, heads={}, key_heads={}: each must be a multiple of the next", m.name, m.hidden, m.heads,
         m.key_heads);
  m.size = m.hidden / m.heads;
  m.rotaries = {{.frequencies = rotary_frequencies(1e6, m.size)}};
  m.experts.inner = m.inner, m.experts.gated = true, m.experts.activation = m.activation;
  m.experts.count = options.integer("experts"), m.experts.choices = options.integer("choices");
  m.experts.groups = options.text("groups").empty() ? m.batch : options.integer("groups");
  m.experts.capacity = options.number("capacity", 0, 1e9);
  m.experts.imbalance = options.number("imbalance", 1, 1e9);
  m.balance = options.number("balance", 0, 1e9);
  return build_mixtral(m, std::move(registry));
}

}  // namespace

ModelFamily mixtral_family() {
  return {{"mixtral-8x7b",
           "Mixtral 8x7B: Llama's layers with 8 experts, of which a token goes to 2; none is dropped",
           {{"batch", "1", "sequences a step"},
            {"steps", "4096", "tokens a sequence"},
            {"layers", "32", "transformer layers"},
            {"hidden", "4096", "columns of the residual stream"},
            {"heads", "32", "heads of the queries"},
            {"key_heads", "8", "heads of keys and values"},
            {"inner", "14336", "columns inside an expert"},
            {"vocabulary", "32000", "different tokens"},
            {"experts", "8", "of a layer"},
            {"choices", "2", "experts that a token goes to"},
            {"groups", "", "of tokens, each routed by itself; they divide batch * steps; empty: batch"},
            {"capacity", "0", "places of an expert, in units of its even share; 0: no token is dropped"},
            {"imbalance", "1", "where none is dropped: the largest share that a plan counts on, over the even one"},
            {"balance", "0", "weight of the load-balancing loss"}}},
          build};
}

}  // namespace partita

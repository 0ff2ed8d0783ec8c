// Builds a language model of pre-norm transformer layers (Vaswani et al., 2017; GPT-2's arrangement): tokens to the
// logits of each next token. Attention, norms and dropout are one operation each, or, `fine`, made of elementary ones.
// In zoo:moe the feed-forward part of every so many layers is a layer of experts (GShard, Lepikhin et al. 2020).
#include "partita/models/experts.h"
#include "partita/models/family.h"
#include "partita/models/transformer_layers.h"

namespace partita {
namespace {

// Layer i has experts if `expert_layers` divides i + 1; 0: none has.
Model build_layers(const ModelOptions& options, const Experts& expert_options, int64_t expert_layers, double balance,
                   std::shared_ptr<const OpRegistry> registry) {
  const int64_t layers = options.integer("layers"), heads = options.integer("heads"),
                hidden = options.integer("hidden"), batch = options.integer("batch"), steps = options.integer("steps"),
                vocabulary = options.integer("vocabulary", 2);
  const int64_t inner = options.text("inner").empty() ? 4 * hidden : options.integer("inner");
  const double dropout = options.number("dropout", 0, 1);
  const bool causal = options.flag("causal");
  if (hidden % heads) fail("zoo:{}: hidden={} is not a multiple of heads={}", options.model(), hidden, heads);
  GraphBuilder b(options.model(), std::move(registry));
  TransformerLayers layer(b, options.dtype(), heads, options.flag("fine"));
  Loss loss{.kind = "cross_entropy"};
  std::vector<std::pair<std::string, TensorId>> balances;  // by layer: the name of its sum with those before
  const TensorId tokens = b.input("tokens", {batch, steps}, DType::kInt64);
  TensorId x = layer.layers.embedding(tokens, "embedding", vocabulary, hidden);
  b.set_source({"position", ""});
  x = b.op("add", {x, layer.layers.parameter("position.weight", {steps, hidden}, 0.02)}, {}, "position");
  x = layer.layers.dropout(x, "dropout", dropout);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    TensorId a = layer.norm(x, name + ".norm1");
    a = layer.attention(a, a, name + ".attention", causal);
    x = b.op("add", {x, layer.layers.dropout(a, name + ".dropout1", dropout)}, {}, name + ".add1");
    TensorId f = layer.norm(x, name + ".norm2");
    if (expert_layers > 0 && (i + 1) % expert_layers == 0) {
      Experts o = expert_options;
      o.inner = inner;
      const ExpertsResult result = experts(layer.layers, f, name + ".moe", o);
      f = result.y;
      balances.emplace_back(name + ".balance", result.balance);
    } else {
      f = layer.feed_forward(f, name + ".feed_forward", inner, "gelu");
    }
    x = b.op("add", {x, layer.layers.dropout(f, name + ".dropout2", dropout)}, {}, name + ".add2");
  }
  // Behind the layers, so that these stay equal.
  TensorId unbalanced;
  for (const auto& [name, of] : balances)
    if (balance > 0) unbalanced = unbalanced.valid() ? b.op("add", {unbalanced, of}, {}, name) : of;
  x = layer.layers.linear(layer.norm(x, "norm"), "head", vocabulary, false);
  if (unbalanced.valid()) loss.penalties.emplace_back(unbalanced, balance);
  return {b.finish({x}), loss};
}

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  return build_layers(options, {}, 0, 0, std::move(registry));
}

Model build_moe(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const Experts experts{.count = options.integer("experts"),
                        .choices = options.integer("choices"),
                        .groups = options.integer("groups"),
                        .capacity = options.number("capacity", 0, 1e9),
                        .imbalance = options.number("imbalance", 1, 1e9)};
  return build_layers(options, experts, options.integer("every"), options.number("balance", 0, 1e9),
                      std::move(registry));
}

std::vector<ModelOption> own_options(std::vector<ModelOption> more = {}) {
  std::vector<ModelOption> options{{"layers", "2", "transformer layers"},
                                   {"heads", "4", "attention heads"},
                                   {"hidden", "64", "columns of the residual stream"},
                                   {"inner", "", "columns inside the feed-forward part; empty: 4 hidden"},
                                   {"batch", "8", "sequences a step"},
                                   {"steps", "32", "tokens a sequence"},
                                   {"vocabulary", "256", "different tokens"},
                                   {"causal", "1", "0: every token sees all others"},
                                   {"dropout", "0", "probability"},
                                   {"fine", "false", "true: attention and norms in elementary operations"}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

std::vector<ModelFamily> transformer_families() {
  return {
      {{"transformer", "language model of pre-norm transformer layers", own_options()}, build},
      {{"moe", "the transformer with experts for its feed-forward parts (GShard, Switch Transformer)",
        own_options(
            {{"experts", "8", "of a layer"},
             {"choices", "2", "experts that a token goes to"},
             {"groups", "8", "of tokens, each routed by itself; they divide batch * steps"},
             {"capacity", "1.25", "places of an expert, in units of its even share; 0: no token is dropped"},
             {"imbalance", "1", "where none is dropped: the largest share that a plan counts on, over the even one"},
             {"every", "1", "2: every second layer has experts, and so on"},
             {"balance", "0.01", "weight of the load-balancing loss"}})},
       build_moe}};
}

}  // namespace partita

// A language model of pre-norm transformer layers (Vaswani et al., 2017; GPT-2's arrangement): tokens to the logits of
// each next token. Attention, norms and dropout are one operation each, or, `fine`, made of elementary ones. In zoo:moe
// the feed-forward part of every so many layers is a layer of experts (GShard, Lepikhin et al. 2020).
#include <cmath>
#include <limits>

#include "partita/models/experts.h"
#include "partita/models/family.h"
#include "partita/models/layers.h"

namespace partita {
namespace {

class Builder {
 public:
  Builder(GraphBuilder& b, const ModelOptions& options)
      : layers(b, options.dtype()),
        b_(b),
        dtype_(options.dtype()),
        heads_(options.integer("heads")),
        causal_(options.flag("causal")),
        fine_(options.flag("fine")) {}

  TensorId norm(TensorId x, const std::string& name) {
    const int64_t n = b_.shape(x).back();
    b_.set_source({name, ""});
    const TensorId w = layers.parameter(name + ".weight", {n}, 0, 1), bias = layers.parameter(name + ".bias", {n}, 0);
    if (!fine_) return b_.op("layer_norm", {x, w, bias}, {}, name);
    const tdl::Attributes last{{"axes.0", -1}, {"keepdims", 1}};
    const TensorId centred = b_.op("sub", {x, b_.op("reduce_mean", {x}, last, name + ".mean")}, {}, name + ".centred");
    const TensorId square = b_.op("square", {centred}, {}, name + ".square");
    const TensorId variance = b_.op("reduce_mean", {square}, last, name + ".variance");
    const TensorId positive = b_.op("add", {variance, b_.scalar(name + ".eps", 1e-5, dtype_)}, {}, name + ".positive");
    const TensorId deviation = b_.op("sqrt", {positive}, {}, name + ".deviation");
    const TensorId z = b_.op("div", {centred, deviation}, {}, name + ".normal");
    return b_.op("add", {b_.op("mul", {z, w}, {}, name + ".scaled"), bias}, {}, name);
  }

  TensorId attention(TensorId x, const std::string& name) {
    const int64_t hidden = b_.shape(x)[2];
    auto heads = [&](const std::string& part) {
      return layers.split_heads(layers.linear(x, part, hidden), part, heads_);
    };
    const TensorId q = heads(name + ".q"), k = heads(name + ".k"), v = heads(name + ".v");
    b_.set_source({name, ""});
    const TensorId o =
        fine_ ? elementary_attention(q, k, v, name) : b_.op("attention", {q, k, v}, {{"causal", causal_}}, name);
    const TensorId merged = layers.merge_heads(o, name);
    return layers.linear(merged, name + ".out", hidden);
  }

  TensorId feed_forward(TensorId x, const std::string& name, int64_t inner) {
    const int64_t hidden = b_.shape(x)[2];
    const TensorId up = layers.linear(x, name + ".up", inner);
    return layers.linear(b_.op("gelu", {up}, {}, name + ".gelu"), name + ".down", hidden);
  }

  Layers layers;

 private:
  TensorId elementary_attention(TensorId q, TensorId k, TensorId v, const std::string& name) {
    const int64_t steps = b_.shape(q)[2];
    const double size = static_cast<double>(b_.shape(q)[3]);
    TensorId scores = b_.op("matmul_nt", {q, k}, {}, name + ".product");
    scores = b_.op("mul", {scores, b_.scalar(name + ".scale", 1 / std::sqrt(size), dtype_)}, {}, name + ".scores");
    if (causal_) scores = b_.op("add", {scores, causal_mask(steps)}, {}, name + ".masked");
    const tdl::Attributes last{{"axes.0", -1}, {"keepdims", 1}};
    const TensorId largest = b_.op("reduce_max", {scores}, last, name + ".largest");
    const TensorId e = b_.op("exp", {b_.op("sub", {scores, largest}, {}, name + ".shifted")}, {}, name + ".exp");
    const TensorId weights = b_.op("div", {e, b_.op("reduce_sum", {e}, last, name + ".sum")}, {}, name + ".weights");
    return b_.op("matmul", {weights, v}, {}, name);
  }

  // -inf where a key is later than the query; one for all layers.
  TensorId causal_mask(int64_t steps) {
    if (mask_.valid()) return mask_;
    Values values{.dtype = dtype_, .shape = {steps, steps}};
    for (int64_t i = 0; i < steps; ++i)
      for (int64_t j = 0; j < steps; ++j) values.real.push_back(j <= i ? 0 : -std::numeric_limits<double>::infinity());
    return mask_ = b_.constant("causal_mask", std::move(values));
  }

  GraphBuilder& b_;
  DType dtype_;
  int64_t heads_;
  bool causal_, fine_;
  TensorId mask_;
};

// Layer i has experts where `expert_layers` divides i + 1; 0: none has.
Model build_layers(const ModelOptions& options, const Experts& expert_options, int64_t expert_layers, double balance,
                   std::shared_ptr<const OpRegistry> registry) {
  const int64_t layers = options.integer("layers"), heads = options.integer("heads"),
                hidden = options.integer("hidden"), batch = options.integer("batch"), steps = options.integer("steps"),
                vocabulary = options.integer("vocabulary", 2);
  const int64_t inner = options.text("inner").empty() ? 4 * hidden : options.integer("inner");
  const double dropout = options.number("dropout", 0, 1);
  if (hidden % heads) fail("zoo:{}: hidden={} is not a multiple of heads={}", options.model(), hidden, heads);
  GraphBuilder b(options.model(), std::move(registry));
  Builder layer(b, options);
  Loss loss{.kind = "cross_entropy"};
  TensorId unbalanced;  // the sum over layers
  const TensorId tokens = b.input("tokens", {batch, steps}, DType::kInt64);
  TensorId x = layer.layers.embedding(tokens, "embedding", vocabulary, hidden);
  b.set_source({"position", ""});
  x = b.op("add", {x, layer.layers.parameter("position.weight", {steps, hidden}, 0.02)}, {}, "position");
  x = layer.layers.dropout(x, "dropout", dropout);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = fmt::format("layers.{}", i);
    const TensorId a = layer.attention(layer.norm(x, name + ".norm1"), name + ".attention");
    x = b.op("add", {x, layer.layers.dropout(a, name + ".dropout1", dropout)}, {}, name + ".add1");
    TensorId f = layer.norm(x, name + ".norm2");
    if (expert_layers > 0 && (i + 1) % expert_layers == 0) {
      Experts o = expert_options;
      o.inner = inner;
      const ExpertsResult result = experts(layer.layers, f, name + ".moe", o);
      f = result.y;
      unbalanced =
          unbalanced.valid() ? b.op("add", {unbalanced, result.balance}, {}, name + ".balance") : result.balance;
    } else {
      f = layer.feed_forward(f, name + ".feed_forward", inner);
    }
    x = b.op("add", {x, layer.layers.dropout(f, name + ".dropout2", dropout)}, {}, name + ".add2");
  }
  x = layer.layers.linear(layer.norm(x, "norm"), "head", vocabulary, false);
  if (unbalanced.valid() && balance > 0) loss.penalties.emplace_back(unbalanced, balance);
  return {b.finish({x}), loss};
}

Model build(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  return build_layers(options, {}, 0, 0, std::move(registry));
}

Model build_moe(const ModelOptions& options, std::shared_ptr<const OpRegistry> registry) {
  const Experts experts{.count = options.integer("experts"),
                        .choices = options.integer("choices"),
                        .groups = options.integer("groups"),
                        .capacity = options.number("capacity", 0, 1e9)};
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
        own_options({{"experts", "8", "of a layer"},
                     {"choices", "2", "experts that a token goes to"},
                     {"groups", "8", "of tokens, each routed by itself; they divide batch * steps"},
                     {"capacity", "1.25", "places of an expert, in units of its even share; 0: no token is dropped"},
                     {"every", "1", "2: every second layer has experts, and so on"},
                     {"balance", "0.01", "weight of the load-balancing loss"}})},
       build_moe}};
}

}  // namespace partita

// Builds a layer of experts: routing, dispatch and combination.
#include "partita/models/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"

namespace partita {
namespace {

// Places that each expert has for a group of so many tokens; if none is dropped, those that a plan counts on.
int64_t capacity(const Experts& o, int64_t tokens) {
  const double share = static_cast<double>(o.choices * tokens) / static_cast<double>(o.count);
  const double places = std::ceil((o.capacity == 0 ? o.imbalance : o.capacity) * share);
  return static_cast<int64_t>(std::clamp(places, 1.0, static_cast<double>(tokens)));
}

// Scores [groups, tokens, experts], with those of experts in parts that are not chosen replaced (DeepSeek-V2,
// section 2.2.2).
TensorId within_parts(GraphBuilder& b, TensorId p, const std::string& name, const Experts& o, double otherwise) {
  const Shape all = b.shape(p);
  const DType dtype = b.graph().tensor(p).dtype;
  const TensorId parted =
      b.op("reshape", {p}, list_attributes("shape", {all[0], all[1], o.parts, o.count / o.parts}), name + ".parts");
  const TensorId best = b.ops("top_k", {parted}, {{"k", static_cast<double>(o.part_best)}}, name + ".parts.best")[0];
  const TensorId good = b.op("reduce_sum", {best}, {{"axes.0", -1}, {"keepdims", 0}}, name + ".parts.good");
  const TensorId part = b.ops("top_k", {good}, {{"k", static_cast<double>(o.chosen_parts)}}, name + ".parts.choice")[1];
  Values numbers{.dtype = DType::kInt64, .shape = {o.parts}};
  for (int64_t i = 0; i < o.parts; ++i) numbers.integer.push_back(i);
  const TensorId each = b.op("unsqueeze", {part}, {{"axes.0", 3}}, name + ".parts.each");
  const TensorId same =
      b.op("equal", {each, b.constant(name + ".parts.numbers", std::move(numbers))}, {}, name + ".parts.same");
  const TensorId hits =
      b.op("reduce_sum", {b.op("cast", {same}, {{"to", static_cast<double>(dtype)}}, name + ".parts.hit")},
           {{"axes.0", 2}, {"keepdims", 0}}, name + ".parts.hits");
  const TensorId one = b.op("unsqueeze", {hits}, {{"axes.0", 3}}, name + ".parts.chosen");
  const TensorId kept =
      b.op("where", {one, parted, b.scalar(name + ".parts.otherwise", otherwise, dtype)}, {}, name + ".parts.kept");
  return b.op("reshape", {kept}, list_attributes("shape", all), name + ".parts.scores");
}

// The numbers of each token's experts, and their weights.
std::pair<TensorId, TensorId> chosen(Layers& layers, TensorId p, const std::string& name, const Experts& o) {
  GraphBuilder& b = layers.b;
  TensorId by = p;
  if (o.corrected)
    by = b.op("add", {p, b.state(name + ".gate.e_score_correction_bias", {o.count}, 0, layers.dtype)}, {},
              name + ".corrected");
  if (o.parts > 1) by = within_parts(b, by, name, o, o.corrected ? -std::numeric_limits<double>::infinity() : 0);
  const std::vector<TensorId> top = b.ops("top_k", {by}, {{"k", static_cast<double>(o.choices)}}, name + ".choice");
  TensorId w = top[0];
  if (o.corrected) w = b.op("gather_elements", {p, top[1]}, {{"axis", -1}}, name + ".choice.scores");
  if (!o.unnormalized && (o.choices > 1 || o.normalize_single)) {
    TensorId sum = b.op("reduce_sum", {w}, {{"axes.0", -1}, {"keepdims", 1}}, name + ".chosen");
    if (o.sigmoid)  // their sum can be 0
      sum = b.op("add", {sum, b.scalar(name + ".chosen.least", 1e-20, layers.dtype)}, {}, name + ".chosen.not_0");
    w = b.op("div", {w, sum}, {}, name + ".weights");
  }
  if (o.scale != 1) w = b.op("mul", {w, b.scalar(name + ".scale", o.scale, layers.dtype)}, {}, name + ".scaled");
  return {top[1], w};
}

// x [groups, experts, places, k] by each expert's weights NAME.experts.PART, [n, k] or, for fused ones, [k, n].
TensorId product(Layers& layers, TensorId x, const std::string& name, const std::string& part, int64_t outputs,
                 const Experts& o) {
  GraphBuilder& b = layers.b;
  const int64_t inputs = b.shape(x).back();
  const std::string own = fmt::format("{}.experts.{}", name, part);
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  const Shape shape = o.fused ? Shape{o.count, inputs, outputs} : Shape{o.count, outputs, inputs};
  TensorId y = b.op(o.fused ? "matmul" : "matmul_nt", {x, layers.parameter(own, shape, bound)}, {}, own + ".product");
  if (!o.bias) return y;
  const TensorId bias =
      b.op("unsqueeze", {layers.parameter(own + "_bias", {o.count, outputs}, bound)}, {{"axes.0", 1}}, own + ".bias");
  return b.op("add", {y, bias}, {}, own + ".biased");
}

// gate and up of their common product [.., 2 inner].
std::pair<TensorId, TensorId> gate_and_up(GraphBuilder& b, TensorId both, const std::string& name, const Experts& o) {
  const auto inner = static_cast<double>(o.inner);
  if (o.interleaved)
    return {b.op("every", {both}, {{"step", 2}}, name + ".gate"),
            b.op("every", {both}, {{"start", 1}, {"step", 2}}, name + ".up")};
  const auto parts = b.ops("split", {both}, {{"axis", 3}, {"sizes.0", inner}, {"sizes.1", inner}}, name + ".split");
  return {parts[0], parts[1]};
}

// (up + 1) gate sigmoid(alpha gate), both within their limits.
TensorId limited(Layers& layers, TensorId gate, TensorId up, const std::string& name, const Experts& o) {
  GraphBuilder& b = layers.b;
  gate = b.op("clip", {gate}, {{"hi", o.limit}}, name + ".gate.limited");
  up = b.op("clip", {up}, {{"lo", -o.limit}, {"hi", o.limit}}, name + ".up.limited");
  const TensorId alpha = b.scalar(name + ".alpha", o.alpha, layers.dtype),
                 one = b.scalar(name + ".one", 1, layers.dtype);
  const TensorId sharp = b.op("sigmoid", {b.op("mul", {gate, alpha}, {}, name + ".gate.sharp")}, {}, name + ".sigmoid");
  const TensorId glu = b.op("mul", {gate, sharp}, {}, name + ".glu");
  return b.op("mul", {b.op("add", {up, one}, {}, name + ".up.more"), glu}, {}, name + ".gated");
}

// The experts' results for the tokens sent to them.
TensorId inside(Layers& layers, TensorId sent, const std::string& name, const Experts& o) {
  GraphBuilder& b = layers.b;
  const int64_t hidden = b.shape(sent).back();
  const std::string own = name + ".experts";
  auto activated = [&](TensorId x) { return b.op(o.activation, {x}, {}, own + ".activation"); };
  TensorId y;
  if (o.fused) {
    const auto [gate, up] = gate_and_up(b, product(layers, sent, name, "gate_up_proj", 2 * o.inner, o), own, o);
    y = o.limit > 0 ? limited(layers, gate, up, own, o) : b.op("mul", {activated(gate), up}, {}, own + ".gated");
  } else if (o.gated) {
    const TensorId gate = activated(product(layers, sent, name, "gate_proj", o.inner, o));
    y = b.op("mul", {gate, product(layers, sent, name, "up_proj", o.inner, o)}, {}, own + ".gated");
  } else {
    y = activated(product(layers, sent, name, "up_proj", o.inner, o));
  }
  return product(layers, y, name, "down_proj", hidden, o);
}

// The sent tokens, times the score of each token's only choice.
TensorId scored(GraphBuilder& b, TensorId sent, TensorId w, TensorId ix, TensorId place, const std::string& name,
                const Experts& o) {
  const tdl::Attributes attributes = b.graph().op(b.graph().tensor(sent).producer).attributes;
  ensure(o.choices == 1, "'{}': inputs by scores of {} choices", name, o.choices);
  const TensorId scores = b.op("expert_dispatch", {w, ix, place}, attributes, name + ".dispatch.scores");
  return b.op("mul", {sent, scores}, {}, name + ".scored");
}

// 1 for each choice.
TensorId ones_like(GraphBuilder& b, TensorId ix, const std::string& name, DType dtype) {
  return b.op("cast", {b.op("equal", {ix, ix}, {}, name + ".itself")}, {{"to", static_cast<double>(dtype)}},
              name + ".ones");
}

}  // namespace

ExpertsResult experts(Layers& layers, TensorId x, const std::string& name, const Experts& o) {
  GraphBuilder& b = layers.b;
  const Shape shape = b.shape(x);
  const int64_t all = shape.at(0) * shape.at(1), hidden = shape.at(2);
  if (all % o.groups) fail("'{}': {} x {} tokens are not {} equal groups", name, shape[0], shape[1], o.groups);
  if (o.choices > o.count) fail("'{}': {} choices among {} experts", name, o.choices, o.count);
  const int64_t tokens = all / o.groups;
  const Shape grouped{o.groups, tokens, hidden};
  const bool as_it_is = grouped == shape;
  if (!as_it_is) x = b.op("reshape", {x}, list_attributes("shape", grouped), name + ".groups");

  const TensorId logits = layers.linear(x, name + ".gate", o.count, o.router_bias);
  const TensorId p = o.sigmoid ? b.op("sigmoid", {logits}, {}, name + ".scores")
                               : b.op("softmax", {logits}, {{"axis", -1}}, name + ".probabilities");
  auto [ix, w] = chosen(layers, p, name, o);
  const TensorId place = b.op("expert_place", {ix}, {}, name + ".place");
  const TensorId balance = b.op("load_balance", {p, ix}, {}, name + ".balance");

  const TensorId sent = b.op("expert_dispatch", {x, ix, place},
                             {{"experts", static_cast<double>(o.count)},
                              {"capacity", static_cast<double>(capacity(o, tokens))},
                              {"dropless", o.capacity == 0 ? 1.0 : 0.0}},
                             name + ".dispatch");
  TensorId y = inside(layers, o.scored_inputs ? scored(b, sent, w, ix, place, name, o) : sent, name, o);
  if (o.scored_inputs) w = ones_like(b, ix, name, layers.dtype);
  y = b.op("expert_combine", {y, ix, place, w}, {}, name + ".combine");
  if (!as_it_is) y = b.op("reshape", {y}, list_attributes("shape", shape), name);
  return {y, balance, p, ix};
}

}  // namespace partita

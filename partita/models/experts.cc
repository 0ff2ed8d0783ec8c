// A layer of experts: routing, dispatch and combination.
#include "partita/models/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"

namespace partita {
namespace {

// Places that each expert has for a group of so many tokens.
int64_t capacity(const Experts& o, int64_t tokens) {
  if (o.capacity == 0) return tokens;
  const double share = static_cast<double>(o.choices * tokens) / static_cast<double>(o.count);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(o.capacity * share)), 1, tokens);
}

// Scores [groups, tokens, experts], with those of experts in parts that are not chosen replaced (DeepSeek-V2,
// section 2.2.2).
TensorId within_parts(GraphBuilder& b, TensorId p, const std::string& name, const Experts& o, double otherwise) {
  const Shape all = b.shape(p);
  const DType dtype = b.graph().tensor(p).dtype;
  const TensorId parted =
      b.op("reshape", {p}, listed("shape", {all[0], all[1], o.parts, o.count / o.parts}), name + ".parts");
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
  return b.op("reshape", {kept}, listed("shape", all), name + ".parts.scores");
}

// The numbers of each token's experts, and what each of them counts.
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
  if (!o.as_they_are && (o.choices > 1 || o.one_is_all)) {
    TensorId sum = b.op("reduce_sum", {w}, {{"axes.0", -1}, {"keepdims", 1}}, name + ".chosen");
    if (o.sigmoid)  // which can all be 0
      sum = b.op("add", {sum, b.scalar(name + ".chosen.least", 1e-20, layers.dtype)}, {}, name + ".chosen.not_0");
    w = b.op("div", {w, sum}, {}, name + ".weights");
  }
  if (o.scale != 1) w = b.op("mul", {w, b.scalar(name + ".scale", o.scale, layers.dtype)}, {}, name + ".scaled");
  return {top[1], w};
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
  if (!as_it_is) x = b.op("reshape", {x}, listed("shape", grouped), name + ".groups");

  const TensorId logits = layers.linear(x, name + ".gate", o.count, false);
  const TensorId p = o.sigmoid ? b.op("sigmoid", {logits}, {}, name + ".scores")
                               : b.op("softmax", {logits}, {{"axis", -1}}, name + ".probabilities");
  const auto [ix, w] = chosen(layers, p, name, o);
  const TensorId place = b.op("expert_place", {ix}, {}, name + ".place");
  const TensorId balance = b.op("load_balance", {p, ix}, {}, name + ".balance");

  const TensorId sent =
      b.op("expert_dispatch", {x, ix, place},
           {{"experts", static_cast<double>(o.count)}, {"capacity", static_cast<double>(capacity(o, tokens))}},
           name + ".dispatch");
  // [groups, experts, capacity, k] by each expert's [n, k]
  auto product = [&](TensorId y, const std::string& part, int64_t outputs) {
    const int64_t inputs = b.shape(y).back();
    const TensorId weight = layers.parameter(fmt::format("{}.experts.{}", name, part), {o.count, outputs, inputs},
                                             1 / std::sqrt(static_cast<double>(inputs)));
    return b.op("matmul_nt", {y, weight}, {}, fmt::format("{}.experts.{}.product", name, part));
  };
  TensorId y;
  if (o.gated) {
    const TensorId gate = b.op(o.activation, {product(sent, "gate_proj", o.inner)}, {}, name + ".experts.activation");
    y = b.op("mul", {gate, product(sent, "up_proj", o.inner)}, {}, name + ".experts.gated");
  } else {
    y = b.op(o.activation, {product(sent, "up_proj", o.inner)}, {}, name + ".experts.activation");
  }
  y = product(y, "down_proj", hidden);
  y = b.op("expert_combine", {y, ix, place, w}, {}, name + ".combine");
  if (!as_it_is) y = b.op("reshape", {y}, listed("shape", shape), name);
  return {y, balance, p, ix};
}

}  // namespace partita

#include "partita/models/experts.h"

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"

namespace partita {
namespace {

tdl::Attributes shaped(const Shape& shape) {
  tdl::Attributes attributes;
  for (size_t a = 0; a < shape.size(); ++a) attributes[fmt::format("shape.{}", a)] = static_cast<double>(shape[a]);
  return attributes;
}

// Places that each expert has for a group of so many tokens.
int64_t capacity(const Experts& o, int64_t tokens) {
  if (o.capacity == 0) return tokens;
  const double share = static_cast<double>(o.choices * tokens) / static_cast<double>(o.count);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(o.capacity * share)), 1, tokens);
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
  if (!as_it_is) x = b.op("reshape", {x}, shaped(grouped), name + ".groups");

  const TensorId logits = layers.linear(x, name + ".gate", o.count, false);
  const TensorId p = b.op("softmax", {logits}, {{"axis", -1}}, name + ".probabilities");
  const std::vector<TensorId> top = b.ops("top_k", {p}, {{"k", static_cast<double>(o.choices)}}, name + ".choice");
  const TensorId ix = top[1];
  TensorId w = top[0];
  if (o.choices > 1 || o.one_is_all) {
    const TensorId sum = b.op("reduce_sum", {w}, {{"axes.0", -1}, {"keepdims", 1}}, name + ".chosen");
    w = b.op("div", {w, sum}, {}, name + ".weights");
  }
  const TensorId place = b.op("expert_place", {ix}, {}, name + ".place");
  const TensorId balance = b.op("load_balance", {p, ix}, {}, name + ".balance");

  const TensorId sent =
      b.op("expert_dispatch", {x, ix, place},
           {{"experts", static_cast<double>(o.count)}, {"capacity", static_cast<double>(capacity(o, tokens))}}, name + ".dispatch");
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
  if (!as_it_is) y = b.op("reshape", {y}, shaped(shape), name);
  return {y, balance, p, ix};
}

}  // namespace partita

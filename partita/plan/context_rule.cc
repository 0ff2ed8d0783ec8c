// Finds the queries of attention, from which the split along the sequence grows.
#include "partita/plan/context_rule.h"

#include <algorithm>
#include <optional>

#include "partita/graph/attention_cores.h"
#include "partita/graph/model_flops.h"
#include "partita/tdl/products.h"

namespace partita {

namespace {

// Indices of one factor of a product alone.
std::vector<int> of_one_factor(const tdl::MatrixProduct& product) {
  std::vector<int> indices = product.m;
  indices.insert(indices.end(), product.n.begin(), product.n.end());
  return indices;
}

bool contains(const std::vector<int>& indices, int index) { return std::ranges::find(indices, index) != indices.end(); }

// Returns the axis of the operand that the split along one index alone cuts, and the operand; -1: there is none.
std::pair<int, int> cut_axis(const std::vector<AxisOption>& options, const std::string& index) {
  for (const AxisOption& option : options)
    for (size_t k = 0; option.strategy.names == std::vector{index} && k < option.operands.size(); ++k)
      if (option.operands[k].kind == AxisLayout::Kind::kSplit) return {option.operands[k].axis, static_cast<int>(k)};
  return {-1, -1};
}

// Returns the queries of attention in one op. Its products have their index i and do not sum over it. They lie along
// the same axis as the keys j, over which a later product sums: q[n, h, i, e] and k[n, h, j, e].
std::optional<Queries> queries_of_fused(const Op& op, const std::vector<AxisOption>& options) {
  const tdl::Bound& bound = *op.bound;
  const auto products = tdl::matrix_products(bound, 0, static_cast<int>(bound.stages.size()));
  if (products.size() < 2) return std::nullopt;
  const std::vector<int> ends = of_one_factor(products[0]);
  const auto is_query = [&](int index) {
    return std::ranges::all_of(products, [&](const auto& p) { return contains(of_one_factor(p), index); });
  };
  for (const int j : ends) {
    if (is_query(j) || !std::ranges::any_of(products, [&](const auto& p) { return contains(p.k, j); })) continue;
    const int keys = cut_axis(options, bound.indices[static_cast<size_t>(j)].name).first;
    for (const int i : ends) {
      const tdl::Index& index = bound.indices[static_cast<size_t>(i)];
      const auto [axis, operand] = cut_axis(options, index.name);
      if (is_query(i) && axis >= 0 && axis == keys)
        return Queries{
            op.name, op.operands[static_cast<size_t>(operand)], {AxisLayout::Kind::kSplit, axis, 1}, index.extent};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Queries> queries_of(const Graph& graph) {
  const std::vector<char> cores = attention_cores(graph);
  AxisOptions options(graph, 2);
  std::vector<Queries> all;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (!cores[i] || op.phase != Phase::kForward) continue;
    if (auto fused = queries_of_fused(op, options.of(OpId(i)))) all.push_back(std::move(*fused));
    const Shape& scores = graph.tensor(op.operands[0]).shape;
    if (op.definition != "softmax" || scores.size() < 2) continue;
    const int axis = static_cast<int>(scores.size()) - 2;
    all.push_back({op.name, op.operands[0], {AxisLayout::Kind::kSplit, axis, 1}, scores[static_cast<size_t>(axis)]});
  }
  return all;
}

SequenceSplit context_split(const Graph& graph, int degree) {
  SequenceSplit split(graph, degree, {.left = [](OpId) { return false; }, .reads_ahead = true, .nearest_first = true});
  std::vector<SequenceSplit::Seed> seeds;
  for (const Queries& queries : queries_of(graph)) seeds.push_back({queries.tensor, queries.part});
  split.grow(seeds);
  split.grow_from_sums();
  return split;
}

OpId whole_product(const Graph& graph, const SequenceSplit& split) {
  const std::vector<char> cores = attention_cores(graph);
  double all = 0, left = 0;
  OpId first, of_attention;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const double flops = op.phase == Phase::kForward ? product_flops(*op.bound) : 0;
    all += flops;
    if (flops == 0 || split.chosen(OpId(i))) continue;
    left += flops;
    if (!first.valid()) first = OpId(i);
    if (cores[i] && !of_attention.valid()) of_attention = OpId(i);
  }
  if (of_attention.valid()) return of_attention;
  return 2 * left > all ? first : OpId();
}

}  // namespace partita

// Finds the weights of a graph, and the products of activations and weights.
#include "partita/graph/weight_products.h"

#include <algorithm>

#include "partita/graph/autodiff.h"

namespace partita {

std::vector<bool> weight_tensor_mask(const Graph& graph) {
  std::vector<bool> weight(graph.tensors.size(), false);
  for (size_t t = 0; t < weight.size(); ++t) weight[t] = graph.tensors[t].role == Role::kParameter;
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kForward) continue;
    bool any = false, all = true;
    for (TensorId t : op.operands)
      any |= weight[t.index()], all &= weight[t.index()] || graph.tensor(t).role == Role::kConstant;
    for (TensorId t : op.results) weight[t.index()] = any && all;
  }
  return weight;
}

std::vector<bool> weights_of_micro_batches(const Graph& graph) {
  std::vector<bool> read(graph.tensors.size(), false);
  if (graph.micro_batches() == 1) return read;
  std::vector<bool> weight = weight_tensor_mask(graph);
  for (const Op& op : graph.ops) {
    if (is_clone(graph, op) && std::all_of(op.operands.begin(), op.operands.end(), [&](TensorId t) {
          return weight[t.index()] || graph.tensor(t).role == Role::kConstant;
        }))
      for (TensorId t : op.results) weight[t.index()] = true;
    for (TensorId t : op.operands) read[t.index()] = read[t.index()] || (weight[t.index()] && op.per_micro_batch);
  }
  return read;
}

std::optional<WeightProduct> weight_product(const Graph& graph, const std::vector<bool>& weights, const Op& op) {
  const tdl::Bound& bound = *op.bound;
  const std::vector<int> result = result_indices(bound, 0);
  auto in_result = [&](int index) { return std::find(result.begin(), result.end(), index) != result.end(); };
  std::set<int> activation_indices;
  bool windows = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (weights[op.operands[k].index()] || !is_float(graph.tensor(op.operands[k]).dtype)) continue;
    for (const std::set<int>& axis : plain_reads(bound, static_cast<int>(k))) {
      activation_indices.insert(axis.begin(), axis.end());
      windows |= axis.empty();
    }
  }
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (!weights[op.operands[k].index()]) continue;
    WeightProduct product{static_cast<int>(k), {}, windows};
    bool contracted = false;
    for (const std::set<int>& axis : plain_reads(bound, static_cast<int>(k)))
      for (int i : axis) {
        contracted |= activation_indices.contains(i) && !in_result(i);
        if (in_result(i) && !activation_indices.contains(i)) product.outputs.push_back(i);
      }
    if (contracted) return product;
  }
  return std::nullopt;
}

std::vector<std::set<int>> plain_reads(const tdl::Bound& bound, int tensor) {
  std::vector<std::set<int>> names(bound.tensors[tensor].factored.size());
  for (const tdl::Stage& stage : bound.stages)
    tdl::for_each_read(stage.body, [&](const tdl::Expr& read) {
      if (read.tensor != tensor) return;
      for (size_t a = 0; a < read.subscripts.size() && a < names.size(); ++a) {
        int index = read.subscripts[a].plain_index();
        if (index >= 0) names[a].insert(index);
      }
    });
  return names;
}

std::vector<int> result_indices(const tdl::Bound& bound, int result) {
  std::vector<int> indices;
  for (const tdl::Affine& lhs : bound.stages[bound.stage_of(bound.results[result])].lhs)
    indices.push_back(lhs.plain_index());
  return indices;
}

}  // namespace partita

// Finds the products of experts, and the ops between them.
#include "partita/plan/expert_rule.h"

#include <algorithm>

#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// The index of an op that its weight, an activation and its result share, in a product; -1: there is none.
int expert_index(const Graph& graph, const std::vector<bool>& weight, const Op& op) {
  if (op.phase != Phase::kForward || weight[op.results[0].index()]) return -1;
  const auto product = weight_product(graph, weight, op);
  if (!product || product->windows) return -1;
  const std::vector<int> written = result_indices(*op.bound, 0);
  std::set<int> read;  // by activations
  for (size_t k = 0; k < op.operands.size(); ++k)
    if (!weight[op.operands[k].index()] && is_float(graph.tensor(op.operands[k]).dtype))
      for (const std::set<int>& axis : plain_reads(*op.bound, static_cast<int>(k)))
        read.insert(axis.begin(), axis.end());
  for (const std::set<int>& axis : plain_reads(*op.bound, product->weight))
    for (const int index : axis)
      if (read.contains(index) && std::find(written.begin(), written.end(), index) != written.end()) return index;
  return -1;
}

}  // namespace

int64_t experts_of(const Graph& graph) {
  const std::vector<bool> weight = weight_tensor_mask(graph);
  for (const Op& op : graph.ops)
    if (const int index = expert_index(graph, weight, op); index >= 0)
      return op.bound->indices[static_cast<size_t>(index)].extent;
  return 0;
}

ExpertRule::ExpertRule(const Graph& graph, int degree)
    : graph_(graph),
      options_(graph, degree),
      weight_(weight_tensor_mask(graph)),
      read_by_(readers_by_tensor(graph)),
      chosen_(graph.ops.size()),
      part_(graph.tensors.size()) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const int index = expert_index(graph, weight_, op);
    if (index < 0) continue;
    const tdl::Index& experts = op.bound->indices[static_cast<size_t>(index)];
    if (experts_ == 0) experts_ = experts.extent;
    for (const AxisOption& option : options_.of(OpId(i))) {
      if (option.inner || option.strategy.names != std::vector{experts.name}) continue;
      chosen_[i] = &option;
      for (size_t k = 0; k < op.operands.size(); ++k)
        if (weight_[op.operands[k].index()] && option.operands[k].kind == AxisLayout::Kind::kSplit)
          take_weight(op.operands[k], option.operands[k]);
      follow(op.results[0], option.results[0]);
      break;
    }
  }
}

void ExpertRule::take_weight(TensorId t, const AxisLayout& part) {
  part_[t.index()] = part;
  const OpId producer = graph_.tensor(t).producer;
  if (!producer.valid() || chosen_[producer.index()]) return;
  const Op& op = graph_.op(producer);
  for (const AxisOption& option : options_.of(producer)) {
    if (option.inner || !fits(op.results, option.results, t, part)) continue;
    chosen_[producer.index()] = &option;
    for (size_t k = 0; k < op.operands.size(); ++k)
      if (option.operands[k].kind == AxisLayout::Kind::kSplit) take_weight(op.operands[k], option.operands[k]);
    return;
  }
}

// Splits the ops that read the experts' results and keep them apart.
void ExpertRule::follow(TensorId t, const AxisLayout& part) {
  if (part.kind != AxisLayout::Kind::kSplit) return;
  for (const Reader& reader : read_by_[t.index()]) {
    const Op& op = graph_.op(reader.op);
    if (op.phase != Phase::kForward || chosen_[reader.op.index()] || expert_index(graph_, weight_, op) >= 0) continue;
    for (const AxisOption& option : options_.of(reader.op)) {
      const bool apart =
          !option.inner && fits(op.operands, option.operands, t, part) &&
          std::ranges::all_of(option.results, [](const AxisLayout& p) { return p.kind == AxisLayout::Kind::kSplit; });
      if (!apart) continue;
      chosen_[reader.op.index()] = &option;
      for (size_t k = 0; k < op.operands.size(); ++k)  // a bias of each expert
        if (weight_[op.operands[k].index()] && option.operands[k].kind == AxisLayout::Kind::kSplit)
          take_weight(op.operands[k], option.operands[k]);
      for (size_t r = 0; r < op.results.size(); ++r) follow(op.results[r], option.results[r]);
      break;
    }
  }
}

}  // namespace partita

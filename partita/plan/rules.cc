// Makes plans by the rules single, data-parallel and model-parallel.
#include "partita/plan/rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

namespace {

// Position of a stored axis's first factored axis.
size_t first_factored_axis(const tdl::BoundTensor& tensor, int axis) {
  size_t at = 0;
  for (int a = 0; a < axis; ++a) at += tensor.radices[a].size();
  return at;
}

// Splits before partial before replication, each in the formula's order.
std::vector<tdl::AxisStrategy> splits_first(std::vector<tdl::AxisStrategy> strategies) {
  std::stable_sort(strategies.begin(), strategies.end(), [](const auto& a, const auto& b) {
    auto rank = [](const tdl::AxisStrategy& s) { return !s.names.empty() ? 0 : s.replicate() ? 2 : 1; };
    return rank(a) < rank(b);
  });
  return strategies;
}

// The split of an op with a parameter by model parallelism: the index, and the axis along which its result is kept.
struct ParameterSplit {
  std::string index;
  int result_axis = -1;
};
std::optional<ParameterSplit> parameter_split(const Graph& graph, const Op& op, int p) {
  int parameter = -1;  // the largest
  for (size_t k = 0; k < op.operands.size(); ++k) {
    const Tensor& t = graph.tensor(op.operands[k]);
    if (t.role == Role::kParameter && (parameter < 0 || t.bytes() > graph.tensor(op.operands[parameter]).bytes()))
      parameter = k;
  }
  if (parameter < 0) return std::nullopt;
  const tdl::Bound& bound = *op.bound;
  std::vector<int> result = result_indices(bound, 0);
  auto in_result = [&](int index) { return std::find(result.begin(), result.end(), index) != result.end(); };
  auto names = plain_reads(bound, parameter);
  int contracted = -1, output = -1;
  for (const std::set<int>& axis : names)
    for (int i : axis) {
      if (!bound.indices[i].splittable || bound.indices[i].extent < p) continue;
      int& slot = in_result(i) ? output : contracted;
      if (slot < 0 || bound.indices[i].extent > bound.indices[slot].extent) slot = i;
    }
  int chosen = contracted >= 0 ? contracted : output;
  if (chosen < 0) return std::nullopt;
  ParameterSplit split{bound.indices[chosen].name, -1};
  const tdl::BoundTensor& tensor = bound.tensors[bound.results[0]];
  for (size_t axis = 0; output >= 0 && axis < tensor.radices.size(); ++axis)
    if (tensor.radices[axis].size() == 1 && result[first_factored_axis(tensor, static_cast<int>(axis))] == output)
      split.result_axis = static_cast<int>(axis);
  return split;
}

}  // namespace

std::vector<std::string> sample_indices(const Graph& graph, const Op& op) {
  const tdl::Bound& bound = *op.bound;
  // For each factor of a tensor's sample axis, the first splittable index.
  auto along = [&](const tdl::BoundTensor& tensor, int axis, auto indices_of) {
    std::vector<std::string> names;
    const size_t first = first_factored_axis(tensor, axis);
    for (size_t f = first; f < first + tensor.radices[axis].size(); ++f)
      for (int index : indices_of(f))
        if (index >= 0 && bound.indices[index].splittable) {
          names.push_back(bound.indices[index].name);
          break;
        }
    return names;
  };
  for (size_t k = 0; k < op.operands.size(); ++k) {
    int axis = graph.tensor(op.operands[k]).sample_axis;
    if (axis < 0) continue;
    auto read = plain_reads(bound, static_cast<int>(k));
    if (auto names = along(bound.tensors[k], axis, [&](size_t f) { return read[f]; }); !names.empty()) return names;
  }
  for (size_t r = 0; r < op.results.size(); ++r) {
    int axis = graph.tensor(op.results[r]).sample_axis;
    if (axis < 0) continue;
    const std::vector<int> written = result_indices(bound, static_cast<int>(r));
    if (auto names = along(bound.tensors[bound.results[r]], axis, [&](size_t f) { return std::set{written[f]}; });
        !names.empty())
      return names;
  }
  return {};
}

bool has_values_for(const tdl::Bound& bound, const std::vector<int>& extents,
                    const std::vector<tdl::AxisStrategy>& strategies) {
  std::map<std::string, int64_t> shards;
  for (size_t a = 0; a < strategies.size(); ++a)
    for (const std::string& name : strategies[a].names) {
      int64_t& count = shards.try_emplace(name, 1).first->second;
      count *= extents[a];
      if (count > bound.indices[bound.find_index(name)].extent) return false;
    }
  return true;
}

std::vector<tdl::AxisStrategy> allowed_strategies(const Op& op, int p) {
  std::vector<tdl::AxisStrategy> out;
  for (const tdl::AxisStrategy& s : tdl::strategies(*op.bound, p)) {
    bool fits = true;
    for (const std::string& name : s.names) fits &= op.bound->indices[op.bound->find_index(name)].extent >= p;
    if (fits) out.push_back(s);
  }
  return out;
}

Plan single_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints, const Watch& watch) {
  RulePlanner planner(graph, cluster, constraints, Mesh{{}, {slowest_link_first(cluster)[0]}}, watch);
  for (size_t i = 0; i < graph.ops.size(); ++i) planner.choose(OpId(i), {});
  return planner.finish("single");
}

Plan data_parallel_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints,
                        const Watch& watch) {
  require_samples("data-parallel", graph, cluster.compute_count);
  return filled_in_plan(graph, cluster, constraints, watch);
}

Plan filled_in_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints, const Watch& watch) {
  RulePlanner planner(graph, cluster, constraints, all_devices(cluster), watch);
  const int p = planner.mesh().positions();
  const LateSums late(graph);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    const std::vector<tdl::AxisStrategy> all = allowed_strategies(op, p);
    std::vector<tdl::AxisStrategy> candidates = sample_strategies(graph, op, all);
    if (candidates.empty()) {
      candidates = late.strategies(OpId(i), all);
      candidates.insert(candidates.begin(), kReplicate);
    }
    planner.choose(OpId(i), {candidates});
  }
  return planner.finish("data-parallel");
}

Plan model_parallel_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints,
                         const Watch& watch) {
  RulePlanner planner(graph, cluster, constraints, all_devices(cluster), watch);
  int p = planner.mesh().positions();
  std::vector<std::optional<ParameterSplit>> split(graph.ops.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    std::vector<tdl::AxisStrategy> all = allowed_strategies(op, p), candidates;
    if (op.phase == Phase::kForward) split[i] = parameter_split(graph, op, p);
    const std::optional<ParameterSplit>& rule = op.forward.valid() ? split[op.forward.index()] : split[i];
    if (rule) candidates = with_name(all, rule->index);
    bool has_parameter = op.phase == Phase::kForward &&
                         std::any_of(op.operands.begin(), op.operands.end(),
                                     [&](TensorId t) { return graph.tensor(t).role == Role::kParameter; });
    if (candidates.empty()) candidates = has_parameter ? std::vector{kReplicate} : splits_first(all);
    planner.choose(OpId(i), {candidates});
    if (split[i] && !constraints.choice_of(OpId(i))) planner.keep_partial_result(op.results[0], split[i]->result_axis);
  }
  return planner.finish("model-parallel");
}

}  // namespace partita

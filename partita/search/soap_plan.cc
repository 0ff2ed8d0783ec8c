// Makes a plan of one configuration for each unit.
#include "partita/search/soap_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "partita/base/error.h"
#include "partita/plan/rule_planner.h"
#include "partita/search/coarsen.h"

namespace partita {

SoapSet soap_set(const Graph& graph, const SoapUnit& unit, const std::vector<DeviceId>& devices,
                 const SoapDimensions& dimensions) {
  std::vector<bool> open;
  for (const SoapDimension d : unit.dimensions) open.push_back(dimensions.contains(d));
  return soap_set(*graph.op(unit.leader).bound, unit.indices, open, devices, dimensions.operation);
}

namespace {

// Strategies of ops on the mesh of their unit.
class Strategies {
 public:
  explicit Strategies(const Graph& graph) : graph_(graph), gradient_(gradient_of(graph)) {}

  // `indices`: by mesh axis the index that the op splits there; -1: none. What does not exist, or has too few values,
  // is left out, the last axis first.
  std::vector<tdl::AxisStrategy> of(OpId id, const std::vector<int>& mesh, std::vector<int> indices) {
    const Op& op = graph_.op(id);
    const bool sum = is_sum_of_gradients(op);
    const auto [known, fresh] = known_.try_emplace({op.bound.get(), mesh, indices, sum});
    for (size_t left = mesh.size(); fresh; --left) {
      std::vector<tdl::AxisStrategy>& axes = known->second;
      axes.clear();
      for (size_t a = 0; a < mesh.size(); ++a) axes.push_back(strategy(op, mesh[a], a < left ? indices[a] : -1, sum));
      if (has_values_for(*op.bound, mesh, axes) && tdl::derive(*op.bound, mesh, axes)) break;
      ensure(left > 0, "op '{}' cannot be replicated", op.name);
    }
    return known->second;
  }

 private:
  // Adds up contributions to one gradient.
  bool is_sum_of_gradients(const Op& op) const {
    if (op.phase != Phase::kBackward || op.results.size() != 1 || op.operands.size() < 2) return false;
    const TensorId of = gradient_[op.results[0].index()];
    return of.valid() && std::ranges::all_of(op.operands, [&](TensorId t) { return gradient_[t.index()] == of; });
  }

  tdl::AxisStrategy strategy(const Op& op, int p, int index, bool sum) {
    if (index < 0) {
      tdl::AxisStrategy none;
      for (size_t k = 0; sum && k < op.operands.size(); ++k) none.partial.push_back(op.bound->tensors[k].name);
      return none;
    }
    const auto [known, fresh] = allowed_.try_emplace({op.bound.get(), p});
    if (fresh) known->second = allowed_strategies(op, p);
    const auto split = with_name(known->second, op.bound->indices[static_cast<size_t>(index)].name);
    return split.empty() ? strategy(op, p, -1, sum) : split[0];
  }

  const Graph& graph_;
  std::vector<TensorId> gradient_;
  std::map<std::pair<const tdl::Bound*, int>, std::vector<tdl::AxisStrategy>> allowed_;
  std::map<std::tuple<const tdl::Bound*, std::vector<int>, std::vector<int>, bool>, std::vector<tdl::AxisStrategy>>
      known_;
};

}  // namespace

Plan soap_plan(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
               const std::vector<SoapConfiguration>& configurations, std::string_view search) {
  ensure(units.size() == configurations.size(), "{} configurations for {} units", configurations.size(), units.size());
  Strategies strategies(graph);
  std::vector<OpChoice> choices(graph.ops.size());
  for (size_t u = 0; u < units.size(); ++u) {
    const SoapConfiguration& c = configurations[u];
    ensure(c.degrees.size() == units[u].indices.size(), "{} degrees for {} indices of unit {}", c.degrees.size(),
           units[u].indices.size(), u);
    Mesh mesh{{}, c.devices};
    std::vector<size_t> split;
    for (size_t d = 0; d < c.degrees.size(); ++d)
      if (c.degrees[d] > 1) mesh.extents.push_back(c.degrees[d]), split.push_back(d);
    for (size_t i = 0; i < units[u].ops.size(); ++i) {
      std::vector<int> indices;
      for (const size_t d : split) indices.push_back(units[u].follows[i][d]);
      choices[units[u].ops[i].index()] = {mesh, strategies.of(units[u].ops[i], mesh.extents, indices)};
    }
  }
  const Pins pins;
  RulePlanner planner(graph, cluster, pins, Mesh{{}, {DeviceId(0)}});
  for (size_t i = 0; i < choices.size(); ++i) planner.place(OpId(i), choices[i]);
  return planner.finish(search);
}

}  // namespace partita

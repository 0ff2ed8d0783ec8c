// Makes a plan of one configuration for each unit.
#include "partita/search/soap/soap_plan.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/graph/gradients.h"
#include "partita/plan/rule_planner.h"

namespace partita {

SoapSet soap_set(const Graph& graph, const SoapUnit& unit, const std::vector<DeviceId>& devices,
                 const AllowedSoapDimensions& dimensions) {
  std::vector<bool> open;
  for (const SoapDimension d : unit.dimensions) open.push_back(dimensions.contains(d));
  return soap_set(*graph.op(unit.leader).bound, unit.indices, open, devices, dimensions.operation, unit.extents);
}

UnitChoices::UnitChoices(const Graph& graph, DerivationCache* derivations)
    : graph_(graph), derivations_(derivations ? *derivations : own_derivations_), gradient_(gradient_of(graph)) {}

// Leaves out strategies that do not exist, or with too few values, the last axis first.
const std::vector<tdl::AxisStrategy>& UnitChoices::strategies(OpId id, const std::vector<int>& mesh,
                                                              const std::vector<int>& indices) {
  const Op& op = graph_.op(id);
  const bool sum = is_sum_of_gradients(op);
  const auto [known, fresh] = known_.try_emplace({op.bound.get(), mesh, indices, sum});
  for (size_t left = mesh.size(); fresh; --left) {
    std::vector<tdl::AxisStrategy>& axes = known->second;
    axes.clear();
    for (size_t a = 0; a < mesh.size(); ++a) axes.push_back(strategy(op, mesh[a], a < left ? indices[a] : -1, sum));
    if (has_values_for(*op.bound, mesh, axes) && derivations_.get(op.bound, mesh, axes)) break;
    ensure(left > 0, "op '{}' cannot be replicated", op.name);
  }
  return known->second;
}

// Tells whether the op adds up contributions to one gradient.
bool UnitChoices::is_sum_of_gradients(const Op& op) const {
  if (op.phase != Phase::kBackward || op.results.size() != 1 || op.operands.size() < 2) return false;
  const TensorId of = gradient_[op.results[0].index()];
  return of.valid() && std::ranges::all_of(op.operands, [&](TensorId t) { return gradient_[t.index()] == of; });
}

tdl::AxisStrategy UnitChoices::strategy(const Op& op, int p, int index, bool sum) {
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

std::vector<OpChoice> UnitChoices::of(const SoapUnit& unit, const SoapConfiguration& c) {
  ensure(c.degrees.size() == unit.indices.size(), "{} degrees for {} indices of '{}'", c.degrees.size(),
         unit.indices.size(), graph_.op(unit.leader).name);
  Mesh mesh{{}, c.devices};
  std::vector<size_t> split;
  for (size_t d = 0; d < c.degrees.size(); ++d)
    if (c.degrees[d] > 1) mesh.extents.push_back(c.degrees[d]), split.push_back(d);
  std::vector<OpChoice> choices;
  for (size_t i = 0; i < unit.ops.size(); ++i) {
    std::vector<int> indices;
    for (const size_t d : split) indices.push_back(unit.follows[i][d]);
    choices.push_back({mesh, strategies(unit.ops[i], mesh.extents, indices)});
  }
  return choices;
}

Plan soap_plan(const Graph& graph, const Cluster& cluster, const std::vector<SoapUnit>& units,
               const std::vector<SoapConfiguration>& configurations, std::string_view search,
               const Constraints& constraints, const Watch& watch) {
  ensure(units.size() == configurations.size(), "{} configurations for {} units", configurations.size(), units.size());
  UnitChoices of_units(graph);
  std::vector<OpChoice> choices(graph.ops.size());
  for (size_t u = 0; u < units.size(); ++u) {
    watch.poll("while units were placed");
    std::vector<OpChoice> of_unit = of_units.of(units[u], configurations[u]);
    for (size_t i = 0; i < of_unit.size(); ++i) choices[units[u].ops[i].index()] = std::move(of_unit[i]);
  }
  RulePlanner planner(graph, cluster, constraints, Mesh{{}, {DeviceId(0)}}, watch);
  for (size_t i = 0; i < choices.size(); ++i) planner.place(OpId(i), choices[i]);
  return planner.finish(search);
}

}  // namespace partita

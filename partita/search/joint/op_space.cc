// Lists the values of the ops' variables: strategies on all mesh axes at once, with their layouts and costs.
#include "partita/search/joint/op_space.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "partita/base/error.h"
#include "partita/base/threads.h"
#include "partita/base/tuples.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/resolve.h"
#include "partita/plan/rules.h"
#include "partita/search/joint/conversion_costs.h"

namespace partita {

namespace {

using Choices = std::vector<std::vector<tdl::AxisStrategy>>;

// The inputs of all spaces of a problem, beside the costs; each thread has its own.
struct Making {
  const Graph& graph;
  const Mesh& mesh;
  const CostModel& model;
  const LimitKeeper& keeper;
};

bool is_replicate(const tdl::AxisStrategy& s) { return s.names.empty() && s.partial.empty(); }

// False, and nothing is added, if the strategy does not exist.
bool add_strategy(const Making& making, const Op& op, tdl::Deriver& deriver,
                  const std::vector<tdl::AxisStrategy>& strategies, JointCosts& costs, OpSpace& space) {
  if (strategies.size() != making.mesh.extents.size()) return false;
  const auto derived = deriver.derive(strategies);
  if (!derived) return false;
  space.strategies.push_back(strategies);
  space.layouts.push_back(layouts_of(*op.bound, *derived, making.mesh));
  int64_t cost = costs.inner(*op.bound, *derived, making.mesh, bytes_of(inner_dtype(making.graph, op)));
  if (costs.in_time()) cost += kernels_ns(making.model, making.graph, op, *derived, making.mesh);
  space.costs.push_back(making.graph.firings(op) * cost);
  return true;
}

OpSpace pinned_space(const Making& making, const Op& op, const OpChoice& pin, JointCosts& costs) {
  if (pin.mesh != making.mesh) fail_pinned_mesh("op", op.name, "exact splits over", making.mesh, pin.mesh);
  OpSpace space;
  tdl::Deriver deriver(*op.bound, making.mesh.extents);
  if (!add_strategy(making, op, deriver, pin.strategies, costs, space))
    fail_pin("op '{}': the pinned strategy does not exist", op.name);
  return space;
}

OpSpace given_space(const Making& making, const Op& op, const Choices& given, JointCosts& costs) {
  OpSpace space;
  tdl::Deriver deriver(*op.bound, making.mesh.extents);
  for (const std::vector<tdl::AxisStrategy>& strategies : given) {
    making.keeper.check_time();
    if (has_values_for(*op.bound, making.mesh.extents, strategies))
      add_strategy(making, op, deriver, strategies, costs, space);
  }
  ensure(!space.strategies.empty(), "op '{}': of what it may do nothing exists", op.name);
  return space;
}

// Per mesh axis, the strategies that divide the op's work, and `replicate`; for element-wise ops `partial` too.
Choices offered_on_axes(const Op& op, const std::vector<int>& extents) {
  const bool elementwise = tdl::is_elementwise(*op.bound);
  Choices offered;
  for (int p : extents) {
    offered.emplace_back();
    for (tdl::AxisStrategy& s : allowed_strategies(op, p))
      if (elementwise || !s.names.empty() || s.partial.empty()) offered.back().push_back(std::move(s));
  }
  return offered;
}

using ValueOf = std::map<std::vector<size_t>, size_t>;  // place in `offered`, one an axis -> value

// Tells whether it is replicated on some axis where another strategy divides the work, with the other axes unchanged.
bool is_idle(const std::vector<size_t>& at, const Choices& offered, const ValueOf& value_of) {
  for (size_t a = 0; a < at.size(); ++a) {
    if (!is_replicate(offered[a][at[a]])) continue;
    std::vector<size_t> other = at;
    for (other[a] = 0; other[a] < offered[a].size(); ++other[a])
      if (!offered[a][other[a]].names.empty() && value_of.contains(other)) return true;
  }
  return false;
}

OpSpace full_space(const Making& making, const Op& op, JointCosts& costs) {
  const std::vector<int>& extents = making.mesh.extents;
  const Choices offered = offered_on_axes(op, extents);
  std::vector<size_t> counts;
  for (const auto& on_axis : offered) counts.push_back(on_axis.size());
  OpSpace all;
  tdl::Deriver deriver(*op.bound, extents);
  ValueOf value_of;
  for_each_tuple(counts, [&](const std::vector<size_t>& at) {
    making.keeper.check_time();
    std::vector<tdl::AxisStrategy> strategies;
    for (size_t a = 0; a < at.size(); ++a) strategies.push_back(offered[a][at[a]]);
    if (has_values_for(*op.bound, extents, strategies) && add_strategy(making, op, deriver, strategies, costs, all))
      value_of[at] = all.strategies.size() - 1;
  });
  OpSpace space;
  if (costs.in_time()) {
    space = std::move(all);
  } else {
    for (const auto& [at, value] : value_of) {
      if (is_idle(at, offered, value_of)) continue;
      space.strategies.push_back(all.strategies[value]);
      space.layouts.push_back(all.layouts[value]);
      space.costs.push_back(all.costs[value]);
    }
  }
  ensure(!space.strategies.empty(), "op '{}' can't even be replicated", op.name);
  return space;
}

// The dtypes that an op's costs depend on: if the objective is time also its tensors', which kernels read and write.
std::vector<DType> dtypes_of(const Graph& graph, const Op& op, bool in_time) {
  std::vector<DType> dtypes = {inner_dtype(graph, op)};
  if (in_time)
    for (const std::vector<TensorId>* list : {&op.operands, &op.results})
      for (TensorId t : *list) dtypes.push_back(graph.tensor(t).dtype);
  return dtypes;
}

}  // namespace

std::vector<std::shared_ptr<const OpSpace>> op_spaces(const Problem& problem, const JointSpace& space,
                                                      JointCosts& costs, const LimitKeeper& keeper) {
  const Graph& graph = problem.graph;
  const CostModel model(problem.cluster);
  const Making making{graph, space.mesh, model, keeper};
  struct Missing {
    const Op* op;
    const Choices* given;
    OpSpace* space;
  };
  std::map<std::tuple<const tdl::Bound*, std::vector<DType>, Choices, int>, std::shared_ptr<OpSpace>> known;
  std::vector<Missing> missing;
  std::vector<std::shared_ptr<const OpSpace>> spaces;
  const Choices all;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (const OpChoice* fixed = problem.constraints.choice_of(OpId(i))) {
      spaces.push_back(std::make_shared<OpSpace>(pinned_space(making, op, *fixed, costs)));
      continue;
    }
    const Choices& given = space.strategies.empty() ? all : space.strategies[i];
    const auto [found, fresh] =
        known.try_emplace({op.bound.get(), dtypes_of(graph, op, costs.in_time()), given, graph.firings(op)});
    if (fresh) {
      found->second = std::make_shared<OpSpace>();
      missing.push_back({&op, &given, found->second.get()});
    }
    spaces.push_back(found->second);
  }
  std::stable_sort(missing.begin(), missing.end(), [](const Missing& a, const Missing& b) {
    return a.op->bound->indices.size() > b.op->bound->indices.size();
  });
  parallel_for(joint_threads(graph, space.mesh), missing.size(), [&](size_t i, int thread) {
    keeper.check_time();
    const auto& [op, given, made] = missing[i];
    JointCosts& by = costs.of_thread(thread);
    *made = given->empty() ? full_space(making, *op, by) : given_space(making, *op, *given, by);
  });
  return spaces;
}

}  // namespace partita

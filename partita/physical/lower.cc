// Lowering: the passes in order.
#include "partita/physical/lower.h"

#include "partita/base/error.h"

namespace partita {

namespace {

// The passes that memory depends on.
PhysicalGraph with_memory(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options) {
  PhysicalGraph physical = lower_local(graph, plan, cluster);
  LowerOptions ordered = options;
  if (!plan.order.empty()) {
    ensure(plan.order.size() == graph.ops.size(), "an order of {} of {} ops", plan.order.size(), graph.ops.size());
    ordered.op_places.resize(graph.ops.size());
    for (size_t i = 0; i < plan.order.size(); ++i) ordered.op_places[plan.order[i].index()] = static_cast<int>(i);
  }
  make_order(physical, ordered);
  make_counts(physical, options);  // after the order, whose intervals it counts
  plan_memory(physical, options);  // after the counts: slots have sizes
  return physical;
}

}  // namespace

PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options) {
  PhysicalGraph physical = with_memory(graph, plan, cluster, options);
  make_edges(physical);            // after memory: who follows whom on the same bytes
  if (const auto why = refuse(physical)) fail("plan for '{}' on '{}' is refused: {}", graph.name, cluster.name, *why);
  return physical;
}

std::vector<int64_t> planned_peak_bytes(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return with_memory(graph, plan, cluster, {}).peak_bytes;
}

}  // namespace partita

// Lowering: the passes in order.
#include "partita/physical/lower.h"

#include "partita/base/error.h"

namespace partita {

PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options) {
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
  make_edges(physical);            // after memory: who follows whom on the same bytes
  if (const auto why = refuse(physical)) fail("plan for '{}' on '{}' is refused: {}", graph.name, cluster.name, *why);
  return physical;
}

}  // namespace partita

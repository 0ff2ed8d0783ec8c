// Lowering: the passes in order.
#include "partita/physical/lower.h"

#include "partita/base/error.h"

namespace partita {

PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options) {
  PhysicalGraph physical = lower_local(graph, plan, cluster);
  make_order(physical, options);
  make_counts(physical, options);  // after the order, whose intervals it counts
  plan_memory(physical, options);  // after the counts: slots have sizes
  make_edges(physical);            // after memory: who follows whom on the same bytes
  if (const auto why = refuse(physical)) fail("plan for '{}' on '{}' is refused: {}", graph.name, cluster.name, *why);
  return physical;
}

}  // namespace partita

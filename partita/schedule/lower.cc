// Lowers a plan in its tightest order.
#include "partita/schedule/lower.h"

#include "partita/base/error.h"
#include "partita/schedule/orders.h"

namespace partita {

namespace {

constexpr int64_t kMostTasks = 1'000'000;  // gigabytes, and minutes

}  // namespace

bool is_too_large_to_lower(const Graph& graph, const Cluster& cluster) {
  return static_cast<int64_t>(graph.ops.size()) * cluster.compute_count > kMostTasks;
}

void validate_lowered_size(const Graph& graph, const Cluster& cluster) {
  if (is_too_large_to_lower(graph, cluster))
    fail("plan for '{}' on '{}': {} ops on {} devices are more than {} tasks, too many to simulate or to run",
         graph.name, cluster.name, graph.ops.size(), cluster.compute_count, kMostTasks);
}

PhysicalGraph lower(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const LowerOptions& options) {
  if (!resolved.device_mask) validate_lowered_size(graph, cluster);
  return Orders(graph, resolved, cluster, options).lowered(0);
}

PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options) {
  validate_lowered_size(graph, cluster);
  return lower(graph, resolve(graph, plan, cluster), cluster, options);
}

PhysicalGraph planned_memory(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const Watch& watch) {
  LowerOptions options;
  options.watch = watch;
  return Orders(graph, resolved, cluster, options).taken(0);
}

}  // namespace partita

// Calls passes with nodes and uses made for one call, for tests and single passes.
#include "partita/physical/passes.h"

namespace partita {

void make_order(PhysicalGraph& graph, const LowerOptions& options) {
  const NodeTable table = number_nodes(graph);
  make_order(graph, table, Uses(graph, table), options);
}

void make_counts(PhysicalGraph& graph, const LowerOptions& options) {
  const NodeTable table = number_nodes(graph);
  make_counts(graph, table, Uses(graph, table), options);
}

void plan_memory(PhysicalGraph& graph, const LowerOptions& options) {
  const NodeTable table = number_nodes(graph);
  plan_memory(graph, table, Uses(graph, table), options);
}

void make_edges(PhysicalGraph& graph, const Watch& watch) {
  const NodeTable table = number_nodes(graph);
  make_edges(graph, table, Uses(graph, table), watch);
  leave_out_implied(graph, table, watch);
}

}  // namespace partita

// Lowers a plan to a PhysicalGraph that can run, in the order that needs the least memory.
#pragma once
#include "partita/physical/lower_local.h"
#include "partita/physical/passes.h"

namespace partita {

// Lowers a resolved plan in the tightest order (orders.h). A plan's figures and its run follow the order that
// choose_order() picks (choose_order.h).
//
// Bad input if the graph would be too large. If `resolved` has only some devices, the graph is for figures only, and is
// not admitted.
PhysicalGraph lower(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                    const LowerOptions& options = {});
// The same for a plan that is resolved for nothing else.
PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options = {});

// Lowers as lower() does, without edges and admission, for searches. Only the devices of `resolved` are lowered; if
// others read from them, for how long is not known. Tensors that others fetch are taken to stay until the operation
// that they are fetched for (tests/golden/some_devices_test.cc says how far off that is).
PhysicalGraph planned_memory(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                             const Watch& watch = {});

// Tells whether a graph is too large to be held or simulated: an op is at least one task on each of its devices.
bool is_too_large_to_lower(const Graph& graph, const Cluster& cluster);
// Throws bad input if it is.
void validate_lowered_size(const Graph& graph, const Cluster& cluster);

}  // namespace partita

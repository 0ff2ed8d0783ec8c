// Lowers a plan to a PhysicalGraph that can run, in the order that needs the least memory.
#pragma once
#include "partita/physical/lower_local.h"
#include "partita/physical/passes.h"

namespace partita {

// Lowers a resolved plan in the tightest order (orders.h). A plan's figures are told of the order that choose_order()
// picks (choose_order.h), and a run follows that one.
//
// Bad input if the graph would be too large. If `resolved` lists some devices, the graph is for figures alone: it is
// not asked whether it can run (admission).
PhysicalGraph lower(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                    const LowerOptions& options = {});
// The same for a plan that nothing else is done with.
PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options = {});

// Makes what lower() makes but for edges and admission, for the devices that `resolved` lists: for searches. If it
// lists some, nothing else is lowered, and how long others read from them is not known. What others fetch is taken to
// stay until the operation that it is fetched for (tests/golden/some_devices_test.cc says how far off that is).
PhysicalGraph planned_memory(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                             const Watch& watch = {});

// Whether a graph is too large to be held or simulated: an op is at least one task on each of its devices.
bool is_too_large_to_lower(const Graph& graph, const Cluster& cluster);
// Bad input if it is.
void expect_small_enough(const Graph& graph, const Cluster& cluster);

}  // namespace partita

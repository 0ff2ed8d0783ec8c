// Lowering: a resolved plan becomes a PhysicalGraph. First the local part, which makes the tasks of each op and of each
// tensor's conversions from the choices on them alone. Then the global passes (passes.h).
//
// Example: y = relu(h) on 2 devices, h made partial and read split. The conversion of h is the collective
// "h>relu.0.reduce-scatter@gpu0" and @gpu1, which write the registers "h>relu.0@gpu0" and @gpu1. The op is the kernels
// "relu@gpu0" and "relu@gpu1", which read these and write "y@gpu0" and "y@gpu1".
#pragma once
#include <vector>

#include "partita/physical/in_time.h"
#include "partita/physical/passes.h"
#include "partita/plan/resolve.h"

namespace partita {

// In the tightest order (orders.h): that of the least memory. The order that a plan's figures are told of, and in which
// it runs, is choose_order()'s (partita/sim/choose_order.h).
//
// Bad input where the graph would be too large. Where `resolved` lists some devices, the graph is for figures alone: it
// is not asked whether it can run (admission).
PhysicalGraph lower(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                    const LowerOptions& options = {});
// The same for a plan that nothing else is done with.
PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options = {});

// What lower() makes but for edges and admission, for the devices that `resolved` lists: for searches. Where it lists
// some, nothing else is lowered, and how long others read from them is not known. What others fetch is taken to stay
// until the operation that it is fetched for (tests/golden/some_devices_test.cc says how far off that is).
PhysicalGraph planned_memory(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                             const Watch& watch = {});

// An op is at least one task on each of its devices; of too many, a graph can neither be held nor simulated. Then the
// figures of typical devices are what there is to tell: the first, one in the middle, and the last, whose part of every
// split is the largest.
bool is_too_large_to_lower(const Graph& graph, const Cluster& cluster);
// Bad input where it is.
void expect_small_enough(const Graph& graph, const Cluster& cluster);
std::vector<DeviceId> typical_devices(const Cluster& cluster);
// Of a plan with stages: the last device of each. One of them stands on every mesh of the plan.
std::vector<DeviceId> typical_devices(const Cluster& cluster, const Plan& plan);

// Of what a plan's figures are made, so that they take seconds: all of it, where that is not too many acts.
// - Devices of a stage and group do the same, each on its part.
// - What a step does with its micro-batches repeats after the first few: from then on each part adds the same time,
//   and with gpipe the same memory, with other schedules none.
struct Telling {
  std::vector<DeviceId> devices;  // empty: all
  int micro_batches = 1;
  int period = 1;  // micro-batches after which it repeats
};
Telling telling(const Graph& graph, const Plan& plan, const Cluster& cluster);

// What resolve() lists for them; null, which is all, for none.
Listed with_hosts(const std::vector<DeviceId>& devices, const Cluster& cluster);
// Whether each micro-batch adds memory: bytes_beyond() the few that are lowered, by device, of `more` others that add
// what the last of these added to the peaks of `one_fewer`.
bool grows_with_parts(const Plan& plan);
std::vector<int64_t> bytes_beyond(const std::vector<int64_t>& peaks, const std::vector<int64_t>& one_fewer,
                                  int64_t more);

// The local part (in_time.h says what it leaves).
LocallyLowered lower_local(const Graph& graph, const Resolved& resolved, const Cluster& cluster,
                           const Watch& watch = {});

// Where a step's inputs are loaded, and its outputs given: an input whole on every host that feeds a device of its
// home's mesh, an output whole on the host of that mesh's first device; over the home's factoring.
Layout layout_on_hosts(const Layout& home, const Cluster& cluster);
Layout layout_on_first_host(const Layout& home, const Cluster& cluster);

}  // namespace partita

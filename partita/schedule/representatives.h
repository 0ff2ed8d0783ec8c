// Chooses the devices and micro-batches to simulate, so that a plan's figures take seconds. The rest is extrapolated
// from them. If all take little time, all are simulated.
// - Devices of a stage and group do the same, each on its shard: one of them is a representative of the others.
// - A step repeats after its first few micro-batches. From then on each adds the same time. With gpipe each adds the
//   same memory, with other schedules none.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/base/watch.h"
#include "partita/plan/resolve.h"

namespace partita {

// Representatives for any plan: the first device, one in the middle, and the last, whose shard of every split is the
// largest. The last of each further device type is one too.
std::vector<DeviceId> representative_devices(const Cluster& cluster);
// Representatives for a plan with stages: the last device of each. At least one is on every mesh of the plan.
std::vector<DeviceId> representative_devices(const Cluster& cluster, const Plan& plan);

struct Representatives {
  std::vector<DeviceId> devices;  // empty: all
  int micro_batches = 1;
  int period = 1;  // micro-batches after which a step repeats
};
Representatives choose_representatives(const Graph& graph, const Plan& plan, const Cluster& cluster);
// The same devices, with only the first few micro-batches, for plans that are only compared.
Representatives choose_few_representatives(const Graph& graph, const Plan& plan, const Cluster& cluster);
// The same as choose_representatives(), but representative devices and few micro-batches if all would take longer than
// the time that is left.
Representatives choose_representatives_within(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                              const Watch& watch, double firings_per_second);

// Returns these devices and their hosts, as resolve() takes them; null, which is all, if there are none.
DeviceMask mask_with_hosts(const std::vector<DeviceId>& devices, const Cluster& cluster);

// Tells whether each micro-batch adds memory (gpipe).
bool memory_grows_with_micro_batches(const Plan& plan);
// Extrapolates the bytes of `more` further micro-batches, by device. Each adds what the last lowered one added to the
// peaks of `one_fewer`.
std::vector<int64_t> extrapolate_bytes(const std::vector<int64_t>& peaks, const std::vector<int64_t>& one_fewer,
                                       int64_t more);

}  // namespace partita

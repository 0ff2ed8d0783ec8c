// Compares the compute times of devices of different types in a step.
#include "partita/pipeline/mixed_devices.h"

#include <algorithm>
#include <map>
#include <set>

namespace partita {

namespace {

// Returns devices of several types that have shards of one operation.
std::set<DeviceId> mixed_devices(const Planned& p) {
  std::set<DeviceId> out;
  std::set<std::vector<DeviceId>> known;
  for (const OpChoice& choice : p.plan.ops) {
    const bool splits = std::any_of(choice.strategies.begin(), choice.strategies.end(),
                                    [](const tdl::AxisStrategy& s) { return !s.names.empty(); });
    if (!splits || !known.insert(choice.mesh.devices.list()).second) continue;
    std::set<std::string> types;
    for (const DeviceId d : choice.mesh.devices) types.insert(p.cluster.device(d).model);
    if (types.size() > 1) out.insert(choice.mesh.devices.begin(), choice.mesh.devices.end());
  }
  return out;
}

// By device: how long its kernels take in the simulated step.
std::map<DeviceId, int64_t> compute_times(const Planned& p) {
  std::map<DeviceId, int64_t> ns;
  for (const Event& e : p.predicted.events) {
    const Task& task = p.physical.task(e.task);
    if (p.physical.queues[task.queue.index()].kind == QueueKind::kCompute) ns[task.device] += e.end_ns - e.start_ns;
  }
  return ns;
}

}  // namespace

std::vector<TypeTime> times_of_mixed_devices(const Planned& p) {
  if (p.search.estimate) return {};
  const std::set<DeviceId> mixed = mixed_devices(p);
  if (mixed.empty()) return {};
  // Scales the figures if the first micro-batches stand for all.
  const double times = p.of_all_micro_batches
                           ? static_cast<double>(p.of_all_micro_batches->compute_ns) /
                                 static_cast<double>(breakdown_of(p.predicted, p.physical).compute_ns)
                           : 1;
  std::map<std::string, int64_t> of_type;
  for (const auto& [device, ns] : compute_times(p))
    if (mixed.contains(device)) {
      int64_t& most = of_type[p.cluster.device(device).model];
      most = std::max(most, static_cast<int64_t>(times * static_cast<double>(ns)));
    }
  std::vector<TypeTime> out;
  int64_t slowest = 0;
  for (const auto& [type, ns] : of_type) slowest = std::max(slowest, ns);
  for (const auto& [type, ns] : of_type) out.push_back({type, ns, slowest - ns});
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.compute_ns < b.compute_ns; });
  return out;
}

}  // namespace partita

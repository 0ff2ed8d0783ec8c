#include "partita/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "partita/base/error.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;

// The dtype that a kernel computes in: its first result's.
DType computes_in(const PhysicalGraph& graph, const Task& task) { return task.writes.empty() ? DType::kFloat32 : graph.reg(task.writes[0].reg).dtype; }

// Integers and booleans at float32's rate.
double peak_flops(const Device& device, DType dtype) {
  if (!is_float(dtype)) dtype = DType::kFloat32;
  auto found = device.peak_flops_per_s.find(dtype);
  if (found == device.peak_flops_per_s.end())
    fail("cluster: device '{}' has no peak FLOP/s for {}", device.name, name_of(dtype));
  return found->second;
}

}  // namespace

int64_t Duration::ns() const { return std::max<int64_t>(1, std::llround(fixed_ns + moving_ns)); }

int64_t CostModel::kernel_ns(DeviceId device, DType computes_in, double flops, int64_t bytes) const {
  Duration time = copy(device, static_cast<double>(bytes));
  const Device& on = cluster_.device(device);
  if (flops > 0) time.moving_ns = std::max(time.moving_ns, flops / (peak_flops(on, computes_in) * on.efficiency) * kNsPerS);
  return time.ns();
}

Duration CostModel::copy(DeviceId device, double bytes) const {
  const Device& on = cluster_.device(device);
  return {on.launch_overhead_us * kNsPerUs, bytes / (on.memory_bandwidth_bytes_per_s * on.efficiency) * kNsPerS};
}

Duration CostModel::transfer(const std::vector<LinkId>& route, double bytes) const {
  double latency = 0, slowest = INFINITY;
  for (LinkId l : route) {
    latency += cluster_.link(l).latency_us;
    slowest = std::min(slowest, cluster_.link(l).bandwidth_bytes_per_s);
  }
  return {latency * kNsPerUs, bytes / slowest * kNsPerS};
}

Duration CostModel::ring(StepKind kind, const std::vector<Hop>& hops) const {
  if (hops.size() < 2) return {};
  double latency = 0, busiest = 0;
  std::map<LinkId, double> busy_s;
  for (const Hop& hop : hops) {
    double hop_latency = 0;
    for (LinkId l : *hop.route) {
      hop_latency += cluster_.link(l).latency_us;
      busy_s[l] += hop.bytes / cluster_.link(l).bandwidth_bytes_per_s;
      busiest = std::max(busiest, busy_s[l]);
    }
    latency = std::max(latency, hop_latency);
  }
  const double rounds = static_cast<double>(hops.size() - 1) * (kind == StepKind::kAllReduce ? 2 : 1);
  return {rounds * latency * kNsPerUs, busiest * kNsPerS};
}

int64_t CostModel::task_ns(const PhysicalGraph& graph, const Task& task) const {
  if (!task.route.empty()) return transfer(task.route, static_cast<double>(task.bytes)).ns();
  return kernel_ns(task.device, computes_in(graph, task), task.flops, task.bytes);
}

int64_t CostModel::collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const {
  std::vector<Hop> hops;
  for (TaskId p : participants) hops.push_back({&graph.task(p).route, static_cast<double>(graph.task(p).bytes)});
  return ring(std::get<CollectiveWork>(graph.task(participants[0]).work).kind, hops).ns();
}

}  // namespace partita

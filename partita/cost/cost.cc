#include "partita/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "partita/base/error.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;

int64_t whole_ns(double ns) { return std::max<int64_t>(1, std::llround(ns)); }

// The dtype that a kernel computes in: its first result's; integers and booleans at float32's rate.
double peak_flops(const Device& device, const PhysicalGraph& graph, const Task& task) {
  DType dtype = task.writes.empty() ? DType::kFloat32 : graph.reg(task.writes[0].reg).dtype;
  if (!is_float(dtype)) dtype = DType::kFloat32;
  auto found = device.peak_flops_per_s.find(dtype);
  if (found == device.peak_flops_per_s.end())
    fail("cluster: device '{}' has no peak FLOP/s for {}", device.name, name_of(dtype));
  return found->second;
}

}  // namespace

int64_t CostModel::task_ns(const PhysicalGraph& graph, const Task& task) const {
  const Device& device = cluster_.device(task.device);
  if (!task.route.empty()) {
    double latency = 0, slowest = INFINITY;
    for (LinkId l : task.route) {
      latency += cluster_.link(l).latency_us;
      slowest = std::min(slowest, cluster_.link(l).bandwidth_bytes_per_s);
    }
    return whole_ns(latency * kNsPerUs + static_cast<double>(task.bytes) / slowest * kNsPerS);
  }
  double compute = task.flops > 0 ? task.flops / (peak_flops(device, graph, task) * device.efficiency) : 0;
  double traffic = static_cast<double>(task.bytes) / (device.memory_bandwidth_bytes_per_s * device.efficiency);
  return whole_ns(device.launch_overhead_us * kNsPerUs + std::max(compute, traffic) * kNsPerS);
}

int64_t CostModel::collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const {
  if (participants.size() < 2) return 1;
  double latency = 0, busiest = 0;
  std::map<LinkId, double> busy_s;
  for (TaskId p : participants) {
    const Task& task = graph.task(p);
    double hop = 0;
    for (LinkId l : task.route) {
      hop += cluster_.link(l).latency_us;
      busy_s[l] += static_cast<double>(task.bytes) / cluster_.link(l).bandwidth_bytes_per_s;
      busiest = std::max(busiest, busy_s[l]);
    }
    latency = std::max(latency, hop);
  }
  bool all_reduce = std::get<CollectiveWork>(graph.task(participants[0]).work).kind == StepKind::kAllReduce;
  double rounds = static_cast<double>(participants.size() - 1) * (all_reduce ? 2 : 1);
  return whole_ns(rounds * latency * kNsPerUs + busiest * kNsPerS);
}

}  // namespace partita

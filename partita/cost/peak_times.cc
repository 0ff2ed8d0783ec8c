// Adds up times of tasks at the peaks of devices and links.
#include "partita/cost/peak_times.h"

#include <algorithm>
#include <map>

#include "partita/cluster/direct.h"
#include "partita/cluster/route.h"
#include "partita/physical/of_parameters.h"

namespace partita {

namespace {

double kernel_s(const PhysicalGraph& graph, const Task& task, const Cluster& cluster) {
  if (graph.queues[task.queue.index()].kind != QueueKind::kCompute || task.phase == Phase::kUpdate) return 0;
  const Device& device = cluster.device(task.device);
  double peak = 0;
  for (const auto& [dtype, flops] : device.peak_flops_per_s) peak = std::max(peak, flops);
  return task.flops / peak + static_cast<double>(task.bytes) / device.memory_bandwidth_bytes_per_s;
}

// By collective: all its participants, also those that are not lowered.
std::map<CollectiveId, std::vector<DeviceId>> groups_of(const PhysicalGraph& graph) {
  std::map<CollectiveId, std::vector<DeviceId>> groups;
  for (const Task& task : graph.tasks) {
    if (!is_of_parameters(graph, task)) continue;
    std::vector<DeviceId>& group = groups[std::get<CollectiveWork>(task.work).collective];
    if (task.background) group = task.background->ring;
    else group.push_back(task.device);
  }
  return groups;
}

// Times of rings by group. Groups are few, and many collectives are of the same.
class GroupTimes {
 public:
  explicit GroupTimes(const Cluster& cluster) : cluster_(cluster) {}
  double seconds(std::vector<DeviceId> group, int64_t sent_bytes) {
    const auto [at, fresh] = known_.try_emplace(std::move(group));
    if (fresh) at->second = ring_time(cluster_, at->first);
    return at->second.hops_s + at->second.a_byte_s * static_cast<double>(sent_bytes);
  }

 private:
  const Cluster& cluster_;
  std::map<std::vector<DeviceId>, RingTime> known_;
};

bool is_transfer_of_micro_batches(const PhysicalGraph& graph, const Task& task) {
  return task.rate > 1 && graph.queues[task.queue.index()].kind == QueueKind::kLink;
}

// Tells whether it is an output: a few bytes for which a device would wait for its host.
bool is_output(const PhysicalGraph& graph, const Task& task) {
  return graph.queues[task.queue.index()].kind == QueueKind::kLink && task.device.value >= graph.compute_count;
}

double transfer_s(const Task& task, const Cluster& cluster) {
  const RouteFigures route = route_figures(cluster, task.route);
  return route.latency_us * 1e-6 +
         (task.background ? task.background->sharers : 1) * static_cast<double>(task.bytes) / route.bytes_per_s;
}

}  // namespace

RingTime ring_time(const Cluster& cluster, const std::vector<DeviceId>& group) {
  if (group.size() < 2) return {};
  const GroupLinks links = reduction_links(cluster, group);
  return {
      1e-6 * ((links.devices - links.nodes) * links.inside_latency_us + (links.nodes - 1) * links.between_latency_us),
      busiest_link_seconds(cluster, links, 1, 1)};
}

PeakTimes peak_times(const PhysicalGraph& graph, const Cluster& cluster, bool transfers) {
  const std::map<CollectiveId, std::vector<DeviceId>> groups = groups_of(graph);
  GroupTimes of_groups(cluster);
  PeakTimes times;
  for (const Task& task : graph.tasks) {
    times.kernels.push_back(kernel_s(graph, task, cluster));
    times.overlap.push_back(0);
    if (is_of_parameters(graph, task))
      times.overlap.back() = of_groups.seconds(groups.at(std::get<CollectiveWork>(task.work).collective), task.bytes);
    else if (transfers && is_transfer_of_micro_batches(graph, task)) times.overlap.back() = transfer_s(task, cluster);
  }
  if (may_overlap(times))
    for (size_t t = 0; t < graph.tasks.size(); ++t)
      if (is_output(graph, graph.tasks[t])) times.overlap[t] = transfer_s(graph.tasks[t], cluster);
  return times;
}

bool may_overlap(const PeakTimes& times) {
  return std::any_of(times.overlap.begin(), times.overlap.end(), [](double s) { return s > 0; });
}

}  // namespace partita

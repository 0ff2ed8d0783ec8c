// Remembers the cost model's times of tasks.
#include "partita/task_graph/task_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "partita/cluster/same_type.h"
#include "partita/sim/nodes.h"

namespace partita {

namespace {

constexpr size_t kMost = size_t{1} << 18;  // of remembered entries

bool touches_float64(const Draft& draft, const Task& task) {
  for (const std::vector<Access>* accesses : {&task.reads, &task.writes})
    for (const Access& access : *accesses)
      if (draft.graph.reg(access.reg).dtype == DType::kFloat64) return true;
  return false;
}

// Tells whether a plan with buckets bundles it with others (bundle.h).
bool is_of_a_bucket(const PhysicalGraph& graph, const Task& task) {
  if (graph.queues[task.queue.index()].kind != QueueKind::kParameterCollective) return false;
  switch (std::get<CollectiveWork>(task.work).kind) {
    case StepKind::kAllReduce:
    case StepKind::kReduceScatter:
      return task.phase != Phase::kForward;
    case StepKind::kAllGather:
      return task.turn == Task::Turn::kEager;
    default:
      return false;
  }
}

bool same_sizes(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  return std::ranges::equal(a, b, {}, &Interval::size, &Interval::size);
}

}  // namespace

size_t TaskTimes::Hash::operator()(const Known& known) const {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;
  uint64_t h = static_cast<uint64_t>(known.what);
  for (const uint64_t part : {static_cast<uint64_t>(known.bytes), std::bit_cast<uint64_t>(known.flops)})
    h = (h * kGolden ^ h >> 29) + part;
  return h * kGolden ^ h >> 32;
}

TaskTimes::TaskTimes(const CostModel& cost, const PhysicalGraph& graph, int64_t bucket_bytes)
    : cost_(cost), queue_of_(queues_of_links(graph)), bucket_bytes_(bucket_bytes) {
  const std::vector<Device>& devices = cost.cluster().devices;
  way_.resize(devices.size());
  for (size_t d = 0; d < devices.size(); ++d) {
    size_t first = 0;
    while (!is_same_type(devices[first], devices[d])) ++first;
    device_types_.push_back(static_cast<int>(first));
  }
}

// Kernels of a draft are of one op: they differ in their stages and extents.
int64_t TaskTimes::kernel_ns(const Draft& draft, TaskId id, int device_type) {
  const Task& task = draft.graph.task(id);
  const auto& work = std::get<KernelWork>(task.work);
  for (const LastKernel& last : last_)
    if (last.device_type == device_type && last.first_stage == work.first_stage && last.bytes == task.bytes &&
        last.flops == task.flops &&
        same_sizes(std::get<KernelWork>(draft.graph.task(last.task).work).ranges[0], work.ranges[0]))
      return last.ns;
  last_.push_back({device_type, work.first_stage, task.bytes, task.flops, id, cost_.task_ns(draft.graph, task)});
  return last_.back().ns;
}

// With buckets a small one takes its share of a full bucket's time.
TaskTimes::Collective TaskTimes::of_collective(const Draft& draft, std::vector<TaskId> participants) {
  const PhysicalGraph& graph = draft.graph;
  SimNode node = collective_node(graph, cost_, std::move(participants), queue_of_);
  const Task& first = graph.task(node.tasks[0]);
  const int64_t whole = graph.reg(first.reads[0].reg).bytes;
  if (whole <= 0 || bucket_bytes_ <= whole || !is_of_a_bucket(graph, first) || cost_.cluster().profile_of(first.device))
    return {node.duration_ns, std::move(node.queues)};
  const double of_them = static_cast<double>(bucket_bytes_) / static_cast<double>(whole);
  const int64_t all_ns = node.collective->costs.whole_ns(static_cast<double>(node.sent_bytes) * of_them);
  return {std::clamp<int64_t>(std::llround(static_cast<double>(all_ns) / of_them), 1, node.duration_ns),
          std::move(node.queues)};
}

bool TaskTimes::same_types(const std::vector<DeviceId>& a, const std::vector<DeviceId>& b) const {
  const auto type = [&](DeviceId d) { return device_types_[d.index()]; };
  return std::ranges::equal(a, b, {}, type, type);
}

int TaskTimes::way(DeviceId from, DeviceId to) {
  std::vector<int>& ways = way_[from.index()];
  if (ways.empty()) ways.assign(way_.size(), -1);
  int& number = ways[to.index()];
  if (number >= 0) return number;
  const Cluster& cluster = cost_.cluster();
  Way of{
      {}, device_types_[from.index()], device_types_[to.index()], cluster.device(from).host == cluster.device(to).host};
  cluster.routes.for_each_link(from, to, [&](LinkId l) {
    of.links.push_back(cluster.link(l).bandwidth_bytes_per_s);
    of.links.push_back(cluster.link(l).latency_us);
  });
  return number = ways_.try_emplace(std::move(of), static_cast<int>(ways_.size())).first->second;
}

int64_t TaskTimes::of(const Draft& draft, TaskId id) {
  const Task& task = draft.graph.task(id);
  if (draft.complete) return cost_.task_ns(draft.graph, task);
  const int type = device_types_[task.device.index()];
  if (std::holds_alternative<KernelWork>(task.work)) return kernel_ns(draft, id, type);
  const DeviceId source = draft.sources[id.index()];
  const Known key{source.valid() ? -1 - way(source, task.device) : type * 2 + touches_float64(draft, task), task.bytes,
                  task.flops};
  if (known_.size() > kMost) known_.clear();
  const auto [found, fresh] = known_.try_emplace(key);
  if (!fresh) return found->second;
  if (!source.valid()) return found->second = cost_.task_ns(draft.graph, task);
  Task transfer = task;
  transfer.route = draft.cluster.route(source, task.device);
  return found->second = cost_.task_ns(draft.graph, transfer);
}

}  // namespace partita

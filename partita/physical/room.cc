// Finds stretches of work before ops and behind collectives.
#include "partita/physical/room.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace partita {

namespace {

// One op in one pass, on the device on which it takes longest.
struct Worked {
  int place = 0;
  double seconds = 0;
};

// A pass of a stage, as its ops are placed.
using Pass = std::vector<Worked>;

double seconds_of(const PhysicalGraph& graph, const Task& task, const Cluster& cluster) {
  if (graph.queues[task.queue.index()].kind != QueueKind::kCompute || task.phase == Phase::kUpdate) return 0;
  const Device& device = cluster.device(task.device);
  double peak = 0;
  for (const auto& [dtype, flops] : device.peak_flops_per_s) peak = std::max(peak, flops);
  return task.flops / peak + static_cast<double>(task.bytes) / device.memory_bandwidth_bytes_per_s;
}

std::vector<Pass> passes_of(const PhysicalGraph& graph, const std::vector<double>& seconds,
                            const std::vector<int>& places) {
  std::map<std::tuple<int, Phase, int, DeviceId>, double> of_op;  // by stage, phase, place and device
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (seconds[t] == 0 || !task.op.valid()) continue;
    const int place = places.empty() ? task.op.value : places[task.op.index()];
    of_op[{task.stage, task.phase, place, task.device}] += seconds[t];
  }
  std::map<std::pair<int, Phase>, Pass> passes;
  for (const auto& [key, s] : of_op) {
    const auto& [stage, phase, place, device] = key;
    Pass& pass = passes[{stage, phase}];
    if (pass.empty() || pass.back().place != place) pass.push_back({place, 0});
    pass.back().seconds = std::max(pass.back().seconds, s);
  }
  std::vector<Pass> out;
  for (auto& [key, pass] : passes) out.push_back(std::move(pass));
  return out;
}

// The longest of the devices' kernels in all.
double longest_s(const PhysicalGraph& graph, const std::vector<double>& seconds) {
  std::map<DeviceId, double> sums;
  for (size_t t = 0; t < graph.tasks.size(); ++t) sums[graph.tasks[t].device] += seconds[t];
  double longest = 0;
  for (const auto& [device, sum] : sums) longest = std::max(longest, sum);
  return longest;
}

bool is_of_parameters(const PhysicalGraph& graph, const Task& task) {
  return graph.queues[task.queue.index()].kind == QueueKind::kParameterCollective;
}

bool is_reduction(const PhysicalGraph& graph, const Task& task) {
  if (!is_of_parameters(graph, task)) return false;
  const StepKind kind = std::get<CollectiveWork>(task.work).kind;
  return kind == StepKind::kAllReduce || kind == StepKind::kReduceScatter;
}

// By place: that of the kernel a stretch behind, for collectives of parameters; for others the place itself.
std::vector<int> a_stretch_behind(const PhysicalGraph& graph, const Room& room) {
  std::vector<int> until(graph.order.size());
  std::iota(until.begin(), until.end(), 0);
  if (room.stretch_s <= 0) return until;
  struct Waiting {
    int place;
    double seconds;  // of kernels on the device by then
  };
  std::vector<std::vector<Waiting>> waiting(static_cast<size_t>(graph.device_count));  // by device
  std::vector<size_t> next(waiting.size(), 0);
  std::vector<double> seconds(waiting.size(), 0);
  std::vector<int> last(waiting.size(), 0);  // the last place with a kernel
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const Task& task = graph.task(graph.order[i].task);
    const size_t d = task.device.index();
    if (is_of_parameters(graph, task)) waiting[d].push_back({static_cast<int>(i), seconds[d]});
    const double s = room.seconds[graph.order[i].task.index()];
    if (s == 0) continue;
    seconds[d] += s;
    last[d] = static_cast<int>(i);
    for (; next[d] < waiting[d].size() && seconds[d] - waiting[d][next[d]].seconds >= room.stretch_s; ++next[d])
      until[static_cast<size_t>(waiting[d][next[d]].place)] = static_cast<int>(i);
  }
  for (size_t d = 0; d < waiting.size(); ++d)
    for (; next[d] < waiting[d].size(); ++next[d]) {
      const auto place = static_cast<size_t>(waiting[d][next[d]].place);
      until[place] = std::max(until[place], last[d]);
    }
  return until;
}

}  // namespace

Room room_of(const PhysicalGraph& graph, const Cluster& cluster, double part, const std::vector<int>& places) {
  Room room;
  for (const Task& task : graph.tasks) room.seconds.push_back(seconds_of(graph, task, cluster));
  room.stretch_s = part * longest_s(graph, room.seconds);
  for (const Pass& pass : passes_of(graph, room.seconds, places)) {
    while (room.ahead.size() <= static_cast<size_t>(pass.back().place))
      room.ahead.push_back(static_cast<int>(room.ahead.size()));
    double between = 0;  // the work from op `first` to the one before op `i`
    for (size_t i = 0, first = 0; i < pass.size(); ++i) {
      while (first < i && between - pass[first].seconds >= room.stretch_s) between -= pass[first++].seconds;
      room.ahead[static_cast<size_t>(pass[i].place)] = pass[first].place;
      between += pass[i].seconds;
    }
  }
  return room;
}

bool wants_room(const PhysicalGraph& graph) {
  return std::any_of(graph.tasks.begin(), graph.tasks.end(),
                     [&](const Task& task) { return is_of_parameters(graph, task); });
}

std::vector<int> held_until(const PhysicalGraph& graph, const NodeTable& table, const Room& room) {
  std::vector<int> until = a_stretch_behind(graph, room);
  if (room.stretch_s <= 0) return until;
  // What waits for a reduction, as an update, is as late as it is.
  std::vector<int> late(graph.registers.size(), -1);
  for (size_t i = 0; i < graph.order.size(); ++i) {
    const std::vector<TaskId>& members = table.members[static_cast<size_t>(table.number(graph.order[i]))];
    bool reduces = false;
    int latest = until[i];
    for (const TaskId t : members) {
      reduces = reduces || is_reduction(graph, graph.task(t));
      for (const Access& read : graph.task(t).reads) latest = std::max(latest, late[read.reg.index()]);
    }
    if (!reduces && latest == until[i]) continue;
    until[i] = latest;
    for (const TaskId t : members)
      for (const Access& write : graph.task(t).writes) late[write.reg.index()] = latest;
  }
  return until;
}

}  // namespace partita

// Finds stretches of work before ops and behind collectives.
#include "partita/physical/room.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "partita/physical/of_parameters.h"

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

// For collectives of parameters, by place and device: the place of the kernel there that is a stretch behind.
Held a_stretch_behind(const PhysicalGraph& graph, const NodeTable& table, const Room& room) {
  Held held(graph.order.size());
  struct Waiting {
    size_t place;
    double seconds;  // of kernels on the device by then
  };
  const auto devices = static_cast<size_t>(graph.device_count);
  std::vector<std::vector<Waiting>> waiting(devices);
  std::vector<size_t> next(devices, 0);
  std::vector<double> seconds(devices, 0);
  std::vector<int> last(devices, 0);  // the last place with a kernel
  for (size_t i = 0; i < graph.order.size(); ++i)
    for (const TaskId t : table.members[static_cast<size_t>(table.number(graph.order[i]))]) {
      const size_t d = graph.task(t).device.index();
      if (is_of_parameters(graph, graph.task(t))) waiting[d].push_back({i, seconds[d]});
      if (room.seconds[t.index()] == 0) continue;
      seconds[d] += room.seconds[t.index()];
      last[d] = static_cast<int>(i);
      for (; next[d] < waiting[d].size() && seconds[d] - waiting[d][next[d]].seconds >= room.stretch_s; ++next[d])
        held[waiting[d][next[d]].place].push_back({DeviceId(d), static_cast<int>(i)});
    }
  for (size_t d = 0; d < devices; ++d)
    for (; next[d] < waiting[d].size(); ++next[d]) {
      const size_t place = waiting[d][next[d]].place;
      held[place].push_back({DeviceId(d), std::max(static_cast<int>(place), last[d])});
    }
  return held;
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

int until(const Held& held, int place, DeviceId device) {
  if (!held.empty())
    for (const HeldBytes& bytes : held[static_cast<size_t>(place)])
      if (bytes.device == device) return bytes.until;
  return place;
}

Held held_bytes(const PhysicalGraph& graph, const NodeTable& table, const Room& room) {
  if (room.stretch_s <= 0) return {};
  Held held = a_stretch_behind(graph, table, room);
  // What waits for a reduction, as an update, is as late as it is.
  std::vector<int> late(graph.registers.size(), -1);
  for (size_t i = 0; i < graph.order.size(); ++i)
    for (const TaskId t : table.members[static_cast<size_t>(table.number(graph.order[i]))]) {
      const Task& task = graph.task(t);
      const int before = until(held, static_cast<int>(i), task.device);
      int latest = before;
      for (const Access& read : task.reads) latest = std::max(latest, late[read.reg.index()]);
      if (latest > before) {
        std::erase_if(held[i], [&](const HeldBytes& bytes) { return bytes.device == task.device; });
        held[i].push_back({task.device, latest});
      } else if (!is_reduction_of_parameters(graph, task)) {
        continue;
      }
      for (const Access& write : task.writes) late[write.reg.index()] = latest;
    }
  return held;
}

}  // namespace partita

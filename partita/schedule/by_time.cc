// Finds places and held bytes by the times of a simulation.
#include "partita/schedule/by_time.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"

namespace partita {

NodeTimes node_times(const NodeTable& table, const std::vector<Event>& events) {
  const auto size = static_cast<size_t>(table.size());
  NodeTimes times{std::vector<int64_t>(size, -1), std::vector<int64_t>(size, -1)};
  for (const Event& e : events) {
    if (e.step > 0) continue;
    const auto v = static_cast<size_t>(table.number(e.task, e.firing));
    times.start[v] = times.start[v] < 0 ? e.start_ns : std::min(times.start[v], e.start_ns);
    times.end[v] = std::max(times.end[v], e.end_ns);
  }
  ensure(std::find(times.start.begin(), times.start.end(), -1) == times.start.end(), "a task is not in its simulation");
  return times;
}

std::vector<int> places_by_start(const NodeTimes& times) {
  std::vector<int> order(times.start.size()), place(times.start.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  const auto start = [&](int v) { return times.start[static_cast<size_t>(v)]; };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return start(a) < start(b); });
  for (size_t i = 1; i < order.size(); ++i)
    place[static_cast<size_t>(order[i])] =
        place[static_cast<size_t>(order[i - 1])] + (start(order[i - 1]) < start(order[i]));
  return place;
}

Held held_until_end(const PhysicalGraph& graph, const NodeTable& table, const NodeTimes& times) {
  std::vector<int64_t> starts;
  for (const Node& node : graph.order) starts.push_back(times.start[static_cast<size_t>(table.number(node))]);
  ensure(std::is_sorted(starts.begin(), starts.end()), "physical graph '{}' is not in an order by time", graph.name);
  Held held(starts.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto v = static_cast<size_t>(table.number(graph.order[i]));
    const auto end = std::lower_bound(starts.begin(), starts.end(), times.end[v]);
    const auto until = std::max(static_cast<int>(i), static_cast<int>(end - starts.begin()) - 1);
    for (const TaskId t : table.members[v]) {
      const Task& task = graph.task(t);
      const auto hold = [&](DeviceId d) {
        const auto same = [&](const HeldBytes& h) { return h.device == d; };
        if (std::none_of(held[i].begin(), held[i].end(), same)) held[i].push_back({d, static_cast<int>(i), until});
      };
      hold(task.device);
      for (const Access& read : task.reads) hold(graph.reg(read.reg).device);
      for (const Access& write : task.writes) hold(graph.reg(write.reg).device);
    }
  }
  return held;
}

void set_times(LowerOptions& options, NodeTimes times) {
  options.start_places = places_by_start(times);
  options.held = [times = std::move(times)](const PhysicalGraph& graph, const NodeTable& table) {
    return held_until_end(graph, table, times);
  };
}

}  // namespace partita

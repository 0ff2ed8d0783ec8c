// Follows a timeline back from its end to find the critical path.
#include "partita/task_graph/critical.h"

#include <algorithm>

namespace partita {

std::vector<int> critical_path(const FlatTasks& flat, const Timeline& timeline) {
  // By task: one that ends when it begins.
  std::vector<int> before(static_cast<size_t>(flat.size()), -1), last(static_cast<size_t>(flat.queue_count), -1);
  const auto at = [](int i) { return static_cast<size_t>(i); };
  const auto hands_over = [&](int from, int to) {
    return from >= 0 && timeline.of[at(from)].end_ns == timeline.of[at(to)].start_ns;
  };
  int end = -1;
  for (const int t : timeline.order) {
    const FlatTasks::Task &task = flat.tasks[at(t)], &next = flat.tasks[at(t + 1)];
    for (int q = task.queue; q < next.queue; ++q) {
      int& of_queue = last[at(flat.queues[at(q)])];
      if (before[at(t)] < 0 && hands_over(of_queue, t)) before[at(t)] = of_queue;
      of_queue = t;
    }
    for (int a = task.after; a < next.after; ++a)
      if (const int to = flat.after[at(a)]; timeline.of[at(t)].end_ns == timeline.of[at(to)].ready_ns &&
                                            timeline.of[at(to)].ready_ns == timeline.of[at(to)].start_ns)
        before[at(to)] = t;
    if (end < 0 || timeline.of[at(t)].end_ns > timeline.of[at(end)].end_ns) end = t;
  }
  std::vector<int> path;
  for (; end >= 0; end = before[at(end)]) path.push_back(end);
  std::ranges::reverse(path);
  return path;
}

}  // namespace partita

// Flattens task graphs and computes their timeline by Algorithm 1.
#include "partita/task_graph/first_come.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

namespace {

// Adds all but edges.
void add_tasks(const TaskGraph& graph, FlatTasks& flat) {
  size_t count = 0, queues = 0;
  for (const FragmentPtr& fragment : graph.fragments) {
    flat.first.push_back(static_cast<int>(count));
    count += fragment->duration_ns.size();
    queues += fragment->queues.size();
  }
  flat.first.push_back(static_cast<int>(count));
  flat.tasks.resize(count + 1);
  flat.queues.reserve(queues);
  FlatTasks::Task* task = flat.tasks.data();
  for (size_t slot = 0; slot < graph.fragments.size(); ++slot) {
    const Fragment& fragment = *graph.fragments[slot];
    const int first_queue = static_cast<int>(flat.queues.size());
    for (int i = 0; i < fragment.size(); ++i, ++task)
      *task = {.duration_ns = fragment.duration_ns[static_cast<size_t>(i)],
               .key = graph.key_of(static_cast<int>(slot), i),
               .queue = first_queue + (i == 0 ? 0 : fragment.queue_ends[static_cast<size_t>(i) - 1])};
    flat.queues.insert(flat.queues.end(), fragment.queues.begin(), fragment.queues.end());
  }
  *task = {.queue = static_cast<int>(flat.queues.size())};
}

}  // namespace

void flatten(const TaskGraph& graph, FlatTasks& flat) {
  flat.first.clear();
  flat.queues.clear();
  flat.queue_count = graph.queue_count;
  add_tasks(graph, flat);
  const size_t count = static_cast<size_t>(flat.size());
  // A task's `after` first counts its edges, then is their end, and then, as they are filled from the back, their
  // begin.
  for_each_edge(graph, flat.first, [&](int from, int to) {
    ++flat.tasks[static_cast<size_t>(from)].after;
    ++flat.tasks[static_cast<size_t>(to)].waits;
  });
  for (size_t task = 1; task <= count; ++task) flat.tasks[task].after += flat.tasks[task - 1].after;
  flat.after.resize(static_cast<size_t>(flat.tasks[count].after));
  for_each_edge(graph, flat.first, [&](int from, int to) {
    flat.after[static_cast<size_t>(--flat.tasks[static_cast<size_t>(from)].after)] = to;
  });
}

FlatTasks flatten(const TaskGraph& graph) {
  FlatTasks flat;
  flatten(graph, flat);
  return flat;
}

void simulate_first_come(const FlatTasks& flat, Timeline& timeline) {
  const size_t count = static_cast<size_t>(flat.size());
  timeline.of.resize(count);
  timeline.order.resize(count);
  timeline.queue_end_ns.assign(static_cast<size_t>(flat.queue_count), 0);
  timeline.heap.clear();
  ReadyHeap& heap = timeline.heap;
  const FlatTasks::Task* const tasks = flat.tasks.data();
  Timeline::Times* const times = timeline.of.data();
  int64_t* const queue_end_ns = timeline.queue_end_ns.data();
  for (size_t t = 0; t < count; ++t) {
    times[t] = {.waits = tasks[t].waits};
    if (tasks[t].waits == 0) heap.push({0, tasks[t].key, static_cast<int>(t)});
  }
  size_t taken = 0;
  int64_t makespan_ns = 0;
  while (!heap.empty()) {
    const int t = heap.top().task;
    timeline.order[taken++] = t;
    const FlatTasks::Task& task = tasks[t];
    int64_t start_ns = times[t].ready_ns;
    const int queues_end = tasks[t + 1].queue;
    for (int q = task.queue; q < queues_end; ++q)
      start_ns = std::max(start_ns, queue_end_ns[flat.queues[static_cast<size_t>(q)]]);
    const int64_t end_ns = start_ns + task.duration_ns;
    for (int q = task.queue; q < queues_end; ++q) queue_end_ns[flat.queues[static_cast<size_t>(q)]] = end_ns;
    times[t].start_ns = start_ns;
    times[t].end_ns = end_ns;
    makespan_ns = std::max(makespan_ns, end_ns);
    bool at_top = true;
    for (int at = task.after, end = tasks[t + 1].after; at < end; ++at) {
      const int next = flat.after[static_cast<size_t>(at)];
      times[next].ready_ns = std::max(times[next].ready_ns, end_ns);
      if (--times[next].waits > 0) continue;
      const ReadyTask ready{times[next].ready_ns, tasks[next].key, next};
      at_top ? heap.replace_top(ready) : heap.push(ready);
      at_top = false;
    }
    if (at_top) heap.pop();
  }
  timeline.makespan_ns = makespan_ns;
  ensure(taken == count, "{} of {} tasks wait for each other", count - taken, count);
}

}  // namespace partita

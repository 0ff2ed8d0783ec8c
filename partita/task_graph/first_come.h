// Simulates a local task graph in full (FlexFlow section 5.2, Algorithm 1), for searches and as the reference of
// replay.h.
//
// A task is ready when all it waits for has ended, at 0 if it waits for nothing. Tasks are taken in increasing order of
// (ready time, key). A task starts when it is ready and the last task taken on each of its queues has ended. It holds
// all of them for its duration. Times are whole nanoseconds, and a task takes at least one. So a task is ready later
// than all it waits for: the order is final, and the timeline unique.
//
// Example: a takes 3 ns and b 2 ns on queue 0. c takes 4 ns on queue 1 and waits for a. The key of a is the lowest. a
// runs from 0 to 3, b, ready at 0, from 3 to 5, and c from 3 to 7: the makespan is 7 ns.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/task_graph/ready_heap.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

// A task graph in arrays. Tasks are numbered by slot, and within a slot as in its fragment.
struct FlatTasks {
  struct Task {
    int64_t duration_ns = 0;
    uint64_t key = 0;
    int waits = 0;  // number of edges that lead to it
    int after = 0;  // where those that wait for it begin; they end where the next task's begin
    int queue = 0;  // where its queues begin
  };
  std::vector<Task> tasks;  // and one more, for the ends
  std::vector<int> after, queues;
  std::vector<int> first;  // by slot: its first task; and the number of tasks
  int queue_count = 0;

  int size() const { return static_cast<int>(tasks.size()) - 1; }
};

// Flattens a graph. Edges of a tensor's fragment run from the tensor's producer and its own tasks to its own tasks and
// to readers.
FlatTasks flatten(const TaskGraph& graph);
// The same, into existing memory.
void flatten(const TaskGraph& graph, FlatTasks& flat);

// Calls edge(from, to) for every edge; `first` as in FlatTasks.
void for_each_edge(const TaskGraph& graph, const std::vector<int>& first, auto&& edge) {
  for (size_t slot = 0; slot < graph.fragments.size(); ++slot) {
    const Fragment& fragment = *graph.fragments[slot];
    const auto first_of = [&](int party) {
      const int of = party == 0 ? static_cast<int>(slot) : graph.wires[slot].parties[static_cast<size_t>(party)];
      return first[static_cast<size_t>(of)];
    };
    for (size_t party = 0; party < fragment.after.size(); ++party) {
      const TaskLists& lists = fragment.after[party];
      if (lists.ends.empty()) continue;
      const int base = first_of(static_cast<int>(party));
      for (size_t task = 0, at = 0; task < lists.ends.size(); ++task)
        for (; at < static_cast<size_t>(lists.ends[task]); ++at)
          edge(base + static_cast<int>(task), first_of(lists.tasks[at].party) + lists.tasks[at].task);
    }
  }
}

// When the tasks run. It keeps its memory from one simulation to the next.
struct Timeline {
  struct Times {
    int64_t ready_ns = 0, start_ns = 0, end_ns = 0;
    int waits = 0;  // while it is made: number of edges from tasks not taken that lead to the task
  };
  std::vector<Times> of;   // by task
  std::vector<int> order;  // the tasks as taken
  int64_t makespan_ns = 0;

  std::vector<int64_t> queue_end_ns;  // by queue
  ReadyHeap heap;                     // while it is made
};
void simulate_first_come(const FlatTasks& flat, Timeline& timeline);

}  // namespace partita

// The delta simulation of FlexFlow, section 5.3, Algorithm 2, as a baseline: the timeline is updated in place, and what
// may have changed is pushed until nothing does.
//
// As printed it gives a wrong timeline. A swap in a device's list changes when three tasks start, and only one of them
// is pushed; what waited for tasks that went is forgotten; and ready times change of tasks that stand in the queue that
// is sorted by them. Here every task is pushed whose start may have changed: those on either side of a task that leaves
// a place in a list or comes to one, what waits for a task whose end has changed, and what waited for one that went. In
// the end each task is ready when all it waits for has ended, the lists are in the order of (ready time, key), and each
// task starts when it is ready and the one before it has ended, on each of its queues. One timeline alone is so: that
// of first_come.h.
//
// A proposal that changes most tasks, or takes many updates a task, is simulated by first_come.h instead.
//
// Example: a (3 ns), b (2 ns) and c (4 ns) on one queue, all ready at 0. If a is exchanged for one of 1 ns, it ends at
// 1, and b is pushed, the next in the list; then c, after it.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "partita/task_graph/task_graph.h"

namespace partita {

struct Algorithm2State;  // algorithm2.cc

class Algorithm2 {
 public:
  explicit Algorithm2(TaskGraph graph);
  ~Algorithm2();

  // Exchanges the fragments of these slots, and returns the makespan. The proposal before is accepted by that.
  int64_t propose(const std::vector<std::pair<int, FragmentPtr>>& exchanges);
  // Takes the last proposal back: sets what it changed to what it was.
  void undo();

  int64_t makespan_ns() const;
  struct Times {
    int64_t ready_ns = 0, start_ns = 0, end_ns = 0;
  };
  Times times(int slot, int task) const;
  int64_t updates() const;  // tasks taken from the update queue, in all

 private:
  std::unique_ptr<Algorithm2State> state_;
};

}  // namespace partita

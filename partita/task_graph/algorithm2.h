// Simulates proposals by FlexFlow's delta simulation (section 5.3, Algorithm 2), as a baseline for replay.h. The
// timeline is updated in place, and tasks that may have changed are pushed until nothing changes.
//
// As printed it gives a wrong timeline. A swap in a device's list changes when three tasks start, and only one of them
// is pushed. Tasks that waited for a removed one are forgotten. Ready times change while tasks stand in the queue
// sorted by them. Here every task is pushed whose start may have changed. Such are both neighbours of a task that
// leaves or enters a list, and tasks that wait for one whose end has changed or which was removed. In the end each task
// is ready when all it waits for has ended, and the lists are in the order of (ready time, key). Each task starts when
// it is ready and its predecessor on each of its queues has ended. Only the timeline of first_come.h is so.
//
// A proposal that changes most tasks, or takes many updates a task, is simulated by first_come.h instead.
//
// Example: a (3 ns), b (2 ns) and c (4 ns) on one queue, all ready at 0. If a is exchanged for a task of 1 ns, it ends
// at 1, and b, the next in the list, is pushed; then c.
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

  // Exchanges the fragments of these slots, and returns the makespan (ns). This accepts the proposal before.
  int64_t propose(const std::vector<std::pair<int, FragmentPtr>>& exchanges);
  // Takes the last proposal back.
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

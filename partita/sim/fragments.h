// Internal to sim/: from tasks and registers that were lowered alone to a fragment of the local task graph.
//
// Worked example: the registers "h@gpu1" (party 1's task 0 writes it) and "h>y.0@gpu0", and a transfer that reads the
// first and writes the second. add_tasks() makes it own task 0, add_own_edges() the edge {1, 0} -> {0, 0}; with
// reads(register of "h>y.0@gpu0", {2, 0}) comes {0, 0} -> {2, 0}.
#pragma once
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/sim/task_graph.h"

namespace partita {

// What tasks take.
struct FragmentTimes {
  const CostModel& cost;
  std::map<LinkId, int> queue_of;
  int64_t bucket_bytes = 0;  // LocalTasks
};

struct FragmentDraft {
  Fragment fragment;
  std::vector<std::vector<TaskOf>> writers;      // by register, of this step
  std::vector<std::vector<int>> own_readers;     // by register: own tasks
  std::vector<std::pair<TaskOf, TaskOf>> edges;  // from what ends first

  // A task of an op reads this register; `fresh` as in Access.
  void reads(const PhysicalGraph& graph, RegisterId reg, bool fresh, TaskOf reader);
};

// The graph's tasks as own tasks; the participants of a collective are one. `party_of`: of the op that a task belongs
// to. Writers that are other parties' are there already.
void add_tasks(FragmentDraft& draft, const PhysicalGraph& graph, const FragmentTimes& times,
               const std::function<int(OpId)>& party_of);
// Call it when all writers are there.
void add_own_edges(FragmentDraft& draft, const PhysicalGraph& graph);
// Of registers from the first on.
void add_bytes(FragmentDraft& draft, const PhysicalGraph& graph, size_t first);
// `sizes`: tasks by party.
Fragment finished(FragmentDraft draft, const std::vector<int>& sizes);

}  // namespace partita

// Internal to sim/: from tasks and registers that were lowered alone to a fragment of the local task graph.
//
// Worked example: the registers "h@gpu1" (party 1's task 0 writes it) and "h>y.0@gpu0", and a transfer that reads the
// first and writes the second. add_tasks() makes it own task 0, add_own_edges() the edge {1, 0} -> {0, 0}; with
// reads(register of "h>y.0@gpu0", {2, 0}) comes {0, 0} -> {2, 0}.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "partita/task_graph/edge_lists.h"
#include "partita/task_graph/task_graph.h"
#include "partita/task_graph/task_times.h"

namespace partita {

// Tasks by register, each register's in the order in which they were added.
class TasksOfRegisters {
 public:
  void clear() { lists_.clear(), entries_.clear(); }
  void add(RegisterId reg, TaskOf task);
  bool has(RegisterId reg) const { return reg.index() < lists_.size() && lists_[reg.index()].first >= 0; }
  // Calls visit(task) for each of the register's.
  template <typename Visit>
  void for_each(RegisterId reg, const Visit& visit) const {
    if (reg.index() >= lists_.size()) return;
    for (int at = lists_[reg.index()].first; at >= 0; at = entries_[static_cast<size_t>(at)].next)
      visit(entries_[static_cast<size_t>(at)].task);
  }

 private:
  struct List {
    int first = -1, last = -1;
  };
  struct Entry {
    TaskOf task;
    int next = -1;
  };
  std::vector<List> lists_;
  std::vector<Entry> entries_;
};

// It is used again for the next fragment, for its memory.
struct FragmentDraft {
  Fragment fragment;
  TasksOfRegisters writers;      // of this step
  TasksOfRegisters own_readers;  // own tasks
  EdgeLists::Edges edges;

  void clear();
  // A task of an op reads this register; `fresh` as in Access.
  void reads(const PhysicalGraph& graph, RegisterId reg, bool fresh, TaskOf reader);
};

// The graph's tasks as own tasks; the participants of a collective, which follow each other, are one. `party_of`: of
// the op that a task belongs to. Writers that are other parties' are there already.
void add_tasks(FragmentDraft& draft, const Draft& lowered, TaskTimes& times, const std::function<int(OpId)>& party_of);
// Sums by number, ascending.
void add_to(std::vector<std::pair<int, int64_t>>& sums, int at, int64_t value);
// Call it when all writers are there.
void add_own_edges(FragmentDraft& draft, const PhysicalGraph& graph);
// Of registers from the first on.
void add_bytes(FragmentDraft& draft, const PhysicalGraph& graph, size_t first);
// `sizes`: tasks by party.
Fragment finished(FragmentDraft& draft, EdgeLists& lists, const std::vector<int>& sizes);

}  // namespace partita

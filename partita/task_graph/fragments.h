// Internal to task_graph/: makes a fragment of the local task graph from tasks and registers that were lowered alone.
//
// Worked example: the registers "h@gpu1" (party 1's task 0 writes it) and "h>y.0@gpu0", and a transfer that reads the
// first and writes the second. add_tasks() makes it own task 0, add_own_edges() the edge {1, 0} -> {0, 0}. With
// reads(register of "h>y.0@gpu0", {2, 0}) comes {0, 0} -> {2, 0}.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "partita/task_graph/edge_lists.h"
#include "partita/task_graph/task_graph.h"
#include "partita/task_graph/task_times.h"

namespace partita {

// Tasks by register, in the order in which they were added.
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

// A fragment in the making. It is used again for the next one, for its memory.
struct FragmentDraft {
  Fragment fragment;
  TasksOfRegisters writers;      // of this step
  TasksOfRegisters own_readers;  // own tasks
  EdgeLists::Edges edges;

  void clear();
  // Notes that a task of an op reads this register; `fresh` as in Access.
  void reads(const PhysicalGraph& graph, RegisterId reg, bool fresh, TaskOf reader);
};

// Adds the graph's tasks as own tasks. The participants of a collective, which follow each other, become one.
// `party_of`: of the op that a task belongs to. Writers of other parties are there already.
void add_tasks(FragmentDraft& draft, const Draft& lowered, TaskTimes& times, const std::function<int(OpId)>& party_of);
// Adds to the sum of a number; sums are ascending by number.
void add_to(std::vector<std::pair<int, int64_t>>& sums, int at, int64_t value);
// Call it when all writers are there.
void add_own_edges(FragmentDraft& draft, const PhysicalGraph& graph);
// Adds the bytes of registers from `first` on.
void add_bytes(FragmentDraft& draft, const PhysicalGraph& graph, size_t first);
// Returns the finished fragment. `sizes`: tasks by party.
Fragment finish_fragment(FragmentDraft& draft, EdgeLists& lists, const std::vector<int>& sizes);

}  // namespace partita

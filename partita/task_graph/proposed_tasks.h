// A task graph in arrays of which fragments can be exchanged: the tasks and edges that a proposal adds stand behind the
// committed ones, until it is committed or the next one takes their place. For replay and algorithm2.
//
// A slot's tasks stand in cells in a row, and a cell says which task it is. Tasks are numbered as they come: numbers
// below `task_count` are committed or out of use, a proposal's new tasks have those from there to `new_count`. A task
// of an exchanged slot whose key, duration and queues are those of a task before is that task, and keeps its number;
// what it waits for may differ. A proposal touches the slots that it exchanges, and those beside them.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "partita/task_graph/task_graph.h"

namespace partita {

struct ProposedTasks {
  // Of a task: from `after` on those that wait for it, from `before` on those it waits for; both in `edges` below.
  struct Edges {
    int after = 0, before = 0, end = 0;
  };
  // One cache line.
  struct alignas(64) Task {
    int64_t duration_ns = 0;
    uint64_t key = 0;
    const int* queues = nullptr;  // the fragment's
    int queue_count = 0;
    int queue = 0;  // the first of them
    int rank = 0;   // its slot's
    Edges edges;
    // Replay's.
    int64_t tail_ns = 0;  // the longest chain of tasks that wait for it
    int place = 0;        // in the order in which tasks are taken
  };
  struct Slot {
    uint32_t epoch = 0;  // of the last proposal that touched it
    bool exchanged = false;
    int first = 0;  // cell
    const Fragment* fragment = nullptr;
  };
  // Where some of the edges of a slot's tasks are: in the fragment of `slot`.
  struct Source {
    int slot = 0;
    const TaskLists* lists = nullptr;
    int party = -1, first = 0;  // that was looked at last, and its first cell
  };

  // Tasks of exchanged slots by their keys: places in `old_tasks`.
  struct KeyPlace {
    uint64_t key = 0;
    int old = 0;
    uint32_t epoch = 0;
  };

  // What is committed.
  TaskGraph graph;
  std::vector<int> first;    // by slot: its first cell
  std::vector<int> task_at;  // by cell
  std::vector<int> rank;     // by slot: edges lead to slots of higher rank, or stay in one
  int task_count = 0, cell_count = 0, edge_count = 0;
  int live_tasks = 0, live_edges = 0;  // without those out of use
  std::vector<Task> tasks;
  std::vector<int> edges;

  // The proposal.
  uint32_t epoch = 0;
  std::vector<std::pair<int, FragmentPtr>> exchanges;  // once it is committed, what was there before
  std::vector<int> touched;                            // slots, in falling rank
  std::vector<Slot> slots;
  int new_count = 0, new_cells = 0;
  std::vector<int> removed;                           // tasks
  std::vector<Edges> gathered;                        // by task of the slot that gather_edges was last called for
  std::vector<Source> sources_after, sources_before;  // scratch, as all below
  std::vector<int> old_tasks;
  std::vector<char> kept;  // by old task
  std::vector<KeyPlace> keys;

  bool is_touched(int slot) const { return slots[static_cast<size_t>(slot)].epoch == epoch; }
  // Of a slot that is touched: its number of tasks, and its i-th task.
  int size_now(int slot) const { return slots[static_cast<size_t>(slot)].fragment->size(); }
  int task_now(int slot, int i) const {
    return task_at[static_cast<size_t>(slots[static_cast<size_t>(slot)].first) + static_cast<size_t>(i)];
  }
  // The i-th task that is, or was, committed.
  int task_of(int slot, int i) const {
    return task_at[static_cast<size_t>(first[static_cast<size_t>(slot)]) + static_cast<size_t>(i)];
  }
};

// The slots of this graph, all without tasks; returns what is to be exchanged to have it.
std::vector<std::pair<int, FragmentPtr>> set_slots(ProposedTasks& p, TaskGraph graph);
// A proposal: exchanges. Slots that get what they have are left out.
void begin_proposal(ProposedTasks& p, const std::vector<std::pair<int, FragmentPtr>>& exchanges);
// Its touched slots, and which tasks are new and which removed.
void add_proposed_tasks(ProposedTasks& p);
// The edges of a touched slot's tasks in the proposal: sets `gathered`.
void gather_edges(ProposedTasks& p, int slot);
// The exchanged slots, and the tasks and edges that were added, are committed; Task::edges are set by the caller.
void commit_tasks(ProposedTasks& p);
// Tells the tasks of a slot where its fragment has their queues.
void set_queues(ProposedTasks& p, int slot);
// Whether more is out of use than in use.
bool is_sparse(const ProposedTasks& p);

}  // namespace partita

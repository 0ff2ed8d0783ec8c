// Keeps a task graph in arrays with exchangeable fragments, for replay and algorithm2. A proposal's tasks and edges
// stand behind the committed ones, until it is committed or the next one takes their place.
//
// A slot's tasks stand in cells in a row, and a cell has its task's number. Tasks are numbered as they come: numbers
// below `task_count` are committed or out of use, a proposal's new tasks have those from there to `new_count`. A task
// of an exchanged slot whose key, duration and queues are those of a task before is that task, and keeps its number.
// The tasks that it waits for may differ. A proposal touches the slots that it exchanges, and those beside them.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "partita/task_graph/task_graph.h"

namespace partita {

struct ProposedTasks {
  // A task's edges: those that wait for it from `after` on, those it waits for from `before` on; both in `edges` below.
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
  // Locates some of the edges of a slot's tasks: in the fragment of `slot`.
  struct Source {
    int slot = 0;
    const TaskLists* lists = nullptr;
    int party = -1, first = 0;  // the party of the last look-up, and its first cell
  };

  // Tasks of exchanged slots by their keys: places in `old_tasks`.
  struct KeyPlace {
    uint64_t key = 0;
    int old = 0;
    uint32_t epoch = 0;
  };

  // The committed state.
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
  std::vector<std::pair<int, FragmentPtr>> exchanges;  // after a commit, the fragments that were there before
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
  // For a touched slot: its number of tasks, and its i-th task.
  int size_now(int slot) const { return slots[static_cast<size_t>(slot)].fragment->size(); }
  int task_now(int slot, int i) const {
    return task_at[static_cast<size_t>(slots[static_cast<size_t>(slot)].first) + static_cast<size_t>(i)];
  }
  // The i-th task that is, or was, committed.
  int task_of(int slot, int i) const {
    return task_at[static_cast<size_t>(first[static_cast<size_t>(slot)]) + static_cast<size_t>(i)];
  }
};

// Makes this graph's slots, all without tasks. Returns the exchanges that lead to the graph.
std::vector<std::pair<int, FragmentPtr>> set_slots(ProposedTasks& p, TaskGraph graph);
// Begins a proposal. Slots that keep their fragments are left out.
void begin_proposal(ProposedTasks& p, const std::vector<std::pair<int, FragmentPtr>>& exchanges);
// Adds the tasks of touched slots, and finds those that are new and removed.
void add_proposed_tasks(ProposedTasks& p);
// Sets `gathered` to the edges of a touched slot's tasks in the proposal.
void gather_edges(ProposedTasks& p, int slot);
// Commits the exchanged slots, and the tasks and edges that were added. The caller sets Task::edges.
void commit_tasks(ProposedTasks& p);
// Points the tasks of a slot at their queues in its fragment.
void set_queues(ProposedTasks& p, int slot);
// Tells whether unused cells outnumber used ones.
bool is_sparse(const ProposedTasks& p);

}  // namespace partita

// Defines the local task graph (FlexFlow section 5.1): the tasks of ops and of tensors' conversions, without order,
// memory and control edges. A search asks for it hundreds of thousands of times, so it is built of fragments that are
// made once. A fragment has the tasks of one op in one configuration, or of one tensor's conversions for the
// configurations of its writer and its readers. To change a configuration is to exchange a few fragments.
//
// Worked example: y = relu(h) on gpu0, h made on gpu1. The op's slot holds a fragment of one task on gpu0's compute
// queue. The slot of h holds one task on the link gpu1 -> gpu0, whose parties are 0: itself, 1: the producer of h, 2:
// relu. Its edges: {1, 0} -> {0, 0} -> {2, 0}. If relu moves to gpu1, its fragment is another, and that of h has no
// task, and the edge {1, 0} -> {2, 0}.
//
// A task runs on all its queues at once (a collective on several), for its duration, first come first served:
// first_come.h.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "partita/base/ids.h"

namespace partita {

// A task by the party that has it, and its number there.
struct TaskOf {
  int party = 0, task = 0;
  auto operator<=>(const TaskOf&) const = default;
};

// Lists of tasks, one for each task of a party.
struct TaskLists {
  std::vector<int> ends;  // by task: the end of its list; empty: no task has any
  std::vector<TaskOf> tasks;
};

// One TaskLists for each party. Copies share them, and those without tasks take no memory.
class PartyLists {
 public:
  PartyLists() = default;
  PartyLists(std::vector<TaskLists> by_party);
  PartyLists(std::initializer_list<TaskLists> by_party) : PartyLists(std::vector<TaskLists>(by_party)) {}

  size_t size() const { return held_ ? held_->places.size() : 0; }
  bool empty() const { return size() == 0; }
  // Tells whether any task of the party has some; false if there is no such party.
  bool has(size_t party) const {
    if (party < kNoted) return first_ >> party & 1;
    return party < size() && held_->places[party] >= 0;
  }
  const TaskLists& operator[](size_t party) const {
    static const TaskLists kNone;
    const int place = held_->places[party];
    return place < 0 ? kNone : held_->lists[static_cast<size_t>(place)];
  }
  bool shares(const PartyLists& other) const { return held_ == other.held_; }

 private:
  struct Held {
    std::vector<int> places;  // by party: in `lists`; -1: none
    std::vector<TaskLists> lists;
  };
  static constexpr size_t kNoted = 64;
  std::shared_ptr<const Held> held_;
  uint64_t first_ = 0;  // bits of the first kNoted parties that have any, to spare a look at `held_`
};

// Party 0 is the fragment itself, party 1 the tensor's producer (none for an input or parameter). The others are its
// readers, in the graph's order. A fragment of an op has party 0 alone.
struct Fragment {
  // By own task.
  std::vector<int64_t> duration_ns;     // at least 1
  std::vector<uint64_t> key;            // without its op's part (TaskGraph::key_of): below 2^kKeyBits
  std::vector<int> key_party;           // the party, an op, whose key it has; of an op's fragment 0
  std::vector<int> queue_ends, queues;  // each task's, ascending; at least one

  // Each edge is there twice. Fragments with equal edges share them.
  PartyLists after;   // by party: the tasks that wait for its tasks
  PartyLists before;  // by party: the tasks for which its tasks wait

  std::vector<std::pair<int, int64_t>> load_ns;  // by queue, what its tasks take there; queues ascending
  std::vector<std::pair<int, int64_t>> bytes;    // by device, of registers; devices ascending

  int size() const { return static_cast<int>(duration_ns.size()); }
};
using FragmentPtr = std::shared_ptr<const Fragment>;

constexpr int kKeyBits = 44;

// Slots are numbered: ops first, as in the model's graph, then tensors.
struct TaskGraph {
  // Fixed by the model.
  struct Wires {
    std::vector<int> parties;                   // of a tensor's slot: slots, by party; [0] itself, [1] -1: no writer
    std::vector<int> results;                   // of an op's slot: the slots of its results; it is their party 1
    std::vector<std::pair<int, int>> operands;  // of an op's slot: the slots of its operands, and its party number
                                                // there
  };
  int queue_count = 0;
  int op_count = 0;
  std::vector<Wires> wires;            // by slot
  std::vector<FragmentPtr> fragments;  // by slot

  // Among equal ready times the task with the lowest key goes first. Keys are unique, and do not depend on how the
  // graph was built.
  uint64_t key_of(int slot, int task) const {
    const Fragment& fragment = *fragments[static_cast<size_t>(slot)];
    const int op = slot < op_count ? slot
                                   : wires[static_cast<size_t>(slot)]
                                         .parties[static_cast<size_t>(fragment.key_party[static_cast<size_t>(task)])];
    return static_cast<uint64_t>(op) << kKeyBits | fragment.key[static_cast<size_t>(task)];
  }
};

}  // namespace partita

// Holds Replay's state: the committed timeline, and the proposal beside it. For replay*.cc.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "partita/task_graph/proposed_tasks.h"
#include "partita/task_graph/ready_heap.h"
#include "partita/task_graph/replay.h"

namespace partita::replay {

using Task = ProposedTasks::Task;
using Edges = ProposedTasks::Edges;

// The times of a task in the committed timeline.
struct CommittedTimes {
  int64_t ready_ns = 0, end_ns = 0;
  int held = 0;  // where it is on its first queue
};
constexpr size_t kBlock = 64;                           // places of ReplayState::least_before
constexpr int kLate = std::numeric_limits<int>::max();  // the place of a proposal's new tasks

// A task in the proposal.
struct ProposedTask {
  uint32_t epoch = 0;    // if it is the proposal's, the task is removed, or its slot is touched
  int touched = -1;      // and if it is not removed, where it is in ReplayState::touched_tasks
  uint32_t changed = 0;  // if it is the proposal's, the task is removed, new, or waits for others than before
};

// The fields that a run reads when it takes a task that another one waits for. Half a cache line.
struct alignas(32) Waiting {
  int64_t ready_ns = 0;  // by those that have been taken
  uint64_t key = 0;
  uint32_t round = 0;  // if it is the run's, the task has been met in it
  int waits = 0;       // number of tasks it waits for that have not been taken
  // In the committed timeline.
  int before = 0;        // tasks that it waits for
  int first_before = 0;  // the least place of those; -1: there is none
};

// A task of a touched slot.
struct TouchedTask {
  Edges edges;
  bool bounded = false;
  int64_t tail_ns = 0;  // if bounded, of a late one: a lower bound
};

// A task that has been taken after the cut.
struct ScheduledTask {
  int task = 0;
  int back = 0;  // if all it waits for was skipped with it: the last of those is so many places before it
  int64_t ready_ns = 0, end_ns = 0;
};

// The proposal and the committed timeline have taken the same tasks, but for those that the proposal adds and removes.
// Tasks that have not ended yet end `shift_ns` later in the proposal. So does all that follows, until a task that the
// proposal changes. Tasks of these committed places are as they were, shifted.
struct Skip {
  size_t taken = 0;  // after so many tasks that have been taken one by one
  int first = 0, end = 0;
  int64_t shift_ns = 0;
};

// How far the taken tasks are from their committed times (replay_rejoin.cc).
struct ShiftState {
  int64_t shift_ns = 0;  // by which most of the last ones end later than they did
  int trust = 0;
  int64_t apart_ns = 0, old_apart_ns = 0;  // the latest ends, now and before, of those with another shift
  int64_t last_ns = 0, old_last_ns = 0;    // of all
  int taken = 0;                           // so many committed ones
  int place = 0;                           // the last of their committed places
  size_t removed = 0;                      // so many of the removed ones were up to there
  int look_from = 0;                       // to rejoin before this place would skip too little
};

// A task taken on a queue.
struct QueuedTask {
  int64_t ready_ns = 0;
  uint64_t key = 0;
  int task = 0;
  int64_t end_ns = 0;
  int64_t load_ns = 0;  // of the queue's tasks up to it
};

// A queue in the proposal; valid if `epoch` is the proposal's.
struct QueueNow {
  int64_t end_ns = 0;
  int64_t left_ns = 0;  // to be done by tasks not taken
  uint32_t epoch = 0;
  uint32_t skips = 0;  // it knows of so many
  size_t next = 0;     // in its committed order: no later than the first that neither it nor they have passed
};

// The sweep's knowledge of a task; valid if `epoch` is the proposal's.
struct SweptTask {
  int64_t ready_ns = 0;  // if nothing that it waits for is held up
  int64_t end_ns = 0;    // if it has arrived
  uint32_t epoch = 0;
  int waits = 0;           // for new tasks that have not arrived, and those that have departed and not arrived
  bool has_event = false;  // at its old place
  bool removed = false, departed = false, arrived = false;
  bool in_place = false;  // arrived at its old place
};

// The sweep's knowledge of a queue.
struct SweptQueue {
  size_t next = 0;       // the first in its old order that has not been passed
  int64_t end_ns = 0;    // of the last task taken
  int64_t moved_ns = 0;  // arrivals less departures
  uint32_t epoch = 0;
};

// The gain of sweeps, in tasks taken by the replay; the last ones count most.
struct SweepRecord {
  double spent = 0, saved = 0;  // if the replay followed, and if it did not
  double taken = 0;             // by a replay
  int proposals = 0;            // since the last sweep
};

enum class Verdict { kWithin, kAbove, kUndecided };

// The point at which the replay begins: the first place, and the (ready time, key) below which all stays. After a sweep
// it is the sweep's end, and tasks that it has met stand elsewhere than in the committed timeline.
struct ReplayStart {
  int place = 0;
  int64_t ready_ns = 0;
  uint64_t key = 0;
  bool after_sweep = false;
  int64_t shift_ns = 0;     // of tasks before it
  int64_t earliest_ns = 0;  // no task is ready before
};

}  // namespace partita::replay

namespace partita {

struct ReplayState : ProposedTasks {
  ReplayOptions options;
  int64_t makespan_ns = 0;
  std::vector<replay::CommittedTimes> done;
  std::vector<int> order;                             // by place: the task
  std::vector<int> last_before;                       // by place: the last place of the tasks it waits for, -1: none
  std::vector<int> least_before;                      // by kBlock places: the least of last_before
  std::vector<int64_t> end_ns;                        // by place: the latest end up to it
  std::vector<std::vector<replay::QueuedTask>> held;  // by queue
  std::vector<std::vector<int>> held_places;          // by queue: of those
  std::vector<int64_t> load_ns;                       // by queue
  replay::SweepRecord sweeps;

  // The proposal.
  bool exact = false;              // it was evaluated to its end
  std::vector<int64_t> change_ns;  // by queue: of its load
  std::vector<int> changed_queues;
  std::vector<int64_t> decrease_ns;  // by rank: an upper bound by how much tails of untouched slots may shrink
  replay::ReplayStart cut;           // K
  replay::ReplayStart from;          // the cut, the sweep's end, or the end of the last skip
  uint32_t round = 0;                // a run from there
  replay::ShiftState beside;
  std::vector<replay::ProposedTask> now;  // by task
  std::vector<replay::Waiting> waiting;   // by task
  std::vector<replay::QueueNow> queues;
  ReadyHeap heap;
  std::vector<replay::TouchedTask> touched_tasks;
  std::vector<replay::ScheduledTask> taken;
  std::vector<replay::ScheduledTask> scratch_taken;
  std::vector<replay::Skip> skips;
  std::vector<int> changed;  // new tasks, and those that wait for others than before
  std::vector<replay::SweptTask> swept;
  std::vector<replay::SweptQueue> swept_queues;
  std::vector<int> met;  // by the sweep
  bool has_run = false;  // `taken` and `skips` are all that is late
  int64_t new_makespan_ns = 0;
  std::vector<int> scratch_old, scratch_new;
  std::vector<uint64_t> dirty;  // by place: bits

  ReplayCounts counts;
};

}  // namespace partita

namespace partita::replay {

// In the order of a proposal's life. Finds the touched slots and the changes of queues' loads.
void begin_evaluation(ReplayState& s, const Replay::Exchanges& exchanges);
// Adds its new tasks and the edges of touched slots, and cuts the committed timeline.
void build_proposal(ReplayState& s);
// Tells whether the bounds at the cut of the queues whose loads change are within the threshold.
bool cut_queues(ReplayState& s, int64_t threshold_ns);
// Bounds tails of late tasks of touched slots from below, and how much others may shrink.
void bound_tails(ReplayState& s);
// Looks at the affected tasks alone, until these are many. Within: new_makespan_ns. Undecided: sets `from` to its end.
Verdict sweep_tasks(ReplayState& s, int64_t threshold_ns);
// Takes the tasks from `from` on. Returns whether the makespan, new_makespan_ns, is within the threshold.
bool replay_tasks(ReplayState& s, int64_t threshold_ns);
// Compares the run with the committed timeline at its begin.
void begin_beside(ReplayState& s);
// If the next task and all that follows are only shifted, skips to the next change, or to the end, and sets `from`.
// Returns whether it does.
bool try_rejoin(ReplayState& s, const ReadyTask& next);
// A cheap test that is false only if try_rejoin() is.
inline bool may_rejoin(const ReplayState& s, const ReadyTask& next) {
  return s.beside.place + 1 >= s.beside.look_from && next.ready_ns >= s.beside.apart_ns;
}
void commit_proposal(ReplayState& s);

// Returns the place that a task of this ready time and key would have.
int place_of(const ReplayState& s, int64_t ready_ns, uint64_t key);
// Returns the sweep's queue just before a task of this ready time and key is taken, and its work left then.
SweptQueue& queue_before(ReplayState& s, int queue, int64_t ready_ns, uint64_t key);
int64_t left_of(const ReplayState& s, int queue);

// Returns the index of the first task on a queue that was taken from a committed place on. Fast if it is near `guess`.
inline size_t held_from(const std::vector<int>& places, size_t guess, int place) {
  if (places.empty() || places.back() < place) return places.size();
  size_t begin = std::min(guess, places.size()), end = begin;
  for (size_t step = 1; begin > 0 && places[begin - 1] >= place; step *= 2)
    end = begin - 1, begin -= std::min(step, begin);
  for (size_t step = 1; end < places.size() && places[end] < place; step *= 2)
    begin = end + 1, end = std::min(end + step, places.size());
  const auto at = [&](size_t i) { return places.begin() + static_cast<std::ptrdiff_t>(i); };
  return static_cast<size_t>(std::lower_bound(at(begin), at(end), place) - places.begin());
}

inline bool is_late(const ReplayState& s, int task) { return s.tasks[static_cast<size_t>(task)].place >= s.cut.place; }

}  // namespace partita::replay

// Detects when the proposal becomes the committed timeline again, only later, and skips to the next change.
//
// Let the run be about to take a task that was ready `shift_ns` before. Suppose the tasks taken are those taken before
// this one then, but for new and removed ones. Suppose all of them that end later end `shift_ns` later than they did.
// Then the committed continuation follows, `shift_ns` later. A ready time is the later of ends before now and of
// shifted ends, and so are the ends of queues. That holds until the first removed task was ready, or until the first
// new task that waits for nothing new. Everything up to there is skipped.
//
// Example: every device computes ten layers, one after another, and the second takes 5 ns more on all of them. The
// third is ready 5 ns later on all devices, and so is the end. By then 4 of 40 tasks on four devices have been taken.
//
// Nothing is skipped until tasks with another shift have ended in both timelines, and removed ones in the committed
// one.
#include <algorithm>
#include <limits>

#include "partita/task_graph/replay_state.h"

namespace partita::replay {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// The search for the next change looks at all changes in turn: so many take as long as one task. So it pays only once
// in so many tasks.
constexpr size_t kChangesATask = 8;

bool is_new(const ReplayState& s, int task) { return task >= s.task_count; }

// Adds tasks that the sweep has met at their new places.
void add_swept(ReplayState& s) {
  ShiftState& beside = s.beside;
  for (const int t : s.met) {
    const SweptTask& swept = s.swept[at(t)];
    if (swept.arrived) {
      beside.apart_ns = std::max(beside.apart_ns, swept.end_ns);
      beside.last_ns = std::max(beside.last_ns, swept.end_ns);
      if (is_new(s, t)) s.done[at(t)].end_ns = swept.end_ns;
    }
    if (is_new(s, t)) continue;
    const int place = s.tasks[at(t)].place;
    if (swept.arrived || place < s.from.place) {
      beside.old_apart_ns = std::max(beside.old_apart_ns, s.done[at(t)].end_ns);
      beside.old_last_ns = std::max(beside.old_last_ns, s.done[at(t)].end_ns);
    }
    if (swept.removed) continue;
    if (swept.arrived && place >= s.from.place) ++beside.taken, beside.place = std::max(beside.place, place);
    if (!swept.arrived && swept.departed && place < s.from.place) --beside.taken;
  }
}

// Passes removed tasks up to the last place that has been taken.
void pass_removed(ReplayState& s) {
  ShiftState& beside = s.beside;
  for (; beside.removed < s.removed.size(); ++beside.removed) {
    const int task = s.removed[beside.removed];
    if (s.tasks[at(task)].place > beside.place) return;
    beside.old_apart_ns = std::max(beside.old_apart_ns, s.done[at(task)].end_ns);
  }
}

// The first change to come if all taken tasks are shifted.
ReplayStart next_change(ReplayState& s, int64_t now_ns) {
  const int64_t shift_ns = s.beside.shift_ns;
  ReplayStart change{.place = static_cast<int>(s.order.size()), .ready_ns = std::numeric_limits<int64_t>::max()};
  const auto add = [&](int64_t ready_ns, uint64_t key) {
    if (ready_ns < change.ready_ns || (ready_ns == change.ready_ns && key < change.key))
      change.ready_ns = ready_ns, change.key = key;
  };
  const auto add_old = [&](int t) { add(s.done[at(t)].ready_ns + shift_ns, s.tasks[at(t)].key); };
  if (s.beside.removed < s.removed.size()) add_old(s.removed[s.beside.removed]);
  for (const int t : s.changed) {
    if (is_new(s, t) ? s.done[at(t)].end_ns > 0 : s.tasks[at(t)].place <= s.beside.place) continue;
    if (!is_new(s, t)) add_old(t);
    int64_t ready_ns = now_ns;
    const Edges& edges = s.touched_tasks[at(s.now[at(t)].touched)].edges;
    bool waits_for_new = false;
    for (int e = edges.before; e < edges.end; ++e) {
      const int from = s.edges[at(e)];
      if (is_new(s, from) && s.done[at(from)].end_ns == 0) waits_for_new = true;
      ready_ns = std::max(ready_ns, s.done[at(from)].end_ns + (is_new(s, from) ? 0 : shift_ns));
    }
    if (!waits_for_new) add(ready_ns, s.tasks[at(t)].key);
  }
  if (change.ready_ns < std::numeric_limits<int64_t>::max())
    change.place = place_of(s, change.ready_ns - shift_ns, change.key);
  return change;
}

}  // namespace

void begin_beside(ReplayState& s) {
  for (int t = s.task_count; t < s.new_count; ++t) s.done[at(t)] = {};
  std::sort(s.removed.begin(), s.removed.end(),
            [&](int a, int b) { return s.tasks[at(a)].place < s.tasks[at(b)].place; });
  const int64_t end_ns = s.from.place == 0 ? 0 : s.end_ns[at(s.from.place) - 1];
  s.beside = {.last_ns = end_ns, .old_last_ns = end_ns, .taken = s.from.place, .place = s.from.place - 1};
  pass_removed(s);
  s.beside.taken -= static_cast<int>(s.beside.removed);
  if (s.from.after_sweep) add_swept(s);
}

bool try_rejoin(ReplayState& s, const ReadyTask& next) {
  ShiftState& beside = s.beside;
  const int first = beside.place + 1;
  if (is_new(s, next.task) || s.tasks[at(next.task)].place != first) return false;
  pass_removed(s);
  if (beside.taken + static_cast<int>(beside.removed) != first) return false;
  const int64_t old_ns = s.done[at(next.task)].ready_ns;
  if (old_ns < beside.old_apart_ns || next.ready_ns - old_ns != beside.shift_ns) return false;
  ReplayStart to = next_change(s, next.ready_ns);
  const int worth = static_cast<int>(s.changed.size() / kChangesATask);
  if (to.place - first < std::max(s.options.least_skip, worth))
    return beside.look_from = std::max(to.place, first + worth), false;
  to.shift_ns = beside.shift_ns;
  to.earliest_ns = next.ready_ns;
  s.skips.push_back({s.taken.size(), first, to.place, to.shift_ns});
  s.from = to;
  beside.taken += to.place - first;
  beside.place = to.place - 1;
  beside.last_ns = std::max(beside.last_ns, s.end_ns[at(to.place) - 1] + to.shift_ns);
  beside.old_last_ns = std::max(beside.old_last_ns, s.end_ns[at(to.place) - 1]);
  beside.look_from = to.place;
  ++s.counts.skips;
  return true;
}

}  // namespace partita::replay

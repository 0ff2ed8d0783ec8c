// Simulates only the tasks that a proposal affects, in the order of time.
//
// A committed task is affected if a task it waits for ends at another time, or one of its queues becomes free at
// another time. The sweep goes through events in the order of (ready time, key). At its old place an affected task is
// taken as before, if it is ready then, or departs from there. It arrives at its ready time in the proposal. A task
// that has departed and not arrived holds up all that wait for it, whose old places are later. After each event the
// next task of the queue, in its old order, is affected if the queue is free at another time for it. So each affected
// task is met before its old place, every event is final, and tasks that are not met stay as they are.
//
// Example: two branches of ten tasks each are on a queue each, and a last task waits for both. The first of the shorter
// branch is exchanged for a longer task. Ten tasks arrive later than they were; if the last one does not, nothing else
// has been looked at.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/task_graph/replay_state.h"

namespace partita::replay {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

bool is_new(const ReplayState& s, int task) { return task >= s.task_count; }

}  // namespace

// The queue before a task of this time and key; tasks between the last event and now stay.
SweptQueue& queue_before(ReplayState& s, int queue, int64_t ready_ns, uint64_t key) {
  SweptQueue& swept = s.swept_queues[at(queue)];
  const std::vector<QueuedTask>& held = s.held[at(queue)];
  const auto before = [&](const QueuedTask& of) {
    return of.ready_ns != ready_ns ? of.ready_ns < ready_ns : of.key < key;
  };
  const bool known = swept.epoch == s.epoch;
  if (!known) swept = {.epoch = s.epoch};
  if (known && (swept.next == held.size() || !before(held[swept.next]))) return swept;
  swept.next = static_cast<size_t>(
      std::partition_point(held.begin() + static_cast<std::ptrdiff_t>(swept.next), held.end(), before) - held.begin());
  swept.end_ns = swept.next == 0 ? 0 : held[swept.next - 1].end_ns;
  return swept;
}

int64_t left_of(const ReplayState& s, int queue) {
  const SweptQueue& swept = s.swept_queues[at(queue)];
  const int64_t before_ns = swept.next == 0 ? 0 : s.held[at(queue)][swept.next - 1].load_ns;
  return s.load_ns[at(queue)] + s.change_ns[at(queue)] - before_ns - swept.moved_ns;
}

namespace {

const Edges& edges_of(const ReplayState& s, int task) {
  const ProposedTask& now = s.now[at(task)];
  return now.epoch == s.epoch ? s.touched_tasks[at(now.touched)].edges : s.tasks[at(task)].edges;
}

// Meets a task; until there is news, it is ready when it was.
SweptTask& meet(ReplayState& s, int task) {
  SweptTask& swept = s.swept[at(task)];
  if (swept.epoch == s.epoch) return swept;
  s.met.push_back(task);
  swept = {.ready_ns = is_new(s, task) ? 0 : s.done[at(task)].ready_ns, .epoch = s.epoch};
  return swept;
}

void push_old_place(ReplayState& s, int task, SweptTask& swept) {
  if (is_new(s, task) || swept.has_event) return;
  swept.has_event = true;
  s.heap.push({s.done[at(task)].ready_ns, s.tasks[at(task)].key, task});
}

// Schedules the events that follow from the task's current state.
void schedule(ReplayState& s, int task, SweptTask& swept) {
  push_old_place(s, task, swept);
  if (swept.waits > 0) return;
  if (is_new(s, task) || swept.ready_ns != s.done[at(task)].ready_ns)
    s.heap.push({swept.ready_ns, s.tasks[at(task)].key, task});
}

int64_t end_of(const ReplayState& s, int task) {
  const SweptTask& swept = s.swept[at(task)];
  return swept.epoch == s.epoch && swept.arrived ? swept.end_ns : s.done[at(task)].end_ns;
}

// When all it waits for has ended; none is held up.
int64_t ready_of(const ReplayState& s, int task) {
  const Edges& edges = edges_of(s, task);
  int64_t ready_ns = 0;
  for (int e = edges.before; e < edges.end; ++e) ready_ns = std::max(ready_ns, end_of(s, s.edges[at(e)]));
  return ready_ns;
}

// Whether the next task finds the queue free at another time than it did.
void look_at_next(ReplayState& s, int queue) {
  const SweptQueue& swept = s.swept_queues[at(queue)];
  const std::vector<QueuedTask>& held = s.held[at(queue)];
  if (swept.next == held.size()) return;
  const QueuedTask& next = held[swept.next];
  const int64_t old_end_ns = swept.next == 0 ? 0 : held[swept.next - 1].end_ns;
  if (std::max(swept.end_ns, next.ready_ns) == std::max(old_end_ns, next.ready_ns)) return;
  push_old_place(s, next.task, meet(s, next.task));
}

// Tells the tasks that wait for it. `held_up`: whether they were told to wait. They do not wait otherwise for a task
// that is taken in its old place, and ends when it did.
void tell_of_end(ReplayState& s, int task, bool held_up) {
  const int64_t end_ns = s.swept[at(task)].end_ns;
  if (s.swept[at(task)].in_place && end_ns == s.done[at(task)].end_ns) return;
  const Edges edges = edges_of(s, task);
  for (int e = edges.after; e < edges.before; ++e) {
    const int next = s.edges[at(e)];
    SweptTask& then = meet(s, next);
    if (held_up && --then.waits > 0) continue;
    if (!held_up && then.waits > 0) continue;
    const int64_t was_ns = then.ready_ns;
    if (held_up || (s.done[at(task)].end_ns == was_ns && end_ns < was_ns)) then.ready_ns = ready_of(s, next);
    else then.ready_ns = std::max(was_ns, end_ns);
    if (held_up || then.ready_ns != was_ns) schedule(s, next, then);
  }
}

void hold_up(ReplayState& s, int task) {
  const Edges edges = edges_of(s, task);
  for (int e = edges.after; e < edges.before; ++e) {
    SweptTask& then = meet(s, s.edges[at(e)]);
    ++then.waits;
    push_old_place(s, s.edges[at(e)], then);
  }
}

// Takes a task at its new time. False if a bound is above the threshold.
bool arrive(ReplayState& s, int t, bool in_place, int64_t threshold_ns) {
  const Task& task = s.tasks[at(t)];
  SweptTask& swept = s.swept[at(t)];
  int64_t start_ns = swept.ready_ns, left_ns = 0;
  for (int q = 0; q < task.queue_count; ++q)
    start_ns = std::max(start_ns, queue_before(s, task.queues[q], swept.ready_ns, task.key).end_ns);
  swept.end_ns = start_ns + task.duration_ns;
  swept.arrived = true;
  for (int q = 0; q < task.queue_count; ++q) {
    SweptQueue& queue = s.swept_queues[at(task.queues[q])];
    queue.end_ns = swept.end_ns;
    if (in_place) ++queue.next;
    else queue.moved_ns += task.duration_ns;
    left_ns = std::max(left_ns, left_of(s, task.queues[q]));
    look_at_next(s, task.queues[q]);
  }
  const ProposedTask& now = s.now[at(t)];
  const int64_t tail_ns =
      now.epoch == s.epoch ? s.touched_tasks[at(now.touched)].tail_ns : task.tail_ns - s.decrease_ns[at(task.rank)];
  if (swept.end_ns + tail_ns > threshold_ns) return ++s.counts.by_tails, false;
  if (swept.end_ns + left_ns > threshold_ns) return ++s.counts.by_queues, false;
  tell_of_end(s, t, !in_place && (is_new(s, t) || swept.departed));
  return true;
}

// Takes a task from its old place; it may have arrived before.
void depart(ReplayState& s, int t) {
  const Task& task = s.tasks[at(t)];
  const SweptTask& swept = s.swept[at(t)];
  for (int q = 0; q < task.queue_count; ++q) {
    SweptQueue& queue = queue_before(s, task.queues[q], s.done[at(t)].ready_ns, task.key);
    ++queue.next;
    queue.moved_ns -= task.duration_ns;
    look_at_next(s, task.queues[q]);
  }
  if (!swept.arrived && !swept.removed) hold_up(s, t);
}

void begin_events(ReplayState& s) {
  s.heap.clear();
  s.met.clear();
  for (const int task : s.removed) {
    SweptTask& swept = meet(s, task);
    swept.removed = true;
    push_old_place(s, task, swept);
  }
  for (const int task : s.changed) meet(s, task);
  for (const int task : s.changed) {
    SweptTask& swept = s.swept[at(task)];
    const Edges& edges = edges_of(s, task);
    int64_t ready_ns = 0;
    for (int e = edges.before; e < edges.end; ++e) {
      const int from = s.edges[at(e)];
      if (is_new(s, from)) ++swept.waits;
      else ready_ns = std::max(ready_ns, s.done[at(from)].end_ns);
    }
    const bool moves = is_new(s, task) || swept.waits > 0 || ready_ns != swept.ready_ns;
    swept.ready_ns = ready_ns;
    if (moves) schedule(s, task, swept);
  }
}

int64_t latest_end(const ReplayState& s) {
  int64_t end_ns = 0;
  for (size_t queue = 0; queue < s.held.size(); ++queue) {
    const SweptQueue& swept = s.swept_queues[queue];
    const std::vector<QueuedTask>& held = s.held[queue];
    if (swept.epoch == s.epoch && swept.next == held.size()) end_ns = std::max(end_ns, swept.end_ns);
    else if (!held.empty()) end_ns = std::max(end_ns, held.back().end_ns);
  }
  return end_ns;
}

// Tells whether so many events take longer than the replay of all they have passed.
bool is_dense(const ReplayState& s, int64_t events, int64_t ready_ns) {
  if (events < s.options.least_events) return false;
  const double late = static_cast<double>(s.order.size()) - s.cut.place;
  const double passed = static_cast<double>(ready_ns - s.cut.ready_ns) /
                        static_cast<double>(std::max<int64_t>(s.makespan_ns - s.cut.ready_ns, 1));
  return static_cast<double>(events - s.options.least_events) * s.options.tasks_an_event >= late * passed;
}

}  // namespace

Verdict sweep_tasks(ReplayState& s, int64_t threshold_ns) {
  begin_events(s);
  for (int64_t events = 0; !s.heap.empty();) {
    const ReadyTask top = s.heap.top();
    SweptTask& swept = s.swept[at(top.task)];
    const bool at_old_place =
        !is_new(s, top.task) && !swept.departed && !swept.in_place && top.ready_ns == s.done[at(top.task)].ready_ns;
    const bool arrives = !swept.removed && !swept.arrived && swept.waits == 0 && swept.ready_ns == top.ready_ns;
    if ((at_old_place || arrives) && is_dense(s, events, top.ready_ns)) {
      s.from = {place_of(s, top.ready_ns, top.key), top.ready_ns, top.key, true};
      return Verdict::kUndecided;
    }
    s.heap.pop();
    if (!at_old_place && !arrives) continue;
    ++events;
    ++s.counts.swept;
    if (arrives) {
      swept.in_place = at_old_place;
      if (!arrive(s, top.task, at_old_place, threshold_ns)) return Verdict::kAbove;
    } else {
      swept.departed = true;
      depart(s, top.task);
    }
  }
  s.new_makespan_ns = latest_end(s);
  return s.new_makespan_ns > threshold_ns ? Verdict::kAbove : Verdict::kWithin;
}

}  // namespace partita::replay

// Simulates everything after the cut again.
#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/task_graph/replay_state.h"

namespace partita::replay {

namespace {

constexpr int kMostTrust = 8;

size_t at(int i) { return static_cast<size_t>(i); }

bool is_new(const ReplayState& s, int task) { return task >= s.task_count; }

// Tells whether it was not taken before `from`.
bool is_open(const ReplayState& s, int task) {
  if (is_new(s, task)) return s.done[at(task)].end_ns == 0;
  if (s.from.after_sweep && s.swept[at(task)].epoch == s.epoch) {
    const SweptTask& swept = s.swept[at(task)];
    if (swept.arrived || swept.removed) return false;
    if (swept.departed) return true;
  }
  return s.tasks[at(task)].place >= s.from.place;
}

// The end of a task that is not open. An end before the run rejoined is no later than `from.earliest_ns`.
int64_t end_of(const ReplayState& s, int task) {
  if (is_new(s, task)) return s.done[at(task)].end_ns;
  const SweptTask& swept = s.swept[at(task)];
  if (s.from.after_sweep && swept.epoch == s.epoch && swept.arrived) return swept.end_ns;
  return s.done[at(task)].end_ns + s.from.shift_ns;
}

// Counts the open tasks that it waits for, and sets when it is ready by the others.
void wait(ReplayState& s, Waiting& waiting, const Edges& edges) {
  waiting.round = s.round;
  waiting.waits = 0;
  waiting.ready_ns = s.from.earliest_ns;
  for (int e = edges.before; e < edges.end; ++e) {
    const int from = s.edges[at(e)];
    if (is_open(s, from)) ++waiting.waits;
    else waiting.ready_ns = std::max(waiting.ready_ns, end_of(s, from));
  }
}

// Meets an open task first that has not changed and that the sweep has not met. The tasks it waits for are in their
// committed places.
inline void meet(ReplayState& s, Waiting& waiting, int task) {
  if (waiting.first_before < s.from.place) return wait(s, waiting, s.tasks[at(task)].edges);
  waiting.round = s.round;
  waiting.ready_ns = 0;
  waiting.waits = waiting.before;
}

void push(ReplayState& s, int task, const Waiting& waiting) { s.heap.push({waiting.ready_ns, waiting.key, task}); }

void open(ReplayState& s, int task, const Edges& edges) {
  if (!is_open(s, task)) return;
  Waiting& waiting = s.waiting[at(task)];
  wait(s, waiting, edges);
  if (waiting.waits == 0) push(s, task, waiting);
}

// Pushes committed tasks without news in this round.
void push_ready_of_place(ReplayState& s, int place) {
  const int task = s.order[at(place)];
  Waiting& waiting = s.waiting[at(task)];
  if (s.now[at(task)].changed == s.epoch || waiting.round == s.round) return;
  waiting.round = s.round;
  waiting.ready_ns = std::max(s.done[at(task)].ready_ns + s.from.shift_ns, s.from.earliest_ns);
  push(s, task, waiting);
}

// Pushes the open tasks that are ready when the first one is taken.
void push_ready(ReplayState& s) {
  s.heap.clear();
  ++s.round;
  for (const int task : s.changed) open(s, task, s.touched_tasks[at(s.now[at(task)].touched)].edges);
  if (s.from.after_sweep)
    for (const int task : s.met) {
      if (s.now[at(task)].changed == s.epoch) continue;
      s.waiting[at(task)].round = s.round;
      open(s, task, s.tasks[at(task)].edges);
    }
  const size_t from = at(s.from.place), count = s.order.size();
  for (size_t block = from / kBlock; block * kBlock < count; ++block) {
    if (s.least_before[block] >= s.from.place) continue;
    const size_t end = std::min((block + 1) * kBlock, count);
    for (size_t place = std::max(block * kBlock, from); place < end; ++place)
      if (s.last_before[place] < s.from.place) push_ready_of_place(s, static_cast<int>(place));
  }
}

// Sets the queue as it is at `from`.
void cut_queue(ReplayState& s, size_t queue, size_t guess) {
  QueueNow& now = s.queues[queue];
  now.epoch = s.epoch;
  now.skips = static_cast<uint32_t>(s.skips.size());
  if (s.from.after_sweep) {
    const int number = static_cast<int>(queue);
    const SweptQueue& swept = queue_before(s, number, s.from.ready_ns, s.from.key);
    now.end_ns = swept.end_ns;
    now.left_ns = left_of(s, number);
    now.next = swept.next;
    return;
  }
  const std::vector<QueuedTask>& held = s.held[queue];
  now.next = held_from(s.held_places[queue], guess, s.from.place);
  now.end_ns = now.next == 0 ? 0 : held[now.next - 1].end_ns + s.from.shift_ns;
  now.left_ns = s.load_ns[queue] + s.change_ns[queue] - (now.next == 0 ? 0 : held[now.next - 1].load_ns);
}

// Moves the queue past all skips since a task was taken on it.
void skip_on_queue(ReplayState& s, size_t queue, size_t guess) {
  QueueNow& now = s.queues[queue];
  const std::vector<QueuedTask>& held = s.held[queue];
  const std::vector<int>& places = s.held_places[queue];
  const size_t first = held_from(places, now.next, s.skips[now.skips].first);
  now.skips = static_cast<uint32_t>(s.skips.size());
  now.next = held_from(places, std::max(first, guess), s.from.place);
  if (now.next == first) return;
  now.end_ns = held[now.next - 1].end_ns + s.from.shift_ns;
  now.left_ns -= held[now.next - 1].load_ns - (first == 0 ? 0 : held[first - 1].load_ns);
}

[[gnu::noinline]] void look_at_queue(ReplayState& s, size_t queue, size_t guess) {
  if (s.queues[queue].epoch != s.epoch) cut_queue(s, queue, guess);
  else skip_on_queue(s, queue, guess);
}

// `guess`: the approximate index of its first task not taken.
inline QueueNow& queue_now(ReplayState& s, int queue, size_t guess) {
  QueueNow& now = s.queues[at(queue)];
  if (now.epoch != s.epoch || now.skips != s.skips.size()) look_at_queue(s, at(queue), guess);
  return now;
}

// Guesses as if its tasks had come at equal intervals.
QueueNow& queue_now(ReplayState& s, int queue) {
  const size_t places = std::max<size_t>(s.order.size(), 1);
  return queue_now(s, queue, s.held[at(queue)].size() * at(s.from.place) / places);
}

}  // namespace

bool cut_queues(ReplayState& s, int64_t threshold_ns) {
  int64_t bound_ns = s.cut.place == 0 ? 0 : s.end_ns[at(s.cut.place) - 1];
  for (const int queue : s.changed_queues) {
    const QueueNow& now = queue_now(s, queue);
    if (now.left_ns > 0) bound_ns = std::max(bound_ns, std::max(now.end_ns, s.cut.ready_ns) + now.left_ns);
  }
  return bound_ns <= threshold_ns;
}

namespace {

// Starts the task on all its queues and ends it. Returns its end, and the most work left on one of its queues.
std::pair<int64_t, int64_t> hold_queues(ReplayState& s, int t, const Task& task, int64_t ready_ns) {
  if (task.queue_count == 1) {
    const size_t held = at(s.done[at(t)].held);
    QueueNow& queue = queue_now(s, task.queue, held);
    queue.next = std::max(queue.next, held);
    queue.end_ns = std::max(ready_ns, queue.end_ns) + task.duration_ns;
    queue.left_ns -= task.duration_ns;
    return {queue.end_ns, queue.left_ns};
  }
  int64_t start_ns = ready_ns, left_ns = 0;
  for (int q = 0; q < task.queue_count; ++q) start_ns = std::max(start_ns, queue_now(s, task.queues[q]).end_ns);
  for (int q = 0; q < task.queue_count; ++q) {
    QueueNow& queue = s.queues[at(task.queues[q])];
    queue.end_ns = start_ns + task.duration_ns;
    queue.left_ns -= task.duration_ns;
    left_ns = std::max(left_ns, queue.left_ns);
  }
  return {start_ns + task.duration_ns, left_ns};
}

}  // namespace

namespace {

// Compares the run with the committed timeline after the task.
void note(ReplayState& s, int t, int64_t end_ns) {
  ShiftState& beside = s.beside;
  beside.last_ns = std::max(beside.last_ns, end_ns);
  if (is_new(s, t)) {
    s.done[at(t)].end_ns = end_ns;
    beside.apart_ns = std::max(beside.apart_ns, end_ns);
    return;
  }
  const int64_t old_end_ns = s.done[at(t)].end_ns;
  ++beside.taken;
  beside.place = std::max(beside.place, s.tasks[at(t)].place);
  beside.old_last_ns = std::max(beside.old_last_ns, old_end_ns);
  if (end_ns - old_end_ns == beside.shift_ns) {
    beside.trust = std::min(beside.trust + 1, kMostTrust);
  } else if (beside.trust-- > 0) {
    beside.apart_ns = std::max(beside.apart_ns, end_ns);
    beside.old_apart_ns = std::max(beside.old_apart_ns, old_end_ns);
  } else {
    beside.shift_ns = end_ns - old_end_ns;
    beside.trust = 1;
    beside.apart_ns = beside.last_ns;
    beside.old_apart_ns = std::max(beside.old_apart_ns, beside.old_last_ns);
  }
}

// Takes the task at the heap's top. Returns whether the chain behind it allows a makespan within the threshold.
bool take_task(ReplayState& s, int64_t threshold_ns) {
  const int t = s.heap.top().task;
  const Task& task = s.tasks[at(t)];
  const ProposedTask& now = s.now[at(t)];
  const TouchedTask* const touched = now.epoch == s.epoch ? &s.touched_tasks[at(now.touched)] : nullptr;
  const Edges& edges = touched ? touched->edges : task.edges;
  const int64_t ready_ns = s.heap.top().ready_ns;
  const auto [end_ns, left_ns] = hold_queues(s, t, task, ready_ns);
  s.taken.push_back({.task = t, .ready_ns = ready_ns, .end_ns = end_ns});
  note(s, t, end_ns);
  if (touched
          ? end_ns + touched->tail_ns > threshold_ns
          : end_ns + task.tail_ns > threshold_ns && end_ns + task.tail_ns - s.decrease_ns[at(task.rank)] > threshold_ns)
    return ++s.counts.by_tails, false;
  if (end_ns + left_ns > threshold_ns) return ++s.counts.by_queues, false;
  bool at_top = true;
  for (int e = edges.after; e < edges.before; ++e) {
    const int next = s.edges[at(e)];
    Waiting& then = s.waiting[at(next)];
    if (then.round != s.round) meet(s, then, next);
    then.ready_ns = std::max(then.ready_ns, end_ns);
    if (--then.waits > 0) continue;
    const ReadyTask ready{then.ready_ns, then.key, next};
    at_top ? s.heap.replace_top(ready) : s.heap.push(ready);
    at_top = false;
  }
  if (at_top) s.heap.pop();
  return true;
}

// The end, when all tasks have been taken or skipped; a sweep may have taken some. A queue without news ends as it did,
// or as much later as its last task.
int64_t last_end(ReplayState& s) {
  int64_t end_ns = 0;
  for (size_t queue = 0; queue < s.queues.size(); ++queue) {
    if (s.queues[queue].epoch == s.epoch) {
      end_ns = std::max(end_ns, queue_now(s, static_cast<int>(queue)).end_ns);
    } else if (!s.held[queue].empty()) {
      const int last = s.held_places[queue].back();
      const auto skip =
          std::find_if(s.skips.rbegin(), s.skips.rend(), [&](const Skip& of) { return of.first <= last; });
      end_ns = std::max(end_ns, s.held[queue].back().end_ns + (skip == s.skips.rend() ? 0 : skip->shift_ns));
    }
  }
  return end_ns;
}

// Begins queues with tasks that moved before the run begins, or that are added or removed.
void begin_queues(ReplayState& s) {
  if (s.from.after_sweep)
    for (const int queue : s.changed_queues) s.queues[at(queue)].epoch = 0;  // known at the cut
  for (const int queue : s.changed_queues) queue_now(s, queue);
  if (!s.from.after_sweep) return;
  for (size_t queue = 0; queue < s.queues.size(); ++queue)
    if (s.swept_queues[queue].epoch == s.epoch) queue_now(s, static_cast<int>(queue));
}

}  // namespace

bool replay_tasks(ReplayState& s, int64_t threshold_ns) {
  s.taken.clear();
  s.skips.clear();
  s.has_run = !s.from.after_sweep;
  begin_queues(s);
  begin_beside(s);
  push_ready(s);
  while (!s.heap.empty()) {
    if (may_rejoin(s, s.heap.top()) && try_rejoin(s, s.heap.top())) push_ready(s);
    else if (!take_task(s, threshold_ns)) return false;
  }
  s.new_makespan_ns = s.has_run ? s.beside.last_ns : last_end(s);
  return s.new_makespan_ns <= threshold_ns;
}

}  // namespace partita::replay

// What comes after the cut, simulated again.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/sim/replay_state.h"

namespace partita::replay {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// Sets what a late task waits for, and when it is ready if that is nothing late. `edges` are its own in the proposal.
void wait(ReplayState& s, Now& now) {
  now.waits = 0;
  now.ready_ns = 0;
  for (int e = now.edges.before; e < now.edges.before_end; ++e) {
    const Done& done = s.done[at(s.edges[at(e)])];
    if (done.place < s.cut) now.ready_ns = std::max(now.ready_ns, done.end_ns);
    else ++now.waits;
  }
}

void push(ReplayState& s, int task) {
  s.now[at(task)].last_before = kBeforeCut;
  s.heap.push({s.now[at(task)].ready_ns, s.tasks[at(task)].key, task});
}

// The tasks that are ready when the first late one is taken.
void push_ready(ReplayState& s) {
  s.heap.clear();
  for (const int slot : s.touched) {
    const int first = s.slots[at(slot)].first, size = s.size_now(slot);
    for (int task = first; task < first + size; ++task) {
      if (!is_late(s, task)) continue;
      Now& now = s.now[at(task)];
      now.epoch = s.epoch;
      wait(s, now);
      if (now.waits == 0) push(s, task);
    }
  }
  const int count = static_cast<int>(s.order.size());
  const int* const last_before = s.last_before.data();
  for (int block = s.cut; block < count; block += 64) {
    const int end = std::min(block + 64, count);
    int least = s.cut;
    for (int place = block; place < end; ++place) least = std::min(least, last_before[place]);
    if (least == s.cut) continue;
    for (int place = block; place < end; ++place) {
      const int task = s.order[at(place)];
      if (last_before[place] >= s.cut || s.now[at(task)].epoch == s.epoch) continue;
      Now& now = s.now[at(task)];
      now.epoch = s.epoch;
      now.edges = s.of[at(task)];
      now.ready_ns = s.done[at(task)].ready_ns;
      push(s, task);
    }
  }
}

int64_t tail_ns(const ReplayState& s, int task) {
  return s.now[at(task)].tail_epoch == s.epoch ? s.now[at(task)].tail_ns
                                               : s.done[at(task)].tail_ns - s.decrease_ns[at(s.tasks[at(task)].rank)];
}

}  // namespace

bool cut_queues(ReplayState& s, int64_t threshold_ns) {
  s.new_makespan_ns = s.cut == 0 ? 0 : s.end_ns[at(s.cut) - 1];
  int64_t bound_ns = s.new_makespan_ns;
  for (size_t queue = 0; queue < s.queues.size(); ++queue) {
    const std::vector<Held>& held = s.held[queue];
    const auto late =
        std::partition_point(held.begin(), held.end(), [&](const Held& task) { return task.place < s.cut; });
    const Held before = late == held.begin() ? Held{} : *(late - 1);
    const int64_t left_ns = s.load_ns[queue] + s.change_ns[queue] - before.load_ns;
    s.queues[queue] = {before.end_ns, left_ns};
    if (left_ns > 0) bound_ns = std::max(bound_ns, std::max(before.end_ns, s.cut_ns) + left_ns);
  }
  return bound_ns <= threshold_ns;
}

bool run(ReplayState& s, int64_t threshold_ns) {
  push_ready(s);
  s.taken.clear();
  int64_t makespan_ns = s.new_makespan_ns;
  while (!s.heap.empty()) {
    const int task = s.heap.top().task;
    const Task& of = s.tasks[at(task)];
    Now& now = s.now[at(task)];
    int64_t start_ns = now.ready_ns, left_ns = 0;
    for (int q = 0; q < of.queue_count; ++q) start_ns = std::max(start_ns, s.queues[at(of.queues[q])].end_ns);
    const int64_t end_ns = start_ns + of.duration_ns;
    for (int q = 0; q < of.queue_count; ++q) {
      QueueNow& queue = s.queues[at(of.queues[q])];
      queue.end_ns = end_ns;
      queue.left_ns -= of.duration_ns;
      left_ns = std::max(left_ns, queue.left_ns);
    }
    now.start_ns = start_ns;
    now.end_ns = end_ns;
    const int place = s.cut + static_cast<int>(s.taken.size());
    s.taken.push_back(task);
    if (end_ns + tail_ns(s, task) > threshold_ns) return ++s.counts.by_tails, false;
    if (end_ns + left_ns > threshold_ns) return ++s.counts.by_queues, false;
    makespan_ns = std::max(makespan_ns, end_ns);
    bool at_top = true;
    for (int e = now.edges.after; e < now.edges.after_end; ++e) {
      const int next = s.edges[at(e)];
      Now& then = s.now[at(next)];
      if (then.epoch != s.epoch) {
        then.epoch = s.epoch;
        then.edges = s.of[at(next)];
        wait(s, then);
      }
      then.ready_ns = std::max(then.ready_ns, end_ns);
      if (--then.waits > 0) continue;
      then.last_before = place;
      const ReadyTask ready{then.ready_ns, s.tasks[at(next)].key, next};
      at_top ? s.heap.replace_top(ready) : s.heap.push(ready);
      at_top = false;
    }
    if (at_top) s.heap.pop();
  }
  s.new_makespan_ns = makespan_ns;
  return true;
}

}  // namespace partita::replay

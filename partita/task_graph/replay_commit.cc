// Commits a proposal: it becomes the committed timeline.
#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/task_graph/replay_state.h"

namespace partita::replay {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// Sets the places of the tasks it waits for, which were taken before it.
void set_places(ReplayState& s, int place, int t) {
  const Edges& edges = s.tasks[at(t)].edges;
  int first = std::numeric_limits<int>::max(), last = -1;
  for (int e = edges.before; e < edges.end; ++e) {
    const int from = s.tasks[at(s.edges[at(e)])].place;
    first = std::min(first, from);
    last = std::max(last, from);
  }
  s.waiting[at(t)].before = edges.end - edges.before;
  s.waiting[at(t)].first_before = last < 0 ? -1 : first;
  s.last_before[at(place)] = last;
}

// Puts skipped tasks among the taken ones.
void take_skips(ReplayState& s) {
  if (s.skips.empty()) return;
  std::vector<ScheduledTask>& all = s.scratch_taken;
  all.clear();
  size_t next = 0;
  for (const Skip& skip : s.skips) {
    for (; next < skip.taken; ++next) all.push_back(s.taken[next]);
    for (int place = skip.first; place < skip.end; ++place) {
      const int task = s.order[at(place)];
      const CommittedTimes& done = s.done[at(task)];
      const bool waits_here = s.waiting[at(task)].first_before >= skip.first;
      all.push_back({task, waits_here ? place - s.last_before[at(place)] : 0, done.ready_ns + skip.shift_ns,
                     done.end_ns + skip.shift_ns});
    }
  }
  all.insert(all.end(), s.taken.begin() + static_cast<std::ptrdiff_t>(next), s.taken.end());
  std::swap(s.taken, all);
}

void take_new_tasks(ReplayState& s) {
  s.order.resize(at(s.cut.place));
  s.last_before.resize(at(s.cut.place) + s.taken.size());
  s.end_ns.resize(s.last_before.size());
  for (const ScheduledTask& taken : s.taken) {
    const int place = static_cast<int>(s.order.size());
    s.order.push_back(taken.task);
    s.done[at(taken.task)] = {.ready_ns = taken.ready_ns, .end_ns = taken.end_ns};
    const int old_place = std::exchange(s.tasks[at(taken.task)].place, place);
    if (taken.back > 0) {
      s.waiting[at(taken.task)].first_before += place - old_place;
      s.last_before[at(place)] = place - taken.back;
    } else {
      set_places(s, place, taken.task);
    }
    s.end_ns[at(place)] = std::max(place == 0 ? 0 : s.end_ns[at(place) - 1], taken.end_ns);
  }
  s.least_before.resize(s.order.size() / kBlock + 1);
  for (size_t block = at(s.cut.place) / kBlock; block < s.least_before.size(); ++block) {
    const auto first = s.last_before.begin() + static_cast<std::ptrdiff_t>(block * kBlock);
    const auto end =
        s.last_before.begin() + static_cast<std::ptrdiff_t>(std::min((block + 1) * kBlock, s.order.size()));
    s.least_before[block] = first == end ? kLate : *std::min_element(first, end);
  }
}

void hold(ReplayState& s) {
  for (size_t queue = 0; queue < s.held.size(); ++queue) {
    const size_t stay = held_from(s.held_places[queue], s.held[queue].size(), s.cut.place);
    s.held[queue].resize(stay);
    s.held_places[queue].resize(stay);
  }
  for (int place = s.cut.place; place < static_cast<int>(s.order.size()); ++place) {
    const Task& task = s.tasks[at(s.order[at(place)])];
    for (int q = 0; q < task.queue_count; ++q) {
      std::vector<QueuedTask>& held = s.held[at(task.queues[q])];
      CommittedTimes& done = s.done[at(s.order[at(place)])];
      if (q == 0) done.held = static_cast<int>(held.size());
      const int64_t before_ns = held.empty() ? 0 : held.back().load_ns;
      held.push_back({done.ready_ns, task.key, s.order[at(place)], done.end_ns, before_ns + task.duration_ns});
      s.held_places[at(task.queues[q])].push_back(place);
    }
  }
}

int edges_of(const ReplayState& s, int task) { return s.tasks[at(task)].edges.end - s.tasks[at(task)].edges.after; }

void exchange(ReplayState& s) {
  for (const int task : s.removed) s.live_edges -= edges_of(s, task);
  for (const int slot : s.touched)
    for (int i = 0; i < s.size_now(slot); ++i) {
      const int task = s.task_now(slot, i);
      if (task < s.task_count) s.live_edges -= edges_of(s, task);
      s.tasks[at(task)].edges = s.touched_tasks[at(s.now[at(task)].touched)].edges;
      s.live_edges += edges_of(s, task);
    }
  commit_tasks(s);
  for (const int queue : s.changed_queues) s.load_ns[at(queue)] += std::exchange(s.change_ns[at(queue)], 0);
}

// Sets tails of tasks of touched slots, and of all that these change, the last taken first.
void set_tails(ReplayState& s) {
  s.dirty.assign(s.order.size() / 64 + 1, 0);
  const auto mark = [&](int task) {
    const size_t place = at(s.tasks[at(task)].place);
    s.dirty[place / 64] |= uint64_t{1} << place % 64;
  };
  for (const int slot : s.touched)
    for (int i = 0; i < s.size_now(slot); ++i) {
      const int task = s.task_now(slot, i);
      s.tasks[at(task)].tail_ns = -1;
      mark(task);
    }
  for (size_t word = s.dirty.size(); word-- > 0;)
    while (s.dirty[word] != 0) {
      const size_t bit = 63 - static_cast<size_t>(std::countl_zero(s.dirty[word]));
      s.dirty[word] ^= uint64_t{1} << bit;
      const int task = s.order[word * 64 + bit];
      const Edges& edges = s.tasks[at(task)].edges;
      int64_t tail_ns = 0;
      for (int e = edges.after; e < edges.before; ++e) {
        const int next = s.edges[at(e)];
        tail_ns = std::max(tail_ns, s.tasks[at(next)].duration_ns + s.tasks[at(next)].tail_ns);
      }
      if (tail_ns == s.tasks[at(task)].tail_ns) continue;
      s.tasks[at(task)].tail_ns = tail_ns;
      for (int e = edges.before; e < edges.end; ++e) mark(s.edges[at(e)]);
    }
}

// Takes all tasks from the cut on, if the proposal has been evaluated by less.
void run_from_cut(ReplayState& s) {
  ++s.epoch;
  for (const int task : s.removed) s.now[at(task)].epoch = s.now[at(task)].changed = s.epoch;
  for (const int task : s.changed) s.now[at(task)].changed = s.epoch;
  for (const int slot : s.touched)
    for (int i = 0; i < s.size_now(slot); ++i) s.now[at(s.task_now(slot, i))].epoch = s.epoch;
  s.from = s.cut;
  replay_tasks(s, Replay::kNoThreshold);
}

}  // namespace

void commit_proposal(ReplayState& s) {
  if (!s.has_run) run_from_cut(s);
  take_skips(s);
  exchange(s);
  take_new_tasks(s);
  hold(s);
  set_tails(s);
  s.makespan_ns = s.new_makespan_ns;
  s.exact = false;
  s.changed_queues.clear();
  s.exchanges.clear();
}

}  // namespace partita::replay

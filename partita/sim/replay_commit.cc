// A proposal becomes what is committed.
#include <algorithm>
#include <bit>
#include <utility>

#include "partita/base/error.h"
#include "partita/sim/replay_state.h"

namespace partita::replay {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

int last_before(const ReplayState& s, const Edges& edges) {
  int place = -1;
  for (int e = edges.before; e < edges.before_end; ++e) place = std::max(place, s.done[at(s.edges[at(e)])].place);
  return place;
}

// The tasks of touched slots that were taken before the cut have new numbers; the others come as they were taken.
void take(ReplayState& s) {
  for (int task = s.task_count; task < s.new_count; ++task)
    if (!is_late(s, task)) s.order[at(s.done[at(task)].place)] = task;
  s.order.resize(at(s.cut));
  s.order.insert(s.order.end(), s.taken.begin(), s.taken.end());
  s.last_before.resize(s.order.size());
  s.end_ns.resize(s.order.size());
  for (int place = s.cut; place < static_cast<int>(s.order.size()); ++place) {
    const int task = s.order[at(place)];
    const Now& now = s.now[at(task)];
    Done& done = s.done[at(task)];
    done.ready_ns = now.ready_ns;
    done.start_ns = now.start_ns;
    done.end_ns = now.end_ns;
    done.place = place;
    // What it waited for last was taken before it, so its place is known.
    s.last_before[at(place)] = now.last_before == kBeforeCut ? last_before(s, now.edges) : now.last_before;
    s.end_ns[at(place)] = std::max(place == 0 ? 0 : s.end_ns[at(place) - 1], now.end_ns);
  }
}

void hold(ReplayState& s) {
  for (std::vector<Held>& held : s.held)
    while (!held.empty() && held.back().place >= s.cut) held.pop_back();
  for (int place = s.cut; place < static_cast<int>(s.order.size()); ++place) {
    const Task& task = s.tasks[at(s.order[at(place)])];
    for (int q = 0; q < task.queue_count; ++q) {
      std::vector<Held>& held = s.held[at(task.queues[q])];
      held.push_back(
          {place, s.done[at(s.order[at(place)])].end_ns, (held.empty() ? 0 : held.back().load_ns) + task.duration_ns});
    }
  }
}

int edges_of(const ReplayState& s, int first, int size) {
  int count = 0;
  for (int task = first; task < first + size; ++task) count += s.of[at(task)].before_end - s.of[at(task)].after;
  return count;
}

void exchange(ReplayState& s) {
  for (const int slot : s.touched) {
    s.live_edges -= edges_of(s, s.first[at(slot)], s.graph.fragments[at(slot)]->size());
    const int first = s.slots[at(slot)].first, size = s.size_now(slot);
    for (int task = first; task < first + size; ++task) s.of[at(task)] = s.now[at(task)].edges;
    s.live_edges += edges_of(s, first, size);
  }
  commit_tasks(s);
  for (const int queue : s.changed_queues) s.load_ns[at(queue)] += std::exchange(s.change_ns[at(queue)], 0);
}

// Tails of tasks of touched slots, and of those for which that changes theirs, the last taken first.
void set_tails(ReplayState& s) {
  s.dirty.assign(s.order.size() / 64 + 1, 0);
  const auto mark = [&](int task) {
    const size_t place = at(s.done[at(task)].place);
    s.dirty[place / 64] |= uint64_t{1} << place % 64;
  };
  for (const int slot : s.touched)
    for (int i = 0; i < s.size_now(slot); ++i) {
      s.done[at(s.first[at(slot)] + i)].tail_ns = -1;
      mark(s.first[at(slot)] + i);
    }
  for (size_t word = s.dirty.size(); word-- > 0;)
    while (s.dirty[word] != 0) {
      const size_t bit = 63 - static_cast<size_t>(std::countl_zero(s.dirty[word]));
      s.dirty[word] ^= uint64_t{1} << bit;
      const int task = s.order[word * 64 + bit];
      const Edges& edges = s.of[at(task)];
      int64_t tail_ns = 0;
      for (int e = edges.after; e < edges.after_end; ++e) {
        const int next = s.edges[at(e)];
        tail_ns = std::max(tail_ns, s.tasks[at(next)].duration_ns + s.done[at(next)].tail_ns);
      }
      if (tail_ns == s.done[at(task)].tail_ns) continue;
      s.done[at(task)].tail_ns = tail_ns;
      for (int e = edges.before; e < edges.before_end; ++e) mark(s.edges[at(e)]);
    }
}

}  // namespace

void commit(ReplayState& s) {
  take(s);
  exchange(s);
  hold(s);
  set_tails(s);
  s.makespan_ns = s.new_makespan_ns;
  s.exact = false;
  s.changed_queues.clear();
  s.exchanges.clear();
}

}  // namespace partita::replay

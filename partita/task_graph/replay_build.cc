// Builds a proposal beside the committed timeline: its tasks and edges, the old ones among them, the cut, tails.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/task_graph/replay_state.h"

namespace partita::replay {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

void change_loads(ReplayState& s, const Fragment& fragment, int64_t sign) {
  for (const auto& [queue, load_ns] : fragment.load_ns) {
    if (s.change_ns[at(queue)] == 0) s.changed_queues.push_back(queue);
    s.change_ns[at(queue)] += sign * load_ns;
  }
}

void gather(ReplayState& s, int slot) {
  gather_edges(s, slot);
  for (int i = 0; i < s.size_now(slot); ++i) {
    ProposedTask& now = s.now[at(s.task_now(slot, i))];
    now.epoch = s.epoch;
    now.touched = static_cast<int>(s.touched_tasks.size());
    s.touched_tasks.push_back({s.gathered[at(i)]});
  }
}

const Edges& edges_now(const ReplayState& s, int task) { return s.touched_tasks[at(s.now[at(task)].touched)].edges; }

// Tells whether a task waits for the same tasks in the proposal as in the committed graph.
bool waits_are_same(ReplayState& s, int task) {
  const Edges &old_edges = s.tasks[at(task)].edges, &new_edges = edges_now(s, task);
  const auto old_before = s.edges.begin() + old_edges.before, old_end = s.edges.begin() + old_edges.end;
  const auto new_before = s.edges.begin() + new_edges.before, new_end = s.edges.begin() + new_edges.end;
  if (old_end - old_before != new_end - new_before) return false;
  if (std::equal(old_before, old_end, new_before)) return true;
  s.scratch_old.assign(old_before, old_end);
  s.scratch_new.assign(new_before, new_end);
  std::sort(s.scratch_old.begin(), s.scratch_old.end());
  std::sort(s.scratch_new.begin(), s.scratch_new.end());
  return s.scratch_old == s.scratch_new;
}

// The lowest (ready time, key) of all cut tasks.
struct Lowest {
  int64_t ready_ns = std::numeric_limits<int64_t>::max();
  uint64_t key = 0;
  void add(int64_t of_ns, uint64_t of_key) {
    if (of_ns < ready_ns || (of_ns == ready_ns && of_key < key)) ready_ns = of_ns, key = of_key;
  }
};

void add_old(const ReplayState& s, Lowest& lowest, int task) {
  lowest.add(s.done[at(task)].ready_ns, s.tasks[at(task)].key);
}

// A task that waits for new tasks is later than them. If it waits for tasks that are removed and new, these were ready
// before its time here.
void add_new(const ReplayState& s, Lowest& lowest, int task) {
  int64_t ready_ns = 0;
  const Edges& edges = edges_now(s, task);
  for (int e = edges.before; e < edges.end; ++e) {
    const int from = s.edges[at(e)];
    if (from >= s.task_count) return;
    ready_ns = std::max(ready_ns, s.done[at(from)].end_ns);
  }
  lowest.add(ready_ns, s.tasks[at(task)].key);
}

Lowest compare_tasks(ReplayState& s) {
  Lowest lowest;
  s.changed.clear();
  for (const int task : s.removed) add_old(s, lowest, task);
  for (const int slot : s.touched)
    for (int i = 0; i < s.size_now(slot); ++i) {
      const int task = s.task_now(slot, i);
      if (task < s.task_count && waits_are_same(s, task)) continue;
      if (task < s.task_count) add_old(s, lowest, task);
      add_new(s, lowest, task);
      s.now[at(task)].changed = s.epoch;
      s.changed.push_back(task);
    }
  return lowest;
}

void set_cut(ReplayState& s, const Lowest& lowest) {
  s.from = s.cut = {place_of(s, lowest.ready_ns, lowest.key), lowest.ready_ns, lowest.key};
  for (int task = s.task_count; task < s.new_count; ++task) {
    s.tasks[at(task)].place = kLate;
    s.waiting[at(task)].key = s.tasks[at(task)].key;
  }
}

}  // namespace

int place_of(const ReplayState& s, int64_t ready_ns, uint64_t key) {
  const auto first = std::partition_point(s.order.begin(), s.order.end(), [&](int task) {
    const int64_t of_ns = s.done[at(task)].ready_ns;
    return of_ns != ready_ns ? of_ns < ready_ns : s.tasks[at(task)].key < key;
  });
  return static_cast<int>(first - s.order.begin());
}

void begin_evaluation(ReplayState& s, const Replay::Exchanges& exchanges) {
  begin_proposal(s, exchanges);
  s.exact = s.has_run = false;
  s.skips.clear();  // queues that are looked at before a run know no skips
  for (const int queue : s.changed_queues) s.change_ns[at(queue)] = 0;
  s.changed_queues.clear();
  for (const auto& [slot, fragment] : s.exchanges) {
    change_loads(s, *s.graph.fragments[at(slot)], -1);
    change_loads(s, *fragment, 1);
  }
}

void build_proposal(ReplayState& s) {
  add_proposed_tasks(s);
  s.done.resize(s.tasks.size());
  s.now.resize(s.tasks.size());
  s.waiting.resize(s.tasks.size());
  s.swept.resize(s.tasks.size());
  for (const int task : s.removed) s.now[at(task)].epoch = s.now[at(task)].changed = s.epoch;  // not to be met
  s.touched_tasks.clear();
  for (const int slot : s.touched) gather(s, slot);
  set_cut(s, compare_tasks(s));
}

namespace {

// Bounds the tail of a late task of a touched slot, when all slots of higher rank have theirs.
int64_t bound_tail(ReplayState& s, int task) {
  const size_t mine = at(s.now[at(task)].touched);
  if (s.touched_tasks[mine].bounded) return s.touched_tasks[mine].tail_ns;
  int64_t tail_ns = 0;
  const Edges edges = s.touched_tasks[mine].edges;
  for (int e = edges.after; e < edges.before; ++e) {
    const int next = s.edges[at(e)];
    const Task& then = s.tasks[at(next)];
    const bool is_touched = s.now[at(next)].epoch == s.epoch;  // no other has been met yet
    tail_ns = std::max(
        tail_ns, then.duration_ns + (is_touched ? bound_tail(s, next) : then.tail_ns - s.decrease_ns[at(then.rank)]));
  }
  s.touched_tasks[mine].tail_ns = tail_ns;
  s.touched_tasks[mine].bounded = true;
  return tail_ns;
}

}  // namespace

// On a chain of tasks of untouched slots nothing has changed up to the first task of a touched slot. So no tail there
// shrinks by more than one of those, and it is one of a slot of higher rank.
void bound_tails(ReplayState& s) {
  int64_t decrease_ns = 0;
  auto end = s.decrease_ns.end();
  for (const int slot : s.touched) {
    const auto begin = s.decrease_ns.begin() + s.rank[at(slot)];
    std::fill(begin, end, decrease_ns);
    end = begin;
    for (int i = s.size_now(slot) - 1; i >= 0; --i) {
      const int task = s.task_now(slot, i);
      if (!is_late(s, task)) continue;
      const int64_t tail_ns = bound_tail(s, task);
      if (!s.slots[at(slot)].exchanged) decrease_ns = std::max(decrease_ns, s.tasks[at(task)].tail_ns - tail_ns);
    }
  }
  std::fill(s.decrease_ns.begin(), end, decrease_ns);
}

}  // namespace partita::replay

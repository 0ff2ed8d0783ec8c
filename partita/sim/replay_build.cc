// A proposal beside the committed timeline: its tasks and edges, which of them are old, the cut, tails.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/sim/replay_state.h"

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
  const int first = s.slots[at(slot)].first;
  for (size_t i = 0; i < s.gathered.size(); ++i) {
    s.now[at(first) + i].epoch = s.epoch;
    s.now[at(first) + i].touched = static_cast<int>(s.touched_tasks.size());
    s.touched_tasks.push_back({s.gathered[i]});
  }
}

const Edges& edges_now(const ReplayState& s, int task) { return s.touched_tasks[at(s.now[at(task)].touched)].edges; }

// Old tasks of exchanged slots by their keys; none of them is taken.
void note_old_tasks(ReplayState& s) {
  size_t count = 0;
  for (const auto& [slot, fragment] : s.exchanges) count += s.graph.fragments[at(slot)]->duration_ns.size();
  size_t size = std::max<size_t>(s.keys.size(), 64);
  while (size < 2 * count) size *= 2;
  if (size > s.keys.size()) s.keys.assign(size, {});
  for (const auto& [slot, fragment] : s.exchanges)
    for (int i = 0; i < s.graph.fragments[at(slot)]->size(); ++i) {
      const int task = s.first[at(slot)] + i;
      s.now[at(task)].epoch = s.epoch;
      s.now[at(task)].waits = 0;
      size_t place = s.tasks[at(task)].key * 0x9e3779b97f4a7c15u >> 20 & (size - 1);
      while (s.keys[place].epoch == s.epoch) place = (place + 1) & (size - 1);
      s.keys[place] = {s.tasks[at(task)].key, task, s.epoch};
    }
}

int old_task(const ReplayState& s, uint64_t key) {
  const size_t size = s.keys.size();
  for (size_t place = key * 0x9e3779b97f4a7c15u >> 20 & (size - 1); s.keys[place].epoch == s.epoch;
       place = (place + 1) & (size - 1))
    if (s.keys[place].key == key) return s.keys[place].task;
  return -1;
}

int mate_of(const ReplayState& s, int task) { return task < s.task_count ? task : s.mate[at(task - s.task_count)]; }

// Whether two tasks, one before and one in the proposal, wait for the same.
bool waits_are_same(ReplayState& s, const Edges& old_edges, const Edges& new_edges) {
  const int count = new_edges.end - new_edges.before;
  if (old_edges.end - old_edges.before != count) return false;
  bool equal = true;
  for (int e = 0; e < count && equal; ++e)
    equal = mate_of(s, s.edges[at(new_edges.before + e)]) == s.edges[at(old_edges.before + e)];
  if (equal) return true;
  s.scratch_old.assign(s.edges.begin() + old_edges.before, s.edges.begin() + old_edges.end);
  s.scratch_new.clear();
  for (int e = 0; e < count; ++e) s.scratch_new.push_back(mate_of(s, s.edges[at(new_edges.before + e)]));
  std::sort(s.scratch_old.begin(), s.scratch_old.end());
  std::sort(s.scratch_new.begin(), s.scratch_new.end());
  return s.scratch_old == s.scratch_new;
}

// The lowest (ready time, key) of what is cut.
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

// If it waits for new tasks of new keys it is later than them. If it waits for other new tasks, these have been old
// ones that were ready before its time here.
void add_new(const ReplayState& s, Lowest& lowest, int task) {
  int64_t ready_ns = 0;
  const Edges& edges = edges_now(s, task);
  for (int e = edges.before; e < edges.end; ++e) {
    const int mate = mate_of(s, s.edges[at(e)]);
    if (mate < 0) return;
    ready_ns = std::max(ready_ns, s.done[at(mate)].end_ns);
  }
  lowest.add(ready_ns, s.tasks[at(task)].key);
}

bool is_same(ReplayState& s, int task, int mate) {
  const Task &mine = s.tasks[at(task)], &old = s.tasks[at(mate)];
  return mine.duration_ns == old.duration_ns && mine.queue_count == old.queue_count &&
         std::equal(mine.queues, mine.queues + mine.queue_count, old.queues) &&
         waits_are_same(s, old.edges, edges_now(s, task));
}

Lowest compare_tasks(ReplayState& s) {
  Lowest lowest;
  for (int task = s.task_count; task < s.new_count; ++task) {
    const int mate = s.mate[at(task - s.task_count)];
    const bool same = mate >= 0 && is_same(s, task, mate);
    s.same[at(task - s.task_count)] = same;
    if (same) s.now[at(mate)].waits = 1;
    else add_new(s, lowest, task);
  }
  for (const int slot : s.touched) {
    const int first = s.first[at(slot)], size = s.graph.fragments[at(slot)]->size();
    for (int task = first; task < first + size; ++task) {
      if (s.slots[at(slot)].exchanged) {
        if (s.now[at(task)].waits == 0) add_old(s, lowest, task);
      } else if (!waits_are_same(s, s.tasks[at(task)].edges, edges_now(s, task))) {
        add_old(s, lowest, task);
        add_new(s, lowest, task);
      }
    }
  }
  return lowest;
}

void set_cut(ReplayState& s, const Lowest& lowest) {
  const auto first = std::partition_point(s.order.begin(), s.order.end(), [&](int task) {
    const int64_t ready_ns = s.done[at(task)].ready_ns;
    return ready_ns != lowest.ready_ns ? ready_ns < lowest.ready_ns : s.tasks[at(task)].key < lowest.key;
  });
  s.cut = static_cast<int>(first - s.order.begin());
  s.cut_ns = lowest.ready_ns;
  for (int task = s.task_count; task < s.new_count; ++task) {
    const size_t i = at(task - s.task_count);
    const Task& old = s.tasks[at(std::max(s.mate[i], 0))];
    if (s.same[i] && old.place < s.cut) {
      s.done[at(task)] = s.done[at(s.mate[i])];
      s.tasks[at(task)].place = old.place;
      s.tasks[at(task)].first_before = old.first_before;
    } else {
      s.tasks[at(task)].place = kLate;
    }
  }
}

}  // namespace

void begin(ReplayState& s, const Replay::Exchanges& exchanges) {
  begin_proposal(s, exchanges);
  s.exact = false;
  for (const int queue : s.changed_queues) s.change_ns[at(queue)] = 0;
  s.changed_queues.clear();
  for (const auto& [slot, fragment] : s.exchanges) {
    change_loads(s, *s.graph.fragments[at(slot)], -1);
    change_loads(s, *fragment, 1);
  }
}

void build(ReplayState& s) {
  add_proposed_tasks(s);
  s.done.resize(s.tasks.size());
  s.now.resize(s.tasks.size());
  note_old_tasks(s);
  s.mate.resize(at(s.new_count - s.task_count));
  s.same.resize(s.mate.size());
  for (int task = s.task_count; task < s.new_count; ++task)
    s.mate[at(task - s.task_count)] = old_task(s, s.tasks[at(task)].key);
  s.touched_tasks.clear();
  for (const int slot : s.touched) gather(s, slot);
  set_cut(s, compare_tasks(s));
}

namespace {

// Of a late task of a touched slot, when all slots of higher rank have theirs.
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
// is less by more than one of those, and it is one of a slot of higher rank.
void bound_tails(ReplayState& s) {
  int64_t decrease_ns = 0;
  int rank = static_cast<int>(s.rank.size()) - 1;
  for (const int slot : s.touched) {
    for (; rank > s.rank[at(slot)]; --rank) s.decrease_ns[at(rank)] = decrease_ns;
    s.decrease_ns[at(rank)] = decrease_ns;
    const int first = s.slots[at(slot)].first, size = s.size_now(slot);
    for (int task = first + size - 1; task >= first; --task) {
      if (!is_late(s, task)) continue;
      const int64_t tail_ns = bound_tail(s, task);
      if (!s.slots[at(slot)].exchanged) decrease_ns = std::max(decrease_ns, s.tasks[at(task)].tail_ns - tail_ns);
    }
  }
  for (; rank >= 0; --rank) s.decrease_ns[at(rank)] = decrease_ns;
}

}  // namespace partita::replay

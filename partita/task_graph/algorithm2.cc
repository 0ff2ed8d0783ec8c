// Implements Algorithm 2, corrected to a fixed point.
#include "partita/task_graph/algorithm2.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/task_graph/first_come.h"
#include "partita/task_graph/proposed_tasks.h"
#include "partita/task_graph/ready_heap.h"

namespace partita {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// A task in the list of one of its queues: preTask and nextTask. -1: none. The first entries are the lists' ends, one a
// queue: their next is the first of the list, and their previous the last.
struct Link {
  int task = -1;
  int previous = -1, next = -1;
};
constexpr int kGone = -2;  // the task of a link out of its list

struct Update {
  Algorithm2::Times times;
  int64_t queued_ns = -1;  // the ready time with which it stands in the update queue; -1: it does not
  int link = 0;            // its first; it has one for each of its queues
  bool fresh = false;      // tasks that wait for it have not seen its end
};

// The entries that a proposal has changed, as they were.
template <typename T>
struct Log {
  std::vector<std::pair<int, T>> was;
  std::vector<uint32_t> epoch;  // by entry: the last proposal that changed it
};

}  // namespace

struct Algorithm2State : ProposedTasks {
  std::vector<Update> updates;  // by task
  std::vector<Link> links;
  int link_count = 0;
  ReadyHeap queue;
  int64_t taken = 0;
  Log<Update> was_update;
  Log<Link> was_link;
  std::vector<std::pair<int, ProposedTasks::Edges>> was_edges;
  std::vector<int> was_first;  // by exchange: the first cell of its slot before
  int was_tasks = 0, was_cells = 0, was_edge_count = 0, was_links = 0, was_live_edges = 0;
  bool can_undo = false;
  std::optional<TaskGraph> was_graph;  // set if the proposal was simulated from nothing
  std::vector<int> pushed;             // scratch: tasks whose start may have changed
  std::vector<int> near;               // scratch: by queue, a link in or out of its list
};

namespace {

using State = Algorithm2State;

// Logs an entry before it changes. Entries that the proposal has added need no log.
template <typename T>
void log_entry(const State& s, Log<T>& log, const std::vector<T>& of, int entry, int old_count) {
  if (entry >= old_count) return;
  if (log.epoch.size() <= at(entry)) log.epoch.resize(of.size());
  if (std::exchange(log.epoch[at(entry)], s.epoch) != s.epoch) log.was.push_back({entry, of[at(entry)]});
}

Update& update_of(State& s, int task) {
  log_entry(s, s.was_update, s.updates, task, s.was_tasks);
  return s.updates[at(task)];
}

Link& link_of(State& s, int link) {
  log_entry(s, s.was_link, s.links, link, s.was_links);
  return s.links[at(link)];
}

template <typename T>
void undo_log(Log<T>& log, std::vector<T>& of) {
  for (const auto& [entry, was] : log.was) of[at(entry)] = was;
  log.was.clear();
}

void push_update(State& s, int task) {
  Update& update = update_of(s, task);
  if (update.queued_ns == update.times.ready_ns) return;
  update.queued_ns = update.times.ready_ns;
  s.queue.push({update.times.ready_ns, s.tasks[at(task)].key, task});
}

// Its earliest start now.
int64_t start_of(const State& s, int task) {
  const Update& update = s.updates[at(task)];
  int64_t start_ns = update.times.ready_ns;
  for (int q = 0; q < s.tasks[at(task)].queue_count; ++q) {
    const int previous = s.links[at(s.links[at(update.link + q)].previous)].task;
    if (previous >= 0) start_ns = std::max(start_ns, s.updates[at(previous)].times.end_ns);
  }
  return start_ns;
}

void push_if_moved(State& s, int task) {
  if (task >= 0 && start_of(s, task) != s.updates[at(task)].times.start_ns) push_update(s, task);
}

int64_t ready_of(const State& s, int task) {
  int64_t ready_ns = 0;
  const ProposedTasks::Edges& edges = s.tasks[at(task)].edges;
  for (int e = edges.before; e < edges.end; ++e)
    ready_ns = std::max(ready_ns, s.updates[at(s.edges[at(e)])].times.end_ns);
  return ready_ns;
}

bool comes_before(const State& s, int a, int b) {
  const int64_t a_ns = s.updates[at(a)].times.ready_ns, b_ns = s.updates[at(b)].times.ready_ns;
  return a_ns != b_ns ? a_ns < b_ns : s.tasks[at(a)].key < s.tasks[at(b)].key;
}

// Takes the task out of the lists; tasks behind it are pushed later.
void leave_lists(State& s, int task) {
  for (int q = 0; q < s.tasks[at(task)].queue_count; ++q) {
    const Link link = s.links[at(s.updates[at(task)].link + q)];
    link_of(s, link.previous).next = link.next;
    link_of(s, link.next).previous = link.previous;
    s.pushed.push_back(s.links[at(link.next)].task);
  }
}

// Puts the task into the list of its q-th queue, by (ready time, key), from the link `near` on: swaps with neighbours,
// forward or back.
void enter_list(State& s, int task, int q, int near) {
  const int link = s.updates[at(task)].link + q;
  int next = near;
  while (s.links[at(next)].task >= 0 && comes_before(s, s.links[at(next)].task, task)) next = s.links[at(next)].next;
  for (int previous = s.links[at(next)].previous;
       s.links[at(previous)].task >= 0 && comes_before(s, task, s.links[at(previous)].task);
       previous = s.links[at(next)].previous)
    next = previous;
  const int previous = s.links[at(next)].previous;
  Link& mine = link_of(s, link);
  mine.task = task;
  mine.previous = previous;
  mine.next = next;
  link_of(s, previous).next = link;
  link_of(s, next).previous = link;
  s.pushed.push_back(s.links[at(next)].task);
}

void push_pushed(State& s) {
  for (const int task : s.pushed)
    if (task >= 0 && s.links[at(s.updates[at(task)].link)].task == task) push_if_moved(s, task);
  s.pushed.clear();
}

// UpdateTask: sets its ready time and its places in the lists; returns whether it starts at another time.
void update_task(State& s, int task) {
  const int64_t ready_ns = ready_of(s, task);
  if (ready_ns != s.updates[at(task)].times.ready_ns) {
    leave_lists(s, task);
    update_of(s, task).times.ready_ns = ready_ns;
    for (int q = 0; q < s.tasks[at(task)].queue_count; ++q)
      enter_list(s, task, q, s.links[at(s.updates[at(task)].link + q)].next);
    push_pushed(s);
  }
  push_if_moved(s, task);
}

// Updates until nothing changes; false if that takes more than `limit` updates.
bool settle_updates(State& s, int64_t limit) {
  while (!s.queue.empty()) {
    const ReadyTask top = s.queue.top();
    s.queue.pop();
    Update& update = update_of(s, top.task);
    if (update.queued_ns != top.ready_ns) continue;  // pushed again since, with another ready time, and taken
    update.queued_ns = -1;
    if (limit-- == 0) return false;
    ++s.taken;
    const int64_t start_ns = start_of(s, top.task), end_ns = start_ns + s.tasks[at(top.task)].duration_ns;
    const bool moved = end_ns != update.times.end_ns || update.fresh;
    update.times.start_ns = start_ns;
    update.times.end_ns = end_ns;
    update.fresh = false;
    if (!moved) continue;
    const ProposedTasks::Edges edges = s.tasks[at(top.task)].edges;
    for (int e = edges.after; e < edges.before; ++e) update_task(s, s.edges[at(e)]);
    for (int q = 0; q < s.tasks[at(top.task)].queue_count; ++q)
      push_if_moved(s, s.links[at(s.links[at(s.updates[at(top.task)].link + q)].next)].task);
  }
  return true;
}

int edges_of(const State& s, int task) { return s.tasks[at(task)].edges.end - s.tasks[at(task)].edges.after; }

// Adds edges of touched slots, and links of new tasks, which stand in no list yet.
void add_links_and_edges(State& s) {
  s.updates.resize(s.tasks.size());
  for (const int task : s.removed) s.live_edges -= edges_of(s, task);
  for (const int slot : s.touched) {
    gather_edges(s, slot);
    for (int i = 0; i < s.size_now(slot); ++i) {
      const int task = s.task_now(slot, i);
      ProposedTasks::Edges& edges = s.tasks[at(task)].edges;
      if (task < s.task_count) {
        s.was_edges.push_back({task, edges});
        s.live_edges -= edges_of(s, task);
      }
      edges = s.gathered[at(i)];
      s.live_edges += edges_of(s, task);
    }
  }
  for (int task = s.task_count; task < s.new_count; ++task) {
    s.updates[at(task)] = {.times = {.start_ns = -1}, .link = s.link_count, .fresh = true};
    s.link_count += s.tasks[at(task)].queue_count;
  }
  if (s.links.size() < at(s.link_count)) s.links.resize(at(s.link_count) + at(s.link_count) / 2);
  for (int link = s.was_links; link < s.link_count; ++link) s.links[at(link)] = {};
}

// Removes tasks; `near` gets, by queue, a link of a task that has left it.
void remove_tasks(State& s) {
  for (const int task : s.removed) {
    leave_lists(s, task);
    update_of(s, task).queued_ns = -1;
    for (int q = 0; q < s.tasks[at(task)].queue_count; ++q) {
      const int link = s.updates[at(task)].link + q;
      link_of(s, link).task = kGone;
      s.near[at(s.tasks[at(task)].queues[q])] = link;
    }
  }
}

// Inserts new tasks by their ready time without queues, near removed ones.
void insert_tasks(State& s) {
  for (size_t i = s.touched.size(); i-- > 0;)
    for (int j = 0; j < s.size_now(s.touched[i]); ++j) {
      const int task = s.task_now(s.touched[i], j);
      if (task < s.task_count) continue;
      Algorithm2::Times& times = s.updates[at(task)].times;
      times.ready_ns = ready_of(s, task);
      times.end_ns = times.ready_ns + s.tasks[at(task)].duration_ns;
      for (int q = 0; q < s.tasks[at(task)].queue_count; ++q) {
        int& near = s.near[at(s.tasks[at(task)].queues[q])];
        while (s.links[at(near)].task == kGone) near = s.links[at(near)].next;
        enter_list(s, task, q, near);
      }
      push_update(s, task);
    }
}

int64_t latest_end(const State& s) {
  int64_t end_ns = 0;
  for (int queue = 0; queue < s.graph.queue_count; ++queue) {
    const int last = s.links[at(s.links[at(queue)].previous)].task;
    if (last >= 0) end_ns = std::max(end_ns, s.updates[at(last)].times.end_ns);
  }
  return end_ns;
}

void begin_exchange(State& s, const std::vector<std::pair<int, FragmentPtr>>& exchanges) {
  begin_proposal(s, exchanges);
  s.was_update.was.clear();
  s.was_link.was.clear();
  s.was_edges.clear();
  s.was_first.clear();
  s.was_graph.reset();
  for (const auto& [slot, fragment] : s.exchanges) s.was_first.push_back(s.first[at(slot)]);
  s.was_tasks = s.task_count;
  s.was_cells = s.cell_count;
  s.was_edge_count = s.edge_count;
  s.was_live_edges = s.live_edges;
  s.was_links = s.link_count;
  add_proposed_tasks(s);
  add_links_and_edges(s);
}

// Puts the graph's timeline into lists.
void start_from(State& s, TaskGraph graph) {
  const int64_t taken = s.taken;
  s = {};
  s.taken = taken;
  const FlatTasks flat = flatten(graph);
  Timeline timeline;
  simulate_first_come(flat, timeline);
  const auto all = set_slots(s, std::move(graph));
  s.near.resize(at(s.graph.queue_count));
  s.links.resize(at(s.graph.queue_count));
  s.link_count = s.graph.queue_count;
  for (int queue = 0; queue < s.graph.queue_count; ++queue) s.links[at(queue)] = {-1, queue, queue};
  begin_exchange(s, all);
  for (const int task : timeline.order) {  // numbered as here
    const Timeline::Times& of = timeline.of[at(task)];
    s.updates[at(task)].times = {of.ready_ns, of.start_ns, of.end_ns};
    s.updates[at(task)].fresh = false;
    for (int q = 0; q < s.tasks[at(task)].queue_count; ++q) enter_list(s, task, q, s.tasks[at(task)].queues[q]);
  }
  s.pushed.clear();
  commit_tasks(s);
}

// Makes the proposal's task graph, with tasks that may have changed pushed.
void update_tasks(State& s) {
  remove_tasks(s);
  insert_tasks(s);
  for (size_t i = s.touched.size(); i-- > 0;)
    for (int j = 0; j < s.size_now(s.touched[i]); ++j) {
      const int task = s.task_now(s.touched[i], j);
      if (task < s.task_count) update_task(s, task);
    }
  push_pushed(s);
  commit_tasks(s);
}

// If most tasks have changed, times that are not final are passed on again and again: more than a thousand updates a
// task have been seen. Such a proposal is simulated from nothing.
constexpr int64_t kMostUpdates = 16;  // a task

void start_again(State& s) {
  TaskGraph graph = s.graph, was_graph = s.graph;
  for (const auto& [slot, fragment] : s.exchanges) was_graph.fragments[at(slot)] = fragment;
  start_from(s, std::move(graph));
  s.was_graph = std::move(was_graph);
}

}  // namespace

Algorithm2::Algorithm2(TaskGraph graph) : state_(std::make_unique<State>()) { start_from(*state_, std::move(graph)); }
Algorithm2::~Algorithm2() = default;

int64_t Algorithm2::propose(const std::vector<std::pair<int, FragmentPtr>>& exchanges) {
  State& s = *state_;
  if (is_sparse(s)) start_from(s, std::move(s.graph));
  begin_exchange(s, exchanges);
  for (size_t queue = 0; queue < s.near.size(); ++queue) s.near[queue] = static_cast<int>(queue);
  const int64_t live = s.live_tasks, changed = static_cast<int64_t>(s.removed.size()) + s.new_count - s.task_count;
  bool settled = false;
  if (2 * changed <= live) {
    update_tasks(s);
    settled = settle_updates(s, kMostUpdates * live);
  } else {
    commit_tasks(s);
  }
  if (!settled) start_again(s);
  s.can_undo = true;
  return latest_end(s);
}

void Algorithm2::undo() {
  State& s = *state_;
  ensure(std::exchange(s.can_undo, false), "there is no proposal to take back");
  if (s.was_graph) return start_from(s, *std::exchange(s.was_graph, std::nullopt));
  undo_log(s.was_update, s.updates);
  undo_log(s.was_link, s.links);
  for (const auto& [task, edges] : s.was_edges) s.tasks[at(task)].edges = edges;
  for (size_t i = 0; i < s.exchanges.size(); ++i) {
    auto& [slot, fragment] = s.exchanges[i];
    s.first[at(slot)] = s.was_first[i];
    s.live_tasks += fragment->size() - s.graph.fragments[at(slot)]->size();
    std::swap(s.graph.fragments[at(slot)], fragment);
    set_queues(s, slot);
  }
  s.cell_count = s.was_cells;
  s.task_count = s.was_tasks;
  s.edge_count = s.was_edge_count;
  s.live_edges = s.was_live_edges;
  s.link_count = s.was_links;
}

int64_t Algorithm2::makespan_ns() const { return latest_end(*state_); }
int64_t Algorithm2::updates() const { return state_->taken; }

Algorithm2::Times Algorithm2::times(int slot, int task) const {
  return state_->updates[at(state_->task_of(slot, task))].times;
}

}  // namespace partita

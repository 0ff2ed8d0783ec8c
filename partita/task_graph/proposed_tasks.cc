// Implements the task graph in arrays: exchanges, touched slots, commits.
#include "partita/task_graph/proposed_tasks.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "partita/base/error.h"

namespace partita {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

// The rank of each slot: a tensor's producer before it, its readers after it.
std::vector<int> ranks(const TaskGraph& graph) {
  std::vector<int> waits(graph.wires.size()), free, rank(graph.wires.size(), -1);
  for (size_t slot = 0; slot < graph.wires.size(); ++slot) {
    const TaskGraph::Wires& wires = graph.wires[slot];
    waits[slot] = static_cast<int>(wires.operands.size()) + (wires.parties.size() > 1 && wires.parties[1] >= 0);
    if (waits[slot] == 0) free.push_back(static_cast<int>(slot));
  }
  for (size_t next = 0; next < free.size(); ++next) {
    const int slot = free[next];
    rank[at(slot)] = static_cast<int>(next);
    const auto done = [&](int to) {
      if (--waits[at(to)] == 0) free.push_back(to);
    };
    const TaskGraph::Wires& wires = graph.wires[at(slot)];
    for (const int tensor : wires.results) done(tensor);
    for (size_t party = 2; party < wires.parties.size(); ++party) done(wires.parties[party]);
  }
  ensure(free.size() == rank.size(), "{} slots wait for each other", rank.size() - free.size());
  return rank;
}

void touch(ProposedTasks& p, int slot) {
  if (p.is_touched(slot)) return;
  p.slots[at(slot)] = {.epoch = p.epoch, .first = p.first[at(slot)], .fragment = p.graph.fragments[at(slot)].get()};
  p.touched.push_back(slot);
}

bool has_edges(const Fragment& fragment, size_t party) {
  return fragment.after.has(party) || fragment.before.has(party);
}

// Touches the slots beside an exchanged one that have edges to its tasks, or between which it has edges, in either
// graph. A tensor that every op reads and that is on all devices has none.
void touch_beside(ProposedTasks& p, int slot) {
  const TaskGraph::Wires& wires = p.graph.wires[at(slot)];
  const Fragment &before = *p.graph.fragments[at(slot)], &now = *p.slots[at(slot)].fragment;
  for (size_t party = 1; party < wires.parties.size(); ++party)
    if (has_edges(before, party) || has_edges(now, party)) touch(p, wires.parties[party]);
  const auto touch_tensor = [&](int tensor) {
    if (p.graph.fragments[at(tensor)]->size() > 0) touch(p, tensor);
  };
  for (const int tensor : wires.results) touch_tensor(tensor);
  for (const auto& [tensor, party] : wires.operands) touch_tensor(tensor);
}

// By the high bits of the product: the op is in the high bits of a key, and reaches no others.
size_t place_of(const ProposedTasks& p, uint64_t key) {
  return key * 0x9e3779b97f4a7c15u >> (64 - std::countr_zero(p.keys.size()));
}

void note_old_tasks(ProposedTasks& p) {
  p.old_tasks.clear();
  for (const auto& [slot, fragment] : p.exchanges)
    for (int i = 0; i < p.graph.fragments[at(slot)]->size(); ++i) p.old_tasks.push_back(p.task_of(slot, i));
  p.kept.assign(p.old_tasks.size(), 0);
  size_t size = std::max<size_t>(p.keys.size(), 64);
  while (size < 2 * p.old_tasks.size()) size *= 2;
  if (size > p.keys.size()) p.keys.assign(size, {});
  for (size_t i = 0; i < p.old_tasks.size(); ++i) {
    const uint64_t key = p.tasks[at(p.old_tasks[i])].key;
    size_t place = place_of(p, key);
    while (p.keys[place].epoch == p.epoch) place = (place + 1) & (size - 1);
    p.keys[place] = {key, static_cast<int>(i), p.epoch};
  }
}

// The old task that this one is, or -1.
int kept_task(ProposedTasks& p, const ProposedTasks::Task& task) {
  for (size_t place = place_of(p, task.key); p.keys[place].epoch == p.epoch;
       place = (place + 1) & (p.keys.size() - 1)) {
    if (p.keys[place].key != task.key) continue;
    const size_t old = at(p.keys[place].old);
    const ProposedTasks::Task& of = p.tasks[at(p.old_tasks[old])];
    if (of.duration_ns != task.duration_ns || of.rank != task.rank || of.queue_count != task.queue_count ||
        !std::equal(of.queues, of.queues + of.queue_count, task.queues))
      return -1;
    p.kept[old] = 1;
    return p.old_tasks[old];
  }
  return -1;
}

void add_tasks(ProposedTasks& p, int slot) {
  const Fragment& fragment = *p.slots[at(slot)].fragment;
  const size_t first = at(p.slots[at(slot)].first);
  for (size_t i = 0, queue = 0; i < fragment.duration_ns.size(); ++i) {
    const int op = slot < p.graph.op_count ? slot : p.graph.wires[at(slot)].parties[at(fragment.key_party[i])];
    const ProposedTasks::Task task{.duration_ns = fragment.duration_ns[i],
                                   .key = static_cast<uint64_t>(op) << kKeyBits | fragment.key[i],
                                   .queues = fragment.queues.data() + queue,
                                   .queue_count = fragment.queue_ends[i] - static_cast<int>(queue),
                                   .queue = fragment.queues[queue],
                                   .rank = p.rank[at(slot)]};
    queue = at(fragment.queue_ends[i]);
    int number = kept_task(p, task);
    if (number < 0) {
      number = p.new_count++;
      if (p.tasks.size() < at(p.new_count)) p.tasks.resize(at(p.new_count) + at(p.new_count) / 2);
      p.tasks[at(number)] = task;
    }
    p.task_at[first + i] = number;
  }
}

void add_source(const ProposedTasks& p, std::vector<ProposedTasks::Source>& sources, int slot, int party, bool after) {
  const Fragment& fragment = p.is_touched(slot) ? *p.slots[at(slot)].fragment : *p.graph.fragments[at(slot)];
  const PartyLists& lists = after ? fragment.after : fragment.before;
  if (lists.has(at(party))) sources.push_back({slot, &lists[at(party)]});
}

void look_at_party(const ProposedTasks& p, ProposedTasks::Source& source, int party) {
  const int slot = party == 0 ? source.slot : p.graph.wires[at(source.slot)].parties[at(party)];
  source.party = party;
  source.first = p.is_touched(slot) ? p.slots[at(slot)].first : p.first[at(slot)];
}

void add_edges(ProposedTasks& p, std::vector<ProposedTasks::Source>& sources, int task) {
  for (ProposedTasks::Source& source : sources) {
    const std::vector<int>& ends = source.lists->ends;
    for (int e = task == 0 ? 0 : ends[at(task) - 1]; e < ends[at(task)]; ++e) {
      const TaskOf of = source.lists->tasks[at(e)];
      if (of.party != source.party) look_at_party(p, source, of.party);
      p.edges.push_back(p.task_at[at(source.first + of.task)]);
    }
  }
}

}  // namespace

std::vector<std::pair<int, FragmentPtr>> set_slots(ProposedTasks& p, TaskGraph graph) {
  static const FragmentPtr kNoTasks = std::make_shared<Fragment>();
  std::vector<std::pair<int, FragmentPtr>> all;
  for (size_t slot = 0; slot < graph.fragments.size(); ++slot)
    all.push_back({static_cast<int>(slot), std::exchange(graph.fragments[slot], kNoTasks)});
  p.rank = ranks(graph);
  p.first.resize(all.size());
  p.slots.resize(all.size());
  p.graph = std::move(graph);
  return all;
}

void begin_proposal(ProposedTasks& p, const std::vector<std::pair<int, FragmentPtr>>& exchanges) {
  ensure(p.epoch < std::numeric_limits<uint32_t>::max(), "more proposals than can be counted");
  ++p.epoch;
  p.exchanges.clear();
  p.touched.clear();
  p.new_count = p.task_count;
  p.new_cells = p.cell_count;
  for (const auto& [slot, fragment] : exchanges) {
    if (fragment == p.graph.fragments[at(slot)]) continue;
    ensure(!p.is_touched(slot), "slot {} is exchanged twice", slot);
    p.exchanges.push_back({slot, fragment});
    p.slots[at(slot)] = {.epoch = p.epoch, .exchanged = true, .first = p.new_cells, .fragment = fragment.get()};
    p.touched.push_back(slot);
    p.new_cells += fragment->size();
  }
}

void add_proposed_tasks(ProposedTasks& p) {
  for (const auto& [slot, fragment] : p.exchanges) touch_beside(p, slot);
  std::sort(p.touched.begin(), p.touched.end(), [&](int a, int b) { return p.rank[at(a)] > p.rank[at(b)]; });
  if (p.task_at.size() < at(p.new_cells)) p.task_at.resize(at(p.new_cells) + at(p.new_cells) / 2);
  p.edges.resize(at(p.edge_count));
  note_old_tasks(p);
  for (const auto& [slot, fragment] : p.exchanges) add_tasks(p, slot);
  p.removed.clear();
  for (size_t i = 0; i < p.old_tasks.size(); ++i)
    if (!p.kept[i]) p.removed.push_back(p.old_tasks[i]);
}

void gather_edges(ProposedTasks& p, int slot) {
  p.sources_after.clear();
  p.sources_before.clear();
  add_source(p, p.sources_after, slot, 0, true);
  add_source(p, p.sources_before, slot, 0, false);
  const TaskGraph::Wires& wires = p.graph.wires[at(slot)];
  for (const int tensor : wires.results) add_source(p, p.sources_after, tensor, 1, true);
  for (const auto& [tensor, party] : wires.operands) add_source(p, p.sources_before, tensor, party, false);
  const int size = p.size_now(slot);
  for (const std::vector<ProposedTasks::Source>* sources : {&p.sources_after, &p.sources_before})
    for (const ProposedTasks::Source& source : *sources)
      ensure(static_cast<int>(source.lists->ends.size()) == size, "slot {} has {} tasks, and slot {} edges for {}",
             slot, size, source.slot, source.lists->ends.size());
  p.gathered.clear();
  for (int i = 0; i < size; ++i) {
    ProposedTasks::Edges edges;
    edges.after = static_cast<int>(p.edges.size());
    add_edges(p, p.sources_after, i);
    edges.before = static_cast<int>(p.edges.size());
    add_edges(p, p.sources_before, i);
    edges.end = static_cast<int>(p.edges.size());
    p.gathered.push_back(edges);
  }
}

void set_queues(ProposedTasks& p, int slot) {
  const Fragment& fragment = *p.graph.fragments[at(slot)];
  for (int i = 0; i < fragment.size(); ++i)
    p.tasks[at(p.task_of(slot, i))].queues = fragment.queues.data() + (i == 0 ? 0 : fragment.queue_ends[at(i) - 1]);
}

void commit_tasks(ProposedTasks& p) {
  for (auto& [slot, fragment] : p.exchanges) {
    p.first[at(slot)] = p.slots[at(slot)].first;
    p.live_tasks += fragment->size() - p.graph.fragments[at(slot)]->size();
    std::swap(p.graph.fragments[at(slot)], fragment);
    set_queues(p, slot);
  }
  p.task_count = p.new_count;
  p.cell_count = p.new_cells;
  p.edge_count = static_cast<int>(p.edges.size());
}

bool is_sparse(const ProposedTasks& p) {
  return std::max(p.task_count, p.cell_count) > 2 * p.live_tasks + 1000 || p.edge_count > 2 * p.live_edges + 1000;
}

}  // namespace partita

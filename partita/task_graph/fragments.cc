// Puts tasks that were lowered alone into a fragment: their times, queues, keys and edges.
#include "partita/task_graph/fragments.h"

#include <algorithm>
#include <variant>

#include "partita/base/error.h"
#include "partita/task_graph/local_tasks.h"

namespace partita {

namespace {

struct Field {
  const char* name;
  int value, bits;
};

// Tasks [begin, end): the participants of a collective, or one.
void add_task(FragmentDraft& draft, const Draft& lowered, TaskTimes& times, TaskId begin, TaskId end) {
  Fragment& fragment = draft.fragment;
  const PhysicalGraph& graph = lowered.graph;
  const Task& first = graph.task(begin);
  TaskKey key = first.key;
  if (std::holds_alternative<CollectiveWork>(first.work)) {
    std::vector<TaskId> members;
    for (TaskId t = begin; t != end; t = TaskId(t.index() + 1)) {
      members.push_back(t);
      key = std::min(key, graph.task(t).key);
    }
    const TaskTimes::Collective node = times.of_collective(lowered, std::move(members));
    fragment.duration_ns.push_back(node.ns);
    fragment.queues.insert(fragment.queues.end(), node.queues.begin(), node.queues.end());
  } else {
    fragment.duration_ns.push_back(times.of(lowered, begin));
    fragment.queues.push_back(first.queue.value);
  }
  fragment.key.push_back(packed(key));
  const int queue = fragment.queue_ends.empty() ? 0 : fragment.queue_ends.back();
  fragment.queue_ends.push_back(static_cast<int>(fragment.queues.size()));
  for (int q = queue; q < fragment.queue_ends.back(); ++q)
    add_to(fragment.load_ns, fragment.queues[static_cast<size_t>(q)], fragment.duration_ns.back());
}

// The task behind the last participant of the collective that begins here, or behind this task.
TaskId end_of_node(const PhysicalGraph& graph, TaskId begin) {
  const auto* part = std::get_if<CollectiveWork>(&graph.task(begin).work);
  size_t end = begin.index() + 1;
  for (; part && end < graph.tasks.size(); ++end) {
    const auto* next = std::get_if<CollectiveWork>(&graph.tasks[end].work);
    if (!next || next->collective != part->collective) break;
  }
  return TaskId(end);
}

}  // namespace

void add_to(std::vector<std::pair<int, int64_t>>& sums, int at, int64_t value) {
  const auto found = std::ranges::lower_bound(sums, at, {}, &std::pair<int, int64_t>::first);
  if (found != sums.end() && found->first == at) found->second += value;
  else sums.insert(found, {at, value});
}

uint64_t packed(const TaskKey& key) {
  uint64_t bits = 0;
  int room = kKeyBits;
  for (const Field& f : {Field{"kinds", static_cast<int>(key.of), 3}, Field{"operands", key.number, 9},
                         Field{"steps", key.step, 6}, Field{"positions", key.position, 9},
                         Field{"positions", key.source + 1, 9}, Field{"parts of a transfer", key.part, 8}}) {
    if (f.value < 0 || f.value >= 1 << f.bits)
      fail("the local task graph has no room for more than {} {}: take fewer devices", 1 << f.bits, f.name);
    bits = bits << f.bits | static_cast<uint64_t>(f.value);
    room -= f.bits;
  }
  ensure(room == 0, "the fields of a key have {} bits too few", room);
  return bits;
}

void TasksOfRegisters::add(RegisterId reg, TaskOf task) {
  if (reg.index() >= lists_.size()) lists_.resize(reg.index() + 1);
  List& list = lists_[reg.index()];
  const int at = static_cast<int>(entries_.size());
  entries_.push_back({task, -1});
  (list.first < 0 ? list.first : entries_[static_cast<size_t>(list.last)].next) = at;
  list.last = at;
}

void FragmentDraft::clear() {
  writers.clear();
  own_readers.clear();
  edges.clear();
  for (auto* list : {&fragment.key_party, &fragment.queue_ends, &fragment.queues}) list->clear();
  fragment.duration_ns.clear();
  fragment.key.clear();
  fragment.load_ns.clear();
  fragment.bytes.clear();
}

void FragmentDraft::reads(const PhysicalGraph& graph, RegisterId reg, bool fresh, TaskOf reader) {
  if (graph.reg(reg).carried && !fresh) return;  // written in the step before
  writers.for_each(reg, [&](const TaskOf& writer) {
    if (writer != reader) edges.emplace_back(writer, reader);
  });
}

void add_tasks(FragmentDraft& draft, const Draft& lowered, TaskTimes& times, const std::function<int(OpId)>& party_of) {
  const PhysicalGraph& graph = lowered.graph;
  times.forget();
  for (TaskId begin(size_t{0}), end; begin.index() < graph.tasks.size(); begin = end) {
    end = end_of_node(graph, begin);
    const TaskOf own{0, draft.fragment.size()};
    draft.fragment.key_party.push_back(party_of(graph.task(begin).op));
    add_task(draft, lowered, times, begin, end);
    for (TaskId t = begin; t != end; t = TaskId(t.index() + 1)) {
      for (const Access& write : graph.task(t).writes) draft.writers.add(write.reg, own);
      for (const Access& read : graph.task(t).reads)
        if (!graph.reg(read.reg).carried || read.fresh) draft.own_readers.add(read.reg, own);
    }
  }
}

void add_bytes(FragmentDraft& draft, const PhysicalGraph& graph, size_t first) {
  for (size_t r = first; r < graph.registers.size(); ++r)
    add_to(draft.fragment.bytes, graph.registers[r].device.value, graph.registers[r].stride_bytes());
}

void add_own_edges(FragmentDraft& draft, const PhysicalGraph& graph) {
  for (size_t r = 0; r < graph.registers.size(); ++r)
    draft.own_readers.for_each(RegisterId(r),
                               [&](const TaskOf& reader) { draft.reads(graph, RegisterId(r), true, reader); });
}

Fragment finish_fragment(FragmentDraft& draft, EdgeLists& lists, const std::vector<int>& sizes) {
  const EdgeLists::Lists& known = lists.of(draft.edges, sizes);
  Fragment made = draft.fragment;  // without the spare capacity of the draft
  made.after = known.after;
  made.before = known.before;
  return made;
}

}  // namespace partita

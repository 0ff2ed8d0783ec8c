// Puts tasks that were lowered alone into a fragment: their times, queues and keys, and who waits for whom.
#include "partita/sim/fragments.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "partita/base/error.h"
#include "partita/sim/local_tasks.h"
#include "partita/sim/nodes.h"

namespace partita {

namespace {

struct Field {
  const char* name;
  int value, bits;
};

// Participants of a collective by the place of the first of them; other tasks alone.
std::vector<std::vector<TaskId>> nodes_of(const PhysicalGraph& graph) {
  std::map<CollectiveId, size_t> known;
  std::vector<std::vector<TaskId>> nodes;
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    const auto* part = std::get_if<CollectiveWork>(&graph.tasks[t].work);
    if (!part) {
      nodes.push_back({TaskId(t)});
      continue;
    }
    const auto [at, fresh] = known.try_emplace(part->collective, nodes.size());
    if (fresh) nodes.emplace_back();
    nodes[at->second].push_back(TaskId(t));
  }
  return nodes;
}

void add_to(std::vector<std::pair<int, int64_t>>& sums, int at, int64_t value) {
  const auto found = std::ranges::lower_bound(sums, at, {}, &std::pair<int, int64_t>::first);
  if (found != sums.end() && found->first == at) found->second += value;
  else sums.insert(found, {at, value});
}

// Whether it is done together with others where a plan has buckets (bundle.h).
bool is_of_a_bucket(const PhysicalGraph& graph, const Task& task) {
  if (graph.queues[task.queue.index()].kind != QueueKind::kParameterCollective) return false;
  switch (std::get<CollectiveWork>(task.work).kind) {
    case StepKind::kAllReduce:
    case StepKind::kReduceScatter:
      return task.phase != Phase::kForward;
    case StepKind::kAllGather:
      return task.turn == Task::Turn::kEager;
    default:
      return false;
  }
}

// Its part of what a full bucket takes.
int64_t collective_ns(const PhysicalGraph& graph, const FragmentTimes& times, const SimNode& node) {
  const Task& first = graph.task(node.tasks[0]);
  const int64_t whole = graph.reg(first.reads[0].reg).bytes;
  if (whole <= 0 || times.bucket_bytes <= whole || !is_of_a_bucket(graph, first) ||
      times.cost.cluster().profile_of(first.device))
    return node.duration_ns;
  const double of_them = static_cast<double>(times.bucket_bytes) / static_cast<double>(whole);
  const int64_t all_ns = node.collective->ways.whole_ns(static_cast<double>(node.sent_bytes) * of_them);
  return std::clamp<int64_t>(std::llround(static_cast<double>(all_ns) / of_them), 1, node.duration_ns);
}

void add_task(FragmentDraft& draft, const PhysicalGraph& graph, const FragmentTimes& times,
              const std::vector<TaskId>& members) {
  Fragment& fragment = draft.fragment;
  const Task& first = graph.task(members[0]);
  TaskKey key = first.key;
  if (std::holds_alternative<CollectiveWork>(first.work)) {
    for (const TaskId t : members) key = std::min(key, graph.task(t).key);
    const SimNode node = collective_node(graph, times.cost, members, times.queue_of);
    fragment.duration_ns.push_back(collective_ns(graph, times, node));
    fragment.queues.insert(fragment.queues.end(), node.queues.begin(), node.queues.end());
  } else {
    fragment.duration_ns.push_back(times.cost.task_ns(graph, first));
    fragment.queues.push_back(first.queue.value);
  }
  fragment.key.push_back(packed(key));
  const int begin = fragment.queue_ends.empty() ? 0 : fragment.queue_ends.back();
  fragment.queue_ends.push_back(static_cast<int>(fragment.queues.size()));
  for (int q = begin; q < fragment.queue_ends.back(); ++q)
    add_to(fragment.load_ns, fragment.queues[static_cast<size_t>(q)], fragment.duration_ns.back());
}

TaskLists lists_of(const std::vector<std::pair<TaskOf, TaskOf>>& sorted, int party, int size) {
  const auto from = std::ranges::lower_bound(sorted, TaskOf{party, 0}, {}, &std::pair<TaskOf, TaskOf>::first);
  TaskLists lists;
  auto at = from;
  if (at == sorted.end() || at->first.party != party) return lists;
  for (int t = 0; t < size; ++t) {
    for (; at != sorted.end() && at->first == TaskOf{party, t}; ++at) lists.tasks.push_back(at->second);
    lists.ends.push_back(static_cast<int>(lists.tasks.size()));
  }
  return lists;
}

}  // namespace

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

void FragmentDraft::reads(const PhysicalGraph& graph, RegisterId reg, bool fresh, TaskOf reader) {
  if (graph.reg(reg).carried && !fresh) return;  // written in the step before
  for (const TaskOf& writer : writers[reg.index()])
    if (writer != reader) edges.emplace_back(writer, reader);
}

void add_tasks(FragmentDraft& draft, const PhysicalGraph& graph, const FragmentTimes& times,
               const std::function<int(OpId)>& party_of) {
  draft.writers.resize(graph.registers.size());
  draft.own_readers.resize(graph.registers.size());
  for (const std::vector<TaskId>& members : nodes_of(graph)) {
    const TaskOf own{0, draft.fragment.size()};
    draft.fragment.key_party.push_back(party_of(graph.task(members[0]).op));
    add_task(draft, graph, times, members);
    for (const TaskId t : members) {
      for (const Access& write : graph.task(t).writes) draft.writers[write.reg.index()].push_back(own);
      for (const Access& read : graph.task(t).reads)
        if (!graph.reg(read.reg).carried || read.fresh) draft.own_readers[read.reg.index()].push_back(own.task);
    }
  }
}

void add_bytes(FragmentDraft& draft, const PhysicalGraph& graph, size_t first) {
  for (size_t r = first; r < graph.registers.size(); ++r)
    add_to(draft.fragment.bytes, graph.registers[r].device.value, graph.registers[r].stride_bytes());
}

void add_own_edges(FragmentDraft& draft, const PhysicalGraph& graph) {
  for (size_t r = 0; r < graph.registers.size(); ++r)
    for (const int reader : draft.own_readers[r]) draft.reads(graph, RegisterId(r), true, {0, reader});
}

Fragment finished(FragmentDraft draft, const std::vector<int>& sizes) {
  auto& edges = draft.edges;
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  Fragment& fragment = draft.fragment;
  for (size_t party = 0; party < sizes.size(); ++party)
    fragment.after.push_back(lists_of(edges, static_cast<int>(party), sizes[party]));
  for (auto& [from, to] : edges) std::swap(from, to);
  std::ranges::sort(edges);
  for (size_t party = 0; party < sizes.size(); ++party)
    fragment.before.push_back(lists_of(edges, static_cast<int>(party), sizes[party]));
  return std::move(fragment);
}

}  // namespace partita

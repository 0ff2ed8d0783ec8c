// Joins collectives of parameters into buckets.
#include "partita/physical/bundle.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/physical/of_parameters.h"

namespace partita {
namespace {

// A unit is a task, or all participants of a collective.
struct Units {
  std::vector<std::vector<TaskId>> members;  // by unit
  std::vector<int> of_task;
};

Units units_of(const PhysicalGraph& graph) {
  Units units;
  std::map<CollectiveId, int> known;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    int unit = static_cast<int>(units.members.size());
    if (const auto* participant = std::get_if<CollectiveWork>(&graph.tasks[t].work))
      unit = known.try_emplace(participant->collective, unit).first->second;
    if (unit == static_cast<int>(units.members.size())) units.members.emplace_back();
    units.members[unit].push_back(TaskId(t));
    units.of_task.push_back(unit);
  }
  return units;
}

// The sort of a unit that may be joined, if at all.
enum class Sort { kNone, kReduction, kReadyGather, kDueGather };
Sort sort_of(const PhysicalGraph& graph, const Task& task) {
  if (is_reduction_of_parameters(graph, task)) return task.phase != Phase::kForward ? Sort::kReduction : Sort::kNone;
  if (!is_gather_of_parameters(graph, task)) return Sort::kNone;
  if (task.turn == Task::Turn::kEager) return Sort::kReadyGather;
  return task.op.valid() ? Sort::kDueGather : Sort::kNone;
}

bool may_be_joined(const PhysicalGraph& graph, const Task& task) { return sort_of(graph, task) != Sort::kNone; }

// Where a unit stands: `depth` as the header says, and the place of the last op whose result it waits for.
struct Standing {
  int depth = 0, place = -1;
};

// Precedence among units, which the order will follow: from writers to readers, and from the readers of a carried
// register's old value to its writers.
std::vector<std::vector<int>> successors_of(const PhysicalGraph& graph, const Units& units) {
  struct Users {
    std::vector<int> writers, readers, old_readers;
  };
  std::vector<Users> users(graph.registers.size());
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const int unit = units.of_task[t];
    for (const Access& a : graph.tasks[t].writes) users[a.reg.index()].writers.push_back(unit);
    for (const Access& a : graph.tasks[t].reads) {
      const Register& reg = graph.reg(a.reg);
      if (reg.constant) continue;
      Users& of = users[a.reg.index()];
      (reg.carried && !a.fresh ? of.old_readers : of.readers).push_back(unit);
    }
  }
  std::vector<std::vector<int>> successors(units.members.size());
  const auto join = [&](const std::vector<int>& from, const std::vector<int>& to) {
    for (const int a : from)
      for (const int b : to)
        if (a != b) successors[a].push_back(b);
  };
  for (const Users& of : users) {
    join(of.writers, of.readers);
    join(of.old_readers, of.writers);
  }
  return successors;
}

// Places of ops in a given order, by op; none: the graph's.
std::vector<int> places_of(const std::vector<OpId>& order) {
  std::vector<int> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i].index()] = static_cast<int>(i);
  return places;
}

int place_in(const std::vector<int>& places, OpId op) { return places.empty() ? op.value : places[op.index()]; }

// By unit; empty if units wait for each other, which admission refuses. Members of a bucket stand at the place of the
// last of them.
std::vector<Standing> standings(const PhysicalGraph& graph, const Units& units, const std::vector<int>& places,
                                const std::vector<Standing>& before = {},
                                const std::vector<std::vector<int>>& buckets = {}) {
  const std::vector<std::vector<int>> successors = successors_of(graph, units);
  std::vector<int> left(successors.size(), 0), ready;
  for (const auto& list : successors)
    for (const int to : list) ++left[to];
  for (std::size_t u = 0; u < left.size(); ++u)
    if (left[u] == 0) ready.push_back(static_cast<int>(u));
  std::vector<Standing> standing(successors.size());
  for (const std::vector<int>& bucket : buckets)
    for (const int u : bucket) standing[u].place = before[bucket.back()].place;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const int u = ready[i];
    const Task& task = graph.task(units.members[u][0]);
    Standing& own = standing[u];
    const bool stands_in_place =
        task.turn == Task::Turn::kInPlace || (!places.empty() && std::holds_alternative<KernelWork>(task.work));
    if (stands_in_place && task.op.valid()) own.place = std::max(own.place, place_in(places, task.op));
    const int depth = own.depth + (may_be_joined(graph, task) ? 1 : 0);
    for (const int to : successors[u]) {
      standing[to].depth = std::max(standing[to].depth, depth);
      standing[to].place = std::max(standing[to].place, own.place);
      if (--left[to] == 0) ready.push_back(to);
    }
  }
  if (ready.size() < successors.size()) standing.clear();
  return standing;
}

std::vector<DeviceId> ring_of(const PhysicalGraph& graph, const std::vector<TaskId>& participants) {
  const Task& first = graph.task(participants[0]);
  if (first.background) return first.background->ring;
  std::vector<DeviceId> ring(std::get<CollectiveWork>(first.work).size);
  for (const TaskId t : participants) {
    const Task& task = graph.task(t);
    ring.at(static_cast<std::size_t>(std::get<CollectiveWork>(task.work).rank)) = task.device;
  }
  return ring;
}

// Only collectives of one kind are joined.
using Kind =
    std::tuple<StepKind, bool, tdl::Reducer, DType, Phase, Task::Turn, int, int, int, std::vector<DeviceId>, int>;

Kind kind_of(const PhysicalGraph& graph, const std::vector<TaskId>& participants, int depth) {
  const Task& task = graph.task(participants[0]);
  const auto& work = std::get<CollectiveWork>(task.work);
  const DType dtype = graph.reg(task.reads[0].reg).dtype;
  const int sharers = task.background ? task.background->sharers : 1;
  return {work.kind, work.partial, work.reducer, dtype,   task.phase,
          task.turn, task.rate,    task.stage,   sharers, ring_of(graph, participants),
          depth};
}

int64_t whole_bytes(const PhysicalGraph& graph, const std::vector<TaskId>& participants) {
  int64_t most = 0;
  for (const TaskId t : participants) most = std::max(most, whole_bytes(graph, graph.task(t)));
  return most;
}

// Buckets of units of one sort, each in the order of its members' places.
std::vector<std::vector<int>> buckets_of(const PhysicalGraph& graph, const Units& units,
                                         const std::vector<Standing>& standing, Sort sort,
                                         const BytesOfGroup& bytes_of_group) {
  std::map<Kind, std::vector<int>> kinds;
  for (std::size_t u = 0; u < standing.size(); ++u)
    if (sort_of(graph, graph.task(units.members[u][0])) == sort)
      kinds[kind_of(graph, units.members[u], standing[u].depth)].push_back(static_cast<int>(u));
  std::vector<std::vector<int>> buckets;
  for (auto& [kind, all] : kinds) {
    std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return standing[a].place < standing[b].place; });
    int64_t bytes = bytes_of_group(ring_of(graph, units.members[all[0]]));
    if (sort == Sort::kDueGather) {
      int64_t gathered = 0;
      for (const int u : all) gathered += whole_bytes(graph, units.members[u]);
      bytes = std::min(bytes, gathered / kDueBuckets);
    }
    int64_t limit = std::min(bytes, kFirstBucketBytes), held = 0;
    std::vector<int> bucket;
    for (const int u : all) {
      bucket.push_back(u);
      held += whole_bytes(graph, units.members[u]);
      if (held < limit) continue;
      buckets.push_back(std::exchange(bucket, {}));
      held = 0;
      limit = bytes;
    }
    if (!bucket.empty()) buckets.push_back(std::move(bucket));
  }
  return buckets;
}

// Joins one participant's tasks. The first becomes the task of all and takes over what the others held and got. Their
// buffers for addends of sums become one.
void join(PhysicalGraph& graph, const std::vector<TaskId>& tasks, std::vector<char>& dead_registers) {
  Task& all = graph.task(tasks[0]);
  for (std::size_t i = 1; i < tasks.size(); ++i) {
    const Task& other = graph.task(tasks[i]);
    all.reads.insert(all.reads.end(), other.reads.begin(), other.reads.end());
    all.writes.insert(all.writes.end(), other.writes.begin(), other.writes.end());
    all.bytes += other.bytes;
    all.flops += other.flops;
    for (const RegisterId id : other.scratch)
      if (all.addend) dead_registers[id.index()] = 1;
      else all.scratch.push_back(id);
    all.addend |= other.addend;
  }
  if (all.addend) graph.reg(all.scratch.back()).bytes = addend_bytes(graph, all);
  const std::size_t device = all.name.rfind('@');
  all.name.insert(device == std::string::npos ? all.name.size() : device, fmt::format("+{}", tasks.size() - 1));
}

// Leaves out the other members' tasks, and registers that no task uses any more. Collectives are numbered anew.
void leave_out(LocallyLowered& lowered, const std::vector<char>& dead_tasks, const std::vector<char>& dead_registers) {
  PhysicalGraph& graph = lowered.graph;
  std::vector<RegisterId> now(graph.registers.size());
  std::size_t kept = 0;
  for (std::size_t r = 0; r < now.size(); ++r) {
    if (dead_registers[r]) continue;
    now[r] = RegisterId(kept);
    if (kept != r) {
      graph.registers[kept] = std::move(graph.registers[r]);
      lowered.micro_batch_axes[kept] = lowered.micro_batch_axes[r];
    }
    ++kept;
  }
  graph.registers.resize(kept);
  lowered.micro_batch_axes.resize(kept);
  kept = 0;
  std::map<CollectiveId, CollectiveId> collectives;
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    if (dead_tasks[t]) continue;
    if (kept != t) graph.tasks[kept] = std::move(graph.tasks[t]);
    Task& task = graph.tasks[kept++];
    for (auto* accesses : {&task.reads, &task.writes})
      for (Access& a : *accesses) a.reg = now[a.reg.index()];
    for (RegisterId& id : task.scratch) id = now[id.index()];
    if (auto* participant = std::get_if<CollectiveWork>(&task.work))
      participant->collective =
          collectives.try_emplace(participant->collective, CollectiveId(collectives.size())).first->second;
  }
  graph.tasks.resize(kept);
}

}  // namespace

int64_t whole_bytes(const PhysicalGraph& graph, const Task& task) {
  int64_t most = 0;
  for (const auto* accesses : {&task.reads, &task.writes})
    for (const Access& a : *accesses) {
      const Register& reg = graph.reg(a.reg);
      most = std::max(most, a.boxes.empty() ? reg.bytes : volume(a.boxes[0]) * bytes_of(reg.dtype));
    }
  return most;
}

void bundle_collectives(LocallyLowered& lowered, int64_t bytes, const std::vector<OpId>& order,
                        const BytesOfGroup& due_bytes) {
  PhysicalGraph& graph = lowered.graph;
  const auto joinable = [&](const Task& task) { return may_be_joined(graph, task); };
  if (bytes <= 0 || std::none_of(graph.tasks.begin(), graph.tasks.end(), joinable)) return;
  const Units units = units_of(graph);
  const std::vector<int> places = places_of(order);
  std::vector<Standing> standing = standings(graph, units, places);
  const BytesOfGroup same = [&](const std::vector<DeviceId>&) { return bytes; };
  const BytesOfGroup due = [&](const std::vector<DeviceId>& group) {
    return due_bytes ? std::max(bytes, due_bytes(group)) : bytes;
  };
  std::vector<std::vector<int>> buckets = buckets_of(graph, units, standing, Sort::kReduction, same);
  // Gathers wait for the updates that wait for all of a bucket.
  const std::vector<Standing> reduced = standings(graph, units, places, standing, buckets);
  for (std::vector<int>& bucket : buckets_of(graph, units, reduced, Sort::kReadyGather, same))
    buckets.push_back(std::move(bucket));
  // Other gathers stand where they are read.
  for (std::size_t u = 0; u < standing.size(); ++u)
    if (const Task& task = graph.task(units.members[u][0]); task.op.valid())
      standing[u].place = place_in(places, task.op);
  for (std::vector<int>& bucket : buckets_of(graph, units, standing, Sort::kDueGather, due))
    buckets.push_back(std::move(bucket));
  std::vector<char> dead_tasks(graph.tasks.size(), 0), dead_registers(graph.registers.size(), 0);
  for (const std::vector<int>& bucket : buckets) {
    if (bucket.size() < 2) continue;
    std::map<int, std::vector<TaskId>> by_rank;
    for (const int u : bucket)
      for (const TaskId t : units.members[u]) by_rank[std::get<CollectiveWork>(graph.task(t).work).rank].push_back(t);
    for (const auto& [rank, tasks] : by_rank) {
      ensure(tasks.size() == bucket.size(), "task '{}': {} of {} collectives have rank {}", graph.task(tasks[0]).name,
             tasks.size(), bucket.size(), rank);
      join(graph, tasks, dead_registers);
      for (std::size_t i = 1; i < tasks.size(); ++i) dead_tasks[tasks[i].index()] = 1;
    }
  }
  leave_out(lowered, dead_tasks, dead_registers);
}

}  // namespace partita

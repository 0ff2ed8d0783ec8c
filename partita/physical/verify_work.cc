// Verifies that copies, combinations, collectives, loads and outputs cover what they write.
#include <algorithm>
#include <map>
#include <set>

#include "partita/physical/verify_parts.h"

namespace partita::verifying {
namespace {

void check_copy(const PhysicalGraph& graph, const Task& task) {
  expect(task, task.reads.size() == 1 && task.writes.size() == 1, "a copy has one read and one write");
  const Register &from = graph.reg(task.reads[0].reg), &to = graph.reg(task.writes[0].reg);
  expect(task, from.dtype == to.dtype && volume(from.axes) == volume(to.axes),
         "copies '{}' to '{}', of another dtype or size", from.name, to.name);
  expect(task, (from.device == to.device) == task.route.empty(),
         "a copy has a route exactly if it goes to another device");
  for (int firing = 0; firing < task.rate; ++firing) {
    const Box &read = part(graph, task.reads[0], task.rate, firing),
              &write = part(graph, task.writes[0], task.rate, firing);
    expect(task,
           (from.axes == to.axes ? read == write : reshape_box(read, from.axes, to.axes) == write) ||
               (is_empty(read) && is_empty(write)),
           "reads {} of '{}' and writes {} of '{}'", to_string(read), from.name, to_string(write), to.name);
  }
}

// The registers in which a register's elements were made: itself, or those that were copied into it.
std::vector<RegisterId> origins(const PhysicalGraph& graph, const Writers& writers, RegisterId id, int depth = 0) {
  const std::vector<Writer>& made_by = writers[id.index()];
  const bool copied =
      !made_by.empty() && depth < 16 && std::all_of(made_by.begin(), made_by.end(), [&](const Writer& w) {
        return std::holds_alternative<CopyWork>(graph.task(w.task).work);
      });
  if (!copied || graph.reg(id).carried) return {id};
  std::vector<RegisterId> result;
  for (const Writer& w : made_by)
    for (RegisterId origin : origins(graph, writers, graph.task(w.task).reads[0].reg, depth + 1))
      result.push_back(origin);
  return result;
}

// Cells between the cuts that the terms make on each axis: [axis][cut].
std::vector<std::vector<int64_t>> cuts_of(const Box& target, const std::vector<Box>& terms) {
  std::vector<std::vector<int64_t>> cuts(target.size());
  for (std::size_t a = 0; a < target.size(); ++a) {
    std::set<int64_t> at{target[a].lo, target[a].hi};
    for (const Box& term : terms)
      if (!is_empty(term)) at.insert({term[a].lo, term[a].hi});
    cuts[a].assign(at.begin(), at.end());
  }
  return cuts;
}

// Checks that every element is made of as many terms as every other (partial values of so many members), or of at most
// one (the identity elsewhere).
void verify_even_split(const Task& task, const Box& target, const std::vector<Box>& terms) {
  if (is_empty(target)) return;
  const std::vector<std::vector<int64_t>> cuts = cuts_of(target, terms);
  int least = -1, most = 0;
  std::vector<std::size_t> cell(target.size(), 0);
  while (true) {
    int covered = 0;
    for (const Box& term : terms) {
      bool inside = !is_empty(term);
      for (std::size_t a = 0; a < cell.size() && inside; ++a)
        inside = term[a].lo <= cuts[a][cell[a]] && cuts[a][cell[a]] < term[a].hi;
      covered += inside;
    }
    least = least < 0 ? covered : std::min(least, covered);
    most = std::max(most, covered);
    std::size_t a = cell.size();
    while (a > 0 && ++cell[a - 1] + 1 == cuts[a - 1].size()) cell[--a] = 0;
    if (a == 0) break;
  }
  expect(task, least == most || most <= 1, "makes some elements of {} terms and others of {}", least, most);
}

// Checks that terms lie inside the target and count each member once. `evenly`: and cover it evenly. Partial values
// that go to those of another mesh need not: a member has one term of some elements, and two of others.
void check_combine(const PhysicalGraph& graph, const Writers& writers, const Task& task, bool evenly) {
  expect(task, task.writes.size() == 1, "a combine has one write");
  const Register& to = graph.reg(task.writes[0].reg);
  for (const Access& read : task.reads) {
    const Register& from = graph.reg(read.reg);
    expect(task, from.dtype == to.dtype && from.axes == to.axes,
           "combines '{}' into '{}', of another dtype or other axes", from.name, to.name);
  }
  for (int firing = 0; firing < task.rate; ++firing) {
    const Box& target = part(graph, task.writes[0], task.rate, firing);
    std::vector<Box> terms;
    bool alike = true;
    for (const Access& read : task.reads) {
      terms.push_back(part(graph, read, task.rate, firing));
      alike &= terms.back() == target;
      expect(task, task.rate > 1 || is_empty(target) || !is_empty(terms.back()), "reads nothing of '{}'",
             graph.reg(read.reg).name);
      expect(task, is_empty(terms.back()) || contains(target, terms.back()),
             "reads {} of '{}', more than the {} that it writes", to_string(terms.back()), graph.reg(read.reg).name,
             to_string(target));
    }
    if (evenly && !alike) verify_even_split(task, target, terms);
    for (std::size_t i = 0; i < terms.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (is_empty(intersect(terms[i], terms[j]))) continue;
        for (RegisterId a : origins(graph, writers, task.reads[i].reg))
          for (RegisterId b : origins(graph, writers, task.reads[j].reg))
            expect(task, a != b, "counts '{}' twice", graph.reg(a).name);
      }
  }
}

// Checks that the caller gets every element of an output, from one task or from several, in one firing or in several.
void check_outputs(const PhysicalGraph& graph) {
  std::map<TensorId, std::vector<Box>> given;
  std::map<TensorId, const Task*> giver;
  for (const Task& task : graph.tasks) {
    const auto* work = std::get_if<OutputWork>(&task.work);
    if (!work) continue;
    const Access& read = task.reads[0];
    std::vector<Box>& parts = given[work->output];
    giver[work->output] = &task;
    const std::vector<Box>& boxes = read.boxes.empty() ? graph.reg(read.reg).boxes : read.boxes;
    parts.insert(parts.end(), boxes.begin(), boxes.end());
  }
  for (const auto& [output, parts] : given) {
    const Task& task = *giver.at(output);
    const Register& reg = graph.reg(task.reads[0].reg);
    const auto left = without(full_box(reg.axes), parts);
    expect(task, left.empty(), "gives only a part of its output: {} of '{}' is left out",
           left.empty() ? "" : to_string(left[0]), reg.name);
  }
}

// Checks that the tensors that a participant holds and gets have the same dtype and axes as the others'.
void check_tensors(const PhysicalGraph& graph, const Task& first, const Task& task) {
  expect(task, !task.reads.empty() && task.reads.size() == task.writes.size(),
         "a participant has as many reads as writes, not {} and {}", task.reads.size(), task.writes.size());
  expect(task, task.reads.size() == first.reads.size(), "exchanges {} tensors, '{}' in the same collective {}",
         task.reads.size(), first.name, first.reads.size());
  for (std::size_t i = 0; i < task.reads.size(); ++i) {
    const Register &from = graph.reg(task.reads[i].reg), &to = graph.reg(task.writes[i].reg),
                   &other = graph.reg(first.reads[i].reg);
    expect(task, from.dtype == to.dtype && from.axes == to.axes && from.dtype == other.dtype && from.axes == other.axes,
           "'{}' and '{}' differ in dtype or axes, among themselves or from the other participants'", from.name,
           to.name);
  }
}

// Checks that participants have one rank and one device each, and are all of one kind, for the same tensors.
void check_participants(const PhysicalGraph& graph, const std::vector<TaskId>& group) {
  const Task& first = graph.task(group[0]);
  const auto& work = std::get<CollectiveWork>(first.work);
  std::vector<bool> ranks(group.size(), false);
  std::set<DeviceId> devices;
  for (TaskId id : group) {
    const Task& task = graph.task(id);
    const auto& mine = std::get<CollectiveWork>(task.work);
    expect(task,
           mine.kind == work.kind && mine.size == work.size && mine.partial == work.partial && task.rate == first.rate,
           "kind, size or rate are not those of '{}' in the same collective", first.name);
    expect(task, !mine.partial || mine.reducer == work.reducer, "reduces by {}, '{}' in the same collective by {}",
           tdl::name_of(mine.reducer), first.name, tdl::name_of(work.reducer));
    expect(task, mine.rank >= 0 && mine.rank < work.size && !ranks[mine.rank],
           "rank {} of {} is taken or does not exist", mine.rank, work.size);
    expect(task, devices.insert(task.device).second, "another participant is on its device");
    ranks[mine.rank] = true;
    check_tensors(graph, first, task);
  }
}

// Checks that every participant gets only elements that are held: each by all (partial), or by any.
void check_exchange(const PhysicalGraph& graph, const std::vector<TaskId>& group, std::size_t i, int firing) {
  const Task& first = graph.task(group[0]);
  std::vector<Box> held;
  for (TaskId id : group) held.push_back(part(graph, graph.task(id).reads[i], first.rate, firing));
  for (TaskId id : group) {
    const Task& task = graph.task(id);
    const Box& target = part(graph, task.writes[i], first.rate, firing);
    if (is_empty(target)) continue;
    if (std::get<CollectiveWork>(first.work).partial) {
      for (std::size_t p = 0; p < held.size(); ++p)
        expect(task, contains(held[p], target), "gets {}, of which '{}' holds only {}", to_string(target),
               graph.task(group[p]).name, to_string(held[p]));
    } else if (const auto left = without(target, held); !left.empty()) {
      expect(task, false, "gets {}, of which no participant holds {}", to_string(target), to_string(left[0]));
    }
  }
}

void check_collective(const PhysicalGraph& graph, const std::vector<TaskId>& group) {
  const Task& first = graph.task(group[0]);
  const auto& work = std::get<CollectiveWork>(first.work);
  const bool reduces = work.kind == StepKind::kAllReduce || work.kind == StepKind::kReduceScatter;
  expect(first, reduces || work.kind == StepKind::kAllGather || work.kind == StepKind::kAllToAll,
         "{} is not a collective", name_of(work.kind));
  expect(first, work.partial == reduces, "{} of {} values", name_of(work.kind), work.partial ? "partial" : "whole");
  expect(first, static_cast<int>(group.size()) == work.size, "{} participants of {}", group.size(), work.size);
  check_participants(graph, group);
  for (std::size_t i = 0; i < first.reads.size(); ++i)
    for (int firing = 0; firing < first.rate; ++firing) check_exchange(graph, group, i, firing);
}

// Tells whether all that is computed has a formula. Then check_shares() knows the terms of each element.
bool has_formulas(const PhysicalGraph& graph) {
  int kernels = 0, formulas = 0;
  for (const Task& task : graph.tasks)
    if (const auto* kernel = std::get_if<KernelWork>(&task.work)) ++kernels, formulas += kernel->bound != nullptr;
  return kernels > 0 && kernels == formulas;
}

}  // namespace

void check_work(const PhysicalGraph& graph, const Writers& writers) {
  std::map<CollectiveId, std::vector<TaskId>> groups;
  const bool evenly = !has_formulas(graph);
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    if (std::holds_alternative<CopyWork>(task.work)) check_copy(graph, task);
    if (std::holds_alternative<CombineWork>(task.work)) check_combine(graph, writers, task, evenly);
    if (std::holds_alternative<LoadWork>(task.work))
      expect(task, task.reads.empty() && task.writes.size() == 1, "a load has no read and one write");
    if (std::holds_alternative<OutputWork>(task.work))
      expect(task, task.reads.size() == 1 && task.writes.empty(), "an output has one read and no write");
    if (const auto* collective = std::get_if<CollectiveWork>(&task.work))
      groups[collective->collective].push_back(TaskId(t));
  }
  check_outputs(graph);
  for (const auto& [id, group] : groups) check_collective(graph, group);
}

}  // namespace partita::verifying

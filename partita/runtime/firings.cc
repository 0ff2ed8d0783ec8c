// Finds the views of every firing, and prepares the calls of kernels.
#include "partita/runtime/firings.h"

#include <algorithm>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/physical/uses.h"

namespace partita {
namespace {

std::vector<std::vector<TaskId>> participants_of(const PhysicalGraph& graph) {
  std::vector<std::vector<TaskId>> participants;
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    if (auto* work = std::get_if<CollectiveWork>(&graph.tasks[t].work)) {
      if (participants.size() <= work->collective.index()) participants.resize(work->collective.index() + 1);
      auto& members = participants[work->collective.index()];
      members.resize(work->size);
      members[work->rank] = TaskId(t);
    }
  return participants;
}

// Firings after the first add to an accumulated register: their results lie in the task's last scratch register first
// (`addend`, moved on behind it), if lowering gave it one. The result of a combination that is written over one of its
// operands lies in a buffer first.
ActWrite write_of(const Memory& memory, const Task& task, const Access& write, int firing, std::byte*& addend) {
  const Register& reg = memory.graph().reg(write.reg);
  const bool adds = reg.accumulated && firing > 0;
  if (adds && addend) {
    const View view = memory.view(write, firing, task.rate);
    std::byte* const at = addend;
    addend += align_up(volume(view.box) * bytes_of(reg.dtype), kAlignBytes);
    return {view, true, true, at};
  }
  const bool over = std::holds_alternative<CombineWork>(task.work) &&
                    (task.elementwise || std::any_of(task.reads.begin(), task.reads.end(),
                                                     [&](const Access& read) { return read.reg == write.reg; }));
  return {memory.view(write, firing, task.rate), adds || over, adds, nullptr};
}

// A task that reads once a step a register with several uses reads it use by use.
std::vector<View> views_of_uses(const Memory& memory, const Task& task, const Access& read, int firing) {
  const UseRange range = uses_of(memory.graph().reg(read.reg), task.rate, firing, read.fresh);
  if (range.last - range.first == 1) return {memory.view(read, firing, task.rate)};
  std::vector<View> views;
  for (int use = range.first; use < range.last; ++use) views.push_back(memory.view_of_use(read, use));
  return views;
}

// The kernel sees the axes of its formula.
View over_formula_axes(const Task& task, const KernelWork& work, const Access& access, const View& placed) {
  const tdl::BoundTensor& tensor = work.bound->tensors[access.tensor];
  auto view = regroup(placed, tensor.factored);
  ensure(view.has_value(), "task '{}': operand '{}' lies in memory in a way that its kernel's axes can't express",
         task.name, tensor.name);
  return *view;
}

KernelCall call_of(const Memory& memory, const Task& task, const KernelWork& work, int firing,
                   const std::vector<ActWrite>& writes) {
  KernelCall call;
  call.task = &task;
  call.work = &work;
  call.firing = firing;
  for (const Access& read : task.reads)
    call.reads.push_back(over_formula_axes(task, work, read, memory.view(read, firing, task.rate)));
  for (size_t i = 0; i < writes.size(); ++i) {
    View view = writes[i].view;
    if (writes[i].buffered) view.strides = dense_strides(extents(view.box));
    call.writes.push_back(over_formula_axes(task, work, task.writes[i], view));
  }
  if (task.scratch.size() > (task.addend ? 1u : 0u)) {
    const Register& scratch = memory.graph().reg(task.scratch[0]);
    call.scratch = memory.address(task.scratch[0], use_of(scratch, firing, task.rate));
    call.scratch_bytes = static_cast<size_t>(scratch.bytes);
  }
  return call;
}

Firing firing_of(const Memory& memory, const Task& task, int firing, Kernels* kernels) {
  Firing result;
  std::byte* addend = task.addend ? memory.address(task.scratch.back(),
                                                   use_of(memory.graph().reg(task.scratch.back()), firing, task.rate))
                                  : nullptr;
  for (const Access& write : task.writes) result.writes.push_back(write_of(memory, task, write, firing, addend));
  if (auto* work = std::get_if<KernelWork>(&task.work)) {
    result.call = call_of(memory, task, *work, firing, result.writes);
    if (kernels) result.call.prepared = kernels->prepare_call(result.call);
    return result;
  }
  for (const Access& read : task.reads) {
    const bool collective = std::holds_alternative<CollectiveWork>(task.work);
    result.reads.push_back(collective ? std::vector{memory.view(read, firing, task.rate)}
                                      : views_of_uses(memory, task, read, firing));
  }
  return result;
}

}  // namespace

Firings prepare_firings(const Memory& memory, Kernels* kernels) {
  const PhysicalGraph& graph = memory.graph();
  Firings firings{graph, {}, participants_of(graph)};
  for (const Task& task : graph.tasks) {
    std::vector<Firing>& mine = firings.by_task.emplace_back();
    for (int firing = 0; firing < task.rate; ++firing) mine.push_back(firing_of(memory, task, firing, kernels));
  }
  return firings;
}

}  // namespace partita

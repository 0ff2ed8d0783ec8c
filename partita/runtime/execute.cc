#include "partita/runtime/execute.h"

#include "partita/base/error.h"

namespace partita {

Executor::Executor(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks) : graph_(graph), memory_(memory), hooks_(hooks) {
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    if (auto* work = std::get_if<CollectiveWork>(&graph.tasks[t].work)) {
      if (participants_.size() <= work->collective.index()) participants_.resize(work->collective.index() + 1);
      auto& members = participants_[work->collective.index()];
      members.resize(work->size);
      members[work->rank] = TaskId(t);
    }
}

void Executor::run(TaskId id, int64_t step, int act) const {
  const Task& task = graph_.task(id);
  auto read = [&](size_t i) { return memory_.view(task.reads[i], act, task.rate); };
  auto write = [&](size_t i) { return memory_.view(task.writes[i], act, task.rate); };
  if (auto* kernel = std::get_if<KernelWork>(&task.work)) return run_kernel(task, *kernel, step, act);
  if (auto* collective = std::get_if<CollectiveWork>(&task.work)) return run_collective(task, *collective, act);
  if (std::holds_alternative<CopyWork>(task.work)) {
    View from = read(0), to = write(0);
    if (from.axes != to.axes) {
      auto same = regroup(from, to.axes);
      ensure(same.has_value(), "task '{}' copies between axes that have no common view", task.name);
      from = *same;
    }
    return copy_box(from, to);
  }
  if (auto* combine = std::get_if<CombineWork>(&task.work)) {
    View to = write(0);
    fill(to, tdl::identity_of(combine->reducer));
    for (size_t i = 0; i < task.reads.size(); ++i) combine_box(combine->reducer, read(i), to);
    return;
  }
  if (auto* load = std::get_if<LoadWork>(&task.work)) return hooks_.load(load->input, hooks_.first_step + step, write(0));
  if (auto* output = std::get_if<OutputWork>(&task.work)) return hooks_.take(output->output, hooks_.first_step + step, read(0));
}

void Executor::run_kernel(const Task& task, const KernelWork& work, int64_t step, int act) const {
  ensure(hooks_.kernels != nullptr, "task '{}' needs kernels, and none are loaded", task.name);
  KernelCall call;
  call.task = &task;
  call.work = &work;
  call.act = act;
  call.seed = hooks_.seed;
  call.step = static_cast<uint64_t>(hooks_.first_step + step);
  auto over_formula_axes = [&](const Access& a) {  // the kernel sees the axes that its formula has
    auto view = regroup(memory_.view(a, act, task.rate), work.bound->tensors[a.tensor].factored);
    ensure(view.has_value(), "task '{}': operand '{}' lies in memory in a way that its kernel's axes can't express", task.name,
           work.bound->tensors[a.tensor].name);
    return *view;
  };
  for (const Access& a : task.reads) call.reads.push_back(over_formula_axes(a));
  for (const Access& a : task.writes) call.writes.push_back(over_formula_axes(a));
  if (!task.scratch.empty()) {
    call.scratch = memory_.address(task.scratch[0], use_of(graph_.reg(task.scratch[0]), act, task.rate));
    call.scratch_bytes = static_cast<size_t>(graph_.reg(task.scratch[0]).bytes);
  }
  hooks_.kernels->run(call);
}

void Executor::run_collective(const Task& task, const CollectiveWork& work, int act) const {
  View to = memory_.view(task.writes[0], act, task.rate);
  if (work.partial) {
    fill(to, tdl::identity_of(work.reducer));
    for (TaskId p : participants_[work.collective.index()])
      combine_box(work.reducer, memory_.view(graph_.task(p).reads[0], act, task.rate), to);
    return;
  }
  // Not partial: every element from the first participant that holds it.
  std::vector<Box> missing = {to.box};
  for (TaskId p : participants_[work.collective.index()]) {
    View from = memory_.view(graph_.task(p).reads[0], act, task.rate);
    std::vector<Box> rest;
    for (const Box& box : missing) {
      Box common = intersect(box, from.box);
      if (is_empty(common)) {
        rest.push_back(box);
        continue;
      }
      View part = to;
      part.box = common;
      for (size_t i = 0; i < common.size(); ++i) part.data += (common[i].lo - to.box[i].lo) * to.strides[i] * bytes_of(to.dtype);
      copy_box(from, part);
      for (Box& left : subtract(box, common)) rest.push_back(std::move(left));
    }
    missing = std::move(rest);
  }
}

}  // namespace partita

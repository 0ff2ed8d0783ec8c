#include "partita/runtime/execute.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

Executor::Executor(const PhysicalGraph& graph, const Memory& memory, const Hooks& hooks)
    : graph_(graph), memory_(memory), hooks_(hooks) {
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    if (auto* work = std::get_if<CollectiveWork>(&graph.tasks[t].work)) {
      if (participants_.size() <= work->collective.index()) participants_.resize(work->collective.index() + 1);
      auto& members = participants_[work->collective.index()];
      members.resize(work->size);
      members[work->rank] = TaskId(t);
    }
}

namespace {

// A dense view of the same box in `bytes`.
View buffer_for(const View& view, std::vector<std::byte>& bytes) {
  View buffer = view;
  int64_t elements = 1;
  for (size_t a = view.box.size(); a-- > 0;) buffer.strides[a] = elements, elements *= view.box[a].size();
  bytes.resize(static_cast<size_t>(elements * bytes_of(view.dtype)));
  buffer.data = bytes.data();
  return buffer;
}

// combine(to), in float32 where that is wider.
template <typename Combine>
void combine_wide(const View& to, Combine combine) {
  if (!is_low(to.dtype)) return combine(to);
  View wide = to;
  wide.dtype = computed_in(to.dtype);
  std::vector<std::byte> bytes;
  wide = buffer_for(wide, bytes);
  combine(wide);
  copy_box(wide, to);
}

// Part of a view. `box` lies in it.
View part_of(View view, const Box& box) {
  for (size_t a = 0; a < box.size(); ++a)
    view.data += (box[a].lo - view.box[a].lo) * view.strides[a] * bytes_of(view.dtype);
  view.box = box;
  return view;
}

}  // namespace

void Executor::run(TaskId id, int64_t step, int act) const {
  const Task& task = graph_.task(id);
  std::vector<View> in_place, writes;
  std::vector<std::vector<std::byte>> buffers(task.writes.size());
  for (size_t i = 0; i < task.writes.size(); ++i) {
    const Access& write = task.writes[i];
    bool adds = graph_.reg(write.reg).accumulated && act > 0;
    bool over = std::holds_alternative<CombineWork>(task.work) &&
                (task.elementwise || std::any_of(task.reads.begin(), task.reads.end(),
                                                 [&](const Access& read) { return read.reg == write.reg; }));
    in_place.push_back(memory_.view(write, act, task.rate));
    writes.push_back(adds || over ? buffer_for(in_place[i], buffers[i]) : in_place[i]);
  }
  run_into(task, step, act, writes);
  for (size_t i = 0; i < writes.size(); ++i) {
    if (writes[i].data == in_place[i].data) continue;
    if (graph_.reg(task.writes[i].reg).accumulated && act > 0) combine_box(tdl::Reducer::kSum, writes[i], in_place[i]);
    else copy_box(writes[i], in_place[i]);
  }
}

void Executor::run_into(const Task& task, int64_t step, int act, const std::vector<View>& writes) const {
  if (auto* kernel = std::get_if<KernelWork>(&task.work)) return run_kernel(task, *kernel, step, act, writes);
  if (auto* collective = std::get_if<CollectiveWork>(&task.work))
    return run_collective(task, *collective, act, writes[0]);
  if (auto* load = std::get_if<LoadWork>(&task.work))
    return hooks_.load(load->input, hooks_.first_step + step, writes[0]);
  // What a task reads once a step of a register with several uses, it reads use by use.
  auto each = [&](const Access& read, auto f) {
    const UseRange range = uses_of(graph_.reg(read.reg), task.rate, act, read.fresh);
    for (int use = range.first; use < range.last; ++use)
      f(range.last - range.first == 1 ? memory_.view(read, act, task.rate) : memory_.view_of_use(read, use));
  };
  if (std::holds_alternative<CopyWork>(task.work)) {
    const View& to = writes[0];
    each(task.reads[0], [&](View from) {
      if (from.axes != to.axes) {
        auto same = regroup(from, to.axes);
        ensure(same.has_value(), "task '{}' copies between axes that have no common view", task.name);
        from = *same;
      }
      Box common = intersect(from.box, to.box);
      if (!is_empty(common)) copy_box(from, part_of(to, common));
    });
  } else if (auto* combine = std::get_if<CombineWork>(&task.work)) {
    for (const View& written : writes)
      combine_wide(written, [&](const View& to) {
        fill(to, tdl::identity_of(combine->reducer));
        for (const Access& read : task.reads)
          each(read, [&](const View& from) { combine_box(combine->reducer, from, to); });
      });
  } else if (auto* output = std::get_if<OutputWork>(&task.work)) {
    each(task.reads[0], [&](const View& value) { hooks_.take(output->output, hooks_.first_step + step, value); });
  }
}

void Executor::run_kernel(const Task& task, const KernelWork& work, int64_t step, int act,
                          const std::vector<View>& writes) const {
  ensure(hooks_.kernels != nullptr, "task '{}' needs kernels, and none are loaded", task.name);
  KernelCall call;
  call.task = &task;
  call.work = &work;
  call.act = act;
  call.seed = hooks_.seed;
  call.step = static_cast<uint64_t>(hooks_.first_step + step);
  call.outside = &outside_;
  auto over_formula_axes = [&](const Access& a, const View& placed) {  // the kernel sees the axes that its formula has
    auto view = regroup(placed, work.bound->tensors[a.tensor].factored);
    ensure(view.has_value(), "task '{}': operand '{}' lies in memory in a way that its kernel's axes can't express",
           task.name, work.bound->tensors[a.tensor].name);
    return *view;
  };
  for (const Access& a : task.reads) call.reads.push_back(over_formula_axes(a, memory_.view(a, act, task.rate)));
  for (size_t i = 0; i < writes.size(); ++i) call.writes.push_back(over_formula_axes(task.writes[i], writes[i]));
  if (!task.scratch.empty()) {
    call.scratch = memory_.address(task.scratch[0], use_of(graph_.reg(task.scratch[0]), act, task.rate));
    call.scratch_bytes = static_cast<size_t>(graph_.reg(task.scratch[0]).bytes);
  }
  hooks_.kernels->run(call);
}

void Executor::run_collective(const Task& task, const CollectiveWork& work, int act, View to) const {
  if (work.partial) {
    return combine_wide(to, [&](const View& into) {
      fill(into, tdl::identity_of(work.reducer));
      for (TaskId p : participants_[work.collective.index()])
        combine_box(work.reducer, memory_.view(graph_.task(p).reads[0], act, task.rate), into);
    });
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
      copy_box(from, part_of(to, common));
      for (Box& left : subtract(box, common)) rest.push_back(std::move(left));
    }
    missing = std::move(rest);
  }
}

}  // namespace partita

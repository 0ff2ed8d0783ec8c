// Runs firings: calls kernels, copies and combines boxes, and reads other participants' memory.
#include "partita/runtime/execute.h"

#include "partita/base/error.h"

namespace partita {
namespace {

// A dense view of the same box in `bytes`.
View buffer_for(const View& view, std::vector<std::byte>& bytes) {
  View buffer = view;
  buffer.strides = dense_strides(extents(view.box));
  bytes.resize(static_cast<size_t>(volume(view.box) * bytes_of(view.dtype)));
  buffer.data = bytes.data();
  return buffer;
}

// The first destination of a firing's result.
View into_of(const ActWrite& write, std::vector<std::byte>& bytes) {
  if (!write.buffered) return write.view;
  if (!write.addend) return buffer_for(write.view, bytes);
  View into = write.view;
  into.strides = dense_strides(extents(into.box));
  into.data = write.addend;
  return into;
}

// combine(to), in float32 if that is wider.
template <typename Combine>
void combine_wide(const View& to, Combine combine) {
  if (!is_low(to.dtype)) return combine(to);
  View wide = to;
  wide.dtype = compute_dtype(to.dtype);
  std::vector<std::byte> bytes;
  wide = buffer_for(wide, bytes);
  combine(wide);
  copy_box(wide, to);
}

void copy(const Task& task, const Firing& firing, const View& to) {
  for (View from : firing.reads[0]) {
    if (from.axes != to.axes) {
      auto same = regroup(from, to.axes);
      ensure(same.has_value(), "task '{}' copies between axes that have no common view", task.name);
      from = *same;
    }
    const Box common = intersect(from.box, to.box);
    if (!is_empty(common)) copy_box(from, part_of(to, common));
  }
}

}  // namespace

void Executor::run(TaskId id, int64_t step, int number) const {
  const Task& task = firings_.graph.task(id);
  const Firing& firing = firings_.at(id, number);
  std::vector<View> writes;
  std::vector<std::vector<std::byte>> buffers(firing.writes.size());
  for (size_t i = 0; i < firing.writes.size(); ++i) writes.push_back(into_of(firing.writes[i], buffers[i]));
  run_into(task, firing, number, step, writes);
  for (size_t i = 0; i < writes.size(); ++i) {
    if (!firing.writes[i].buffered) continue;
    if (firing.writes[i].adds) combine_box(tdl::Reducer::kSum, writes[i], firing.writes[i].view);
    else copy_box(writes[i], firing.writes[i].view);
  }
}

void Executor::run_into(const Task& task, const Firing& firing, int number, int64_t step,
                        const std::vector<View>& writes) const {
  if (std::holds_alternative<KernelWork>(task.work)) {
    run_kernel(task, firing, step, writes);
  } else if (auto* collective = std::get_if<CollectiveWork>(&task.work)) {
    for (size_t i = 0; i < writes.size(); ++i) run_collective(*collective, number, i, writes[i]);
  } else if (auto* load = std::get_if<LoadWork>(&task.work)) {
    hooks_.load(load->input, hooks_.first_step + step, writes[0]);
  } else if (std::holds_alternative<CopyWork>(task.work)) {
    copy(task, firing, writes[0]);
  } else if (auto* combine = std::get_if<CombineWork>(&task.work)) {
    for (const View& written : writes)
      combine_wide(written, [&](const View& to) {
        fill_view(to, tdl::identity_of(combine->reducer));
        for (const std::vector<View>& read : firing.reads)
          for (const View& from : read) combine_box(combine->reducer, from, to);
      });
  } else if (auto* output = std::get_if<OutputWork>(&task.work)) {
    for (const View& value : firing.reads[0]) hooks_.take(output->output, hooks_.first_step + step, value);
  }
}

void Executor::run_kernel(const Task& task, const Firing& firing, int64_t step, const std::vector<View>& writes) const {
  ensure(hooks_.kernels != nullptr, "task '{}' needs kernels, and none are loaded", task.name);
  KernelCall call = firing.call;
  call.seed = hooks_.seed;
  call.step = static_cast<uint64_t>(hooks_.first_step + step);
  call.outside = &outside_;
  for (size_t i = 0; i < writes.size(); ++i) call.writes[i].data = writes[i].data;
  hooks_.kernels->run(call);
}

void Executor::run_collective(const CollectiveWork& work, int firing, size_t tensor, const View& to) const {
  const std::vector<TaskId>& participants = firings_.participants[work.collective.index()];
  const auto held_by = [&](TaskId p) -> const View& { return firings_.at(p, firing).reads[tensor][0]; };
  if (work.partial)
    return combine_wide(to, [&](const View& into) {
      fill_view(into, tdl::identity_of(work.reducer));
      for (TaskId p : participants) combine_box(work.reducer, held_by(p), into);
    });
  std::vector<Box> missing = {to.box};
  for (TaskId p : participants) missing = copy_missing(missing, held_by(p), to);
}

}  // namespace partita

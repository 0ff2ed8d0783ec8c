// Gives every firing of a part its place in the whole batch.
#include "partita/physical/spread_micro_batches.h"

#include <utility>

#include "partita/base/error.h"

namespace partita {

Box in_batch(Box one, const TimePlace& place, int64_t first) {
  if (place.axis < 0 || is_empty(one)) return one;
  Interval& along = one[static_cast<size_t>(place.axis)];
  along.lo += first * place.inner;
  along.hi += first * place.inner;
  return one;
}

std::vector<int64_t> first_runs(const Graph& graph) {
  std::vector<int64_t> first;
  int64_t next = 0;
  for (const int64_t samples : graph.micro_batch_samples) first.push_back(std::exchange(next, next + samples));
  return first;
}

namespace {

struct Parts {
  std::vector<int64_t> first;  // by part: its first sample
  int64_t batch = 0;           // in runs of samples (graph/micro_batches.h)
};

Parts parts_in(const Graph& graph) {
  // The batch has more parts than these if only the first are lowered.
  return {first_runs(graph), runs_of_batch(graph)};
}

// What a constant's register holds that is read part by part.
Box whole_box(const Register& reg, const TimePlace& place, int64_t batch) {
  Box whole = reg.boxes[0];
  whole[static_cast<size_t>(place.axis)] = {0, batch * place.inner};
  return whole;
}

// Constants that are read part by part are there whole; every other register holds one part a use.
void spread(Register& reg, const TimePlace& axis, const Parts& parts) {
  if (axis.axis < 0) return;
  const size_t a = static_cast<size_t>(axis.axis);
  reg.axes[a] = parts.batch * axis.inner;
  if (reg.uses == 1) {
    reg.boxes[0] = whole_box(reg, axis, parts.batch);
    reg.bytes = volume(reg.boxes[0]) * bytes_of(reg.dtype);
    return;
  }
  const Box one = reg.boxes[0];
  reg.boxes.clear();
  for (const int64_t first : parts.first) reg.boxes.push_back(in_batch(one, axis, first));
}

// `whole`: the register's box of one part, of which an access without boxes takes all.
void spread(Access& access, const Task& task, const Register& reg, const Box& whole, const TimePlace& axis,
            const Parts& parts) {
  if (axis.axis < 0 || (access.boxes.empty() && reg.uses > 1)) return;
  ensure(task.rate > 1, "task '{}' reads '{}' once a step, which comes in parts", task.name, reg.name);
  const Box one = access.boxes.empty() ? whole : access.boxes[0];
  access.boxes.clear();
  for (const int64_t first : parts.first) access.boxes.push_back(in_batch(one, axis, first));
}

void spread(KernelWork& work, const Op& op, const Op& whole, const Parts& parts) {
  if (op.time_index < 0) return;
  const std::vector<Interval> one = work.ranges[0];
  work.bound = whole.bound;
  work.ranges.clear();
  for (const int64_t first : parts.first) work.ranges.push_back(in_batch(one, {op.time_index, op.time_inner}, first));
}

}  // namespace

void size_constants(LocallyLowered& lowered, const Graph& graph) {
  if (!graph.whole || graph.micro_batch_samples.front() != graph.micro_batch_samples.back()) return;
  const int64_t batch = runs_of_batch(graph);
  for (size_t r = 0; r < lowered.graph.registers.size(); ++r) {
    Register& reg = lowered.graph.registers[r];
    const TimePlace& place = lowered.time_axes[r];
    if (place.axis >= 0 && reg.uses == 1) reg.bytes = volume(whole_box(reg, place, batch)) * bytes_of(reg.dtype);
  }
}

void spread_over_micro_batches(LocallyLowered& lowered, const Graph& graph) {
  if (!graph.whole || graph.micro_batch_samples.front() != graph.micro_batch_samples.back()) return;
  PhysicalGraph& physical = lowered.graph;
  const std::vector<TimePlace>& axes = lowered.time_axes;
  const Parts parts = parts_in(graph);
  std::vector<Box> one;
  for (size_t r = 0; r < physical.registers.size(); ++r) {
    Register& reg = physical.registers[r];
    one.push_back(reg.boxes.empty() ? Box() : reg.boxes[0]);
    spread(reg, axes[r], parts);
  }
  for (Task& task : physical.tasks) {
    for (auto* accesses : {&task.reads, &task.writes})
      for (Access& access : *accesses)
        spread(access, task, physical.reg(access.reg), one[access.reg.index()], axes[access.reg.index()], parts);
    if (auto* work = std::get_if<KernelWork>(&task.work))
      spread(*work, graph.op(task.op), graph.whole->op(task.op), parts);
  }
}

}  // namespace partita

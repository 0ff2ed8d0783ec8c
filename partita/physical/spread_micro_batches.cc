// Gives every firing of a micro-batch its place in the whole batch.
#include "partita/physical/spread_micro_batches.h"

#include <utility>

#include "partita/base/error.h"

namespace partita {

Box in_batch(Box one, const MicroBatchAxis& place, int64_t first) {
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

struct MicroBatches {
  std::vector<int64_t> first;  // by micro-batch: its first sample
  int64_t batch = 0;           // in runs of samples (graph/micro_batches.h)
};

MicroBatches micro_batches_of(const Graph& graph) {
  // The batch has more micro-batches than these if only the first are lowered.
  return {first_runs(graph), runs_of_batch(graph)};
}

// The box of a constant's register that is read micro-batch by micro-batch.
Box whole_box(const Register& reg, const MicroBatchAxis& place, int64_t batch) {
  Box whole = reg.boxes[0];
  whole[static_cast<size_t>(place.axis)] = {0, batch * place.inner};
  return whole;
}

// Constants that are read micro-batch by micro-batch are there whole. Every other register holds one micro-batch a use.
void spread(Register& reg, const MicroBatchAxis& axis, const MicroBatches& micro_batches) {
  if (axis.axis < 0) return;
  const size_t a = static_cast<size_t>(axis.axis);
  reg.axes[a] = micro_batches.batch * axis.inner;
  if (reg.uses == 1) {
    reg.boxes[0] = whole_box(reg, axis, micro_batches.batch);
    reg.bytes = volume(reg.boxes[0]) * bytes_of(reg.dtype);
    return;
  }
  const Box one = reg.boxes[0];
  reg.boxes.clear();
  for (const int64_t first : micro_batches.first) reg.boxes.push_back(in_batch(one, axis, first));
}

// `whole`: the register's box of one micro-batch. An access without boxes takes all of it.
void spread(Access& access, const Task& task, const Register& reg, const Box& whole, const MicroBatchAxis& axis,
            const MicroBatches& micro_batches) {
  if (axis.axis < 0 || (access.boxes.empty() && reg.uses > 1)) return;
  ensure(task.rate > 1, "task '{}' reads '{}' once a step, which comes in parts", task.name, reg.name);
  const Box one = access.boxes.empty() ? whole : access.boxes[0];
  access.boxes.clear();
  for (const int64_t first : micro_batches.first) access.boxes.push_back(in_batch(one, axis, first));
}

void spread(KernelWork& work, const Op& op, const Op& whole, const MicroBatches& micro_batches) {
  if (op.micro_batch_index < 0) return;
  const std::vector<Interval> one = work.ranges[0];
  work.bound = whole.bound;
  work.ranges.clear();
  for (const int64_t first : micro_batches.first)
    work.ranges.push_back(in_batch(one, {op.micro_batch_index, op.micro_batch_inner}, first));
}

}  // namespace

void size_constants(LocallyLowered& lowered, const Graph& graph) {
  if (!graph.whole || graph.micro_batch_samples.front() != graph.micro_batch_samples.back()) return;
  const int64_t batch = runs_of_batch(graph);
  for (size_t r = 0; r < lowered.graph.registers.size(); ++r) {
    Register& reg = lowered.graph.registers[r];
    const MicroBatchAxis& place = lowered.micro_batch_axes[r];
    if (place.axis >= 0 && reg.uses == 1) reg.bytes = volume(whole_box(reg, place, batch)) * bytes_of(reg.dtype);
  }
}

void spread_over_micro_batches(LocallyLowered& lowered, const Graph& graph) {
  if (!graph.whole || graph.micro_batch_samples.front() != graph.micro_batch_samples.back()) return;
  PhysicalGraph& physical = lowered.graph;
  const std::vector<MicroBatchAxis>& axes = lowered.micro_batch_axes;
  const MicroBatches micro_batches = micro_batches_of(graph);
  std::vector<Box> one;
  for (size_t r = 0; r < physical.registers.size(); ++r) {
    Register& reg = physical.registers[r];
    one.push_back(reg.boxes.empty() ? Box() : reg.boxes[0]);
    spread(reg, axes[r], micro_batches);
  }
  for (Task& task : physical.tasks) {
    for (auto* accesses : {&task.reads, &task.writes})
      for (Access& access : *accesses)
        spread(access, task, physical.reg(access.reg), one[access.reg.index()], axes[access.reg.index()],
               micro_batches);
    if (auto* work = std::get_if<KernelWork>(&task.work))
      spread(*work, graph.op(task.op), graph.whole->op(task.op), micro_batches);
  }
}

}  // namespace partita

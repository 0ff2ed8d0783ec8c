// Offers common parts of the kernels of windows: the tensors of a plan, and walks over their windows' elements.
#pragma once
#include <vector>

#include "partita/kernel_plan/registered.h"
#include "partita/kernels/tensors.h"

namespace partita {

// A tensor of the plan over the axes that the kernels know.
inline ShardMemory held_of(const WindowTensor& t, const std::vector<ShardMemory>& held) {
  return {t.shard, held[t.tensor].data};
}

// The shard of a tensor in a box, in the computation dtype: its own memory, or a copy.
ShardMemory in_compute_dtype(const ShardMemory& held, const Box& box, DType real, at::Tensor& memory);

// Calls f(r, t, the windows that have this element), for the windows in these rows of the result.
template <typename F>
void each_element(const WindowPlan& plan, Interval rows, F f) {
  for (int64_t r = plan.rows.window.lo; r < plan.rows.window.hi; ++r) {
    const Interval outs_r = intersect(plan.rows.outs(r), rows);
    for (int64_t t = plan.columns.window.lo; t < plan.columns.window.hi; ++t) f(r, t, outs_r, plan.columns.outs(t));
  }
}

// Convolutions whose groups have one input channel (depthwise.cc).
void run_depthwise(const WindowPlan& plan, const std::vector<ShardMemory>& held);
void run_depthwise_data_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held);
void run_depthwise_weight_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held);

}  // namespace partita

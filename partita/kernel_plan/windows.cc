// Plans the kernels of convolutions and pooling: the shards that they read and write, and the blocks that they copy.
#include <algorithm>

#include "partita/kernel_plan/first_fit.h"
#include "partita/kernel_plan/registered.h"
#include "partita/tdl/affine.h"

namespace partita {

Interval WindowAxis::outs(int64_t k) const {
  auto ceil_div = [](int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); };
  const int64_t shift = before - k * dilation;
  return intersect(out, {ceil_div(at.lo + shift, stride), ceil_div(at.hi + shift, stride)});
}

namespace {

constexpr int64_t kBudgetBytes = int64_t{1} << 20;  // of a block of columns: fits a core's cache
// Most outputs of a group of one input channel. Measured (32 groups, 3 x 3 in 56 x 56, ms, without and with products):
// 2.3 and 3.6 for one output, 4.7 and 4.0 for two, whose weight's gradient takes 3.3 and 8.2, 9 and 4 for four.
constexpr int64_t kFewOutputs = 2;

int64_t attribute(const KernelRequest& r, const char* name) { return static_cast<int64_t>(r.attributes.at(name)); }

// Tells whether the kernel knows the formula. Formulas of the registry give all their windows' attributes; another
// formula of the same name is unknown to the kernel. So are empty ranges.
bool knows(const KernelRequest& r) {
  for (const char* name : {"sh", "sw", "dh", "dw", "pt", "pl"})
    if (!r.attributes.contains(name)) return false;
  return std::none_of(r.ranges.begin(), r.ranges.end(), [](Interval i) { return i.empty(); });
}

bool is_grouped(const KernelRequest& r) { return r.attributes.contains("groups") && attribute(r, "groups") > 1; }

// ---------------------------------------------------------------- ranges of indices

Interval range(const KernelRequest& r, const char* name) {
  const int i = r.bound.find_index(name);
  return i < 0 ? Interval{0, 1} : r.ranges[i];
}

WindowAxis row_axis(const KernelRequest& r, Interval out, Interval at, Interval window) {
  return {attribute(r, "sh"), attribute(r, "dh"), attribute(r, "pt"), out, at, window};
}
WindowAxis column_axis(const KernelRequest& r, Interval out, Interval at, Interval window) {
  return {attribute(r, "sw"), attribute(r, "dw"), attribute(r, "pl"), out, at, window};
}

// ---------------------------------------------------------------- tensors

int64_t element_bytes(const KernelRequest& r) { return bytes_of(r.held.real); }

// Tells whether a tensor has real numbers, stored as the kernel computes or in two bytes.
bool is_real(const KernelRequest& r, const WindowTensor& t) {
  return is_float(t.shard.dtype) && compute_dtype(t.shard.dtype) == r.held.real;
}

// Scratch for `elements` of a tensor if it must be copied for computing.
int64_t copy_bytes(const KernelRequest& r, const WindowTensor& t, int64_t elements) {
  return t.shard.dtype == r.held.real ? 0 : scratch_size(elements * element_bytes(r));
}

// The axes of a tensor as stored, `channels` of them split into groups.
Shape window_axes(const KernelRequest& r, int tensor, bool grouped, size_t channels) {
  Shape axes = r.bound.tensors[tensor].shape;
  if (!grouped) return axes;
  const int64_t groups = attribute(r, "groups");
  axes[channels] /= groups;
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(channels), groups);
  return axes;
}

// Finds the held shard of a tensor of this rank. False if that is nothing, or no box over the kernel's axes.
bool find_held(const KernelRequest& r, int tensor, size_t rank, bool grouped, size_t channels, WindowTensor& to) {
  const std::optional<TensorShard>& held = r.held.shards[tensor];
  if (r.bound.tensors[tensor].shape.size() != rank || !held || is_empty(held->box)) return false;
  auto shard = try_over_axes(*held, r.bound.tensors[tensor].factored, window_axes(r, tensor, grouped, channels));
  if (!shard) return false;
  to = {tensor, std::move(*shard)};
  return true;
}
bool find_real(const KernelRequest& r, int tensor, size_t rank, bool grouped, size_t channels, WindowTensor& to) {
  return find_held(r, tensor, rank, grouped, channels, to) && is_real(r, to);
}
bool find_operand(const KernelRequest& r, int operand, const WindowPlan& plan, size_t channels, WindowTensor& to) {
  return operand < r.bound.operand_count && find_real(r, operand, 4, plan.grouped, channels, to);
}

// The box of the last stage's result, or of an operand that the first stage reads (its last access). It is over the
// kernels' axes; nothing if that is no box. A derived gradient has its own names for its operands and indices: they are
// found by their places here.
std::optional<Box> along_result(const KernelRequest& r, const WindowPlan& plan, size_t channels) {
  const int t = r.bound.stages[r.last_stage - 1].tensor;
  return reshape_box(stage_box(r.bound, r.last_stage - 1, r.ranges), r.bound.tensors[t].factored,
                     window_axes(r, t, plan.grouped, channels));
}
std::optional<Box> along(const KernelRequest& r, const WindowPlan& plan, const WindowTensor& operand, size_t channels) {
  Box box;
  tdl::for_each_read(r.bound.stages[0].body, [&](const tdl::Expr& read) {
    if (read.tensor != operand.tensor) return;
    box.clear();
    for (const tdl::Affine& form : read.subscripts) box.push_back(tdl::range_of(form, r.ranges));
  });
  return reshape_box(box, r.bound.tensors[operand.tensor].factored,
                     window_axes(r, operand.tensor, plan.grouped, channels));
}

// Tells whether axes [from, to) of a tensor lie as one over the box, with adjacent elements along the innermost one.
// Strides are without the axis of groups.
bool is_dense(const WindowTensor& t, const WindowPlan& plan, const Box& box, size_t from, size_t to) {
  int64_t stride = 1;
  for (size_t a = to; a-- > from;) {
    if (box[a].size() != 1 && t.shard.strides[a + plan.grouped] != stride) return false;
    stride *= box[a].size();
  }
  return true;
}

// Makes a plan of stages [0, last_stage) that only says whether channels are in groups; empty if the kernels do not
// know the call.
template <typename Plan>
std::optional<Plan> begin_plan(const KernelRequest& r, int last_stage) {
  if (!knows(r) || r.first_stage != 0 || r.last_stage != last_stage) return std::nullopt;
  Plan plan;
  plan.grouped = is_grouped(r);
  plan.real = r.held.real;
  return plan;
}

// Takes the ranges of a weight [(q), o, c, r, t], except those of its window.
void take_channels(WindowPlan& plan, const Box& weight) {
  plan.q = plan.grouped ? weight[0] : Interval{0, 1};
  plan.o = weight[plan.grouped];
  plan.c = weight[plan.grouped + 1];
  plan.depthwise = plan.grouped && plan.c.size() == 1 && plan.o.size() <= kFewOutputs;
}

int64_t pixels(Interval rows, Interval columns) { return rows.size() * columns.size(); }

// Takes as many groups at once as the cache holds, and copies of the planes of a sample in them.
void plan_depthwise(const KernelRequest& r, WindowPlan& plan) {
  const int64_t outs = plan.o.size() * pixels(plan.rows.out, plan.columns.out),
                ins = pixels(plan.rows.at, plan.columns.at),
                weights = plan.q.size() * plan.o.size() * pixels(plan.rows.window, plan.columns.window);
  plan.block = std::clamp<int64_t>(kBudgetBytes / ((outs + ins) * element_bytes(r)), 1, plan.q.size());
  auto add = [&](const WindowTensor& t, int64_t elements) {
    if (t.tensor >= 0) plan.workspace_bytes += copy_bytes(r, t, elements);
  };
  const bool of_data = plan.x.tensor < 0, of_weight = plan.w.tensor < 0;
  add(plan.w, weights);
  add(plan.x, plan.block * ins);
  add(plan.g, plan.block * outs);
  add(plan.b, plan.q.size() * plan.o.size());
  add(plan.result, of_weight ? weights : plan.block * (of_data ? ins : outs));
  if (of_weight) plan.workspace_bytes += scratch_size(plan.columns.out.size() * element_bytes(r));  // a row of sums
}

}  // namespace

// ---------------------------------------------------------------- convolutions

// out[n] = w columns(x[n]), a block of result rows at a time; the bias is added last.
std::optional<Conv2d> Conv2d::plan(const KernelRequest& r) {
  const bool biased = r.last_stage == 2;
  auto begun = begin_plan<Conv2d>(r, biased ? 2 : 1);
  if (!begun) return std::nullopt;
  Conv2d& plan = *begun;
  const size_t row = plan.grouped ? 3 : 2, column = row + 1;
  const int result = r.bound.stages[r.last_stage - 1].tensor;
  if (!find_operand(r, 0, plan, 1, plan.x) || !find_operand(r, 1, plan, 0, plan.w) ||
      !find_real(r, result, 4, plan.grouped, 1, plan.result) ||
      (biased && !find_real(r, 2, 1, plan.grouped, 0, plan.b)))
    return std::nullopt;
  if (biased && r.held.written[r.bound.stages[0].tensor]) return std::nullopt;
  const auto of_result = along_result(r, plan, 1), of_w = along(r, plan, plan.w, 0);
  if (!of_result || !of_w) return std::nullopt;  // [n, (q), o, y, z], [(q), o, c, r, t]
  plan.n = (*of_result)[0];
  take_channels(plan, *of_w);
  const Box& x = plan.x.shard.box;
  plan.rows = row_axis(r, (*of_result)[row], x[row], (*of_w)[row]);
  plan.columns = column_axis(r, (*of_result)[column], x[column], (*of_w)[column]);
  if (plan.depthwise) {
    plan_depthwise(r, plan);
    return plan;
  }
  const Box w_box{plan.o, plan.c, plan.rows.window, plan.columns.window},
      out_box{plan.n, plan.o, plan.rows.out, plan.columns.out};
  if (!is_dense(plan.w, plan, w_box, 1, 4) || !is_dense(plan.result, plan, out_box, 2, 4)) return std::nullopt;
  const int64_t row_bytes =
      plan.c.size() * plan.rows.window.size() * plan.columns.window.size() * plan.columns.out.size() * element_bytes(r);
  plan.block = std::clamp<int64_t>(kBudgetBytes / row_bytes, 1, plan.rows.out.size());
  plan.workspace_bytes = scratch_size(row_bytes * plan.block) + copy_bytes(r, plan.w, volume(w_box) * plan.q.size()) +
                         copy_bytes(r, plan.result, plan.o.size() * plan.block * plan.columns.out.size()) +
                         (biased ? copy_bytes(r, plan.b, plan.o.size()) : 0);
  return plan;
}

// columns = w^T g[n], a block of channels at a time, then added at their places in the result.
std::optional<Conv2dDataGrad> Conv2dDataGrad::plan(const KernelRequest& r) {
  auto begun = begin_plan<Conv2dDataGrad>(r, 1);
  if (!begun) return std::nullopt;
  Conv2dDataGrad& plan = *begun;
  const size_t row = plan.grouped ? 3 : 2, column = row + 1;
  if (!find_operand(r, 0, plan, 1, plan.g) || !find_operand(r, 1, plan, 0, plan.w) ||
      !find_real(r, r.bound.stages[0].tensor, 4, plan.grouped, 1, plan.result))
    return std::nullopt;
  const auto of_result = along_result(r, plan, 1), of_w = along(r, plan, plan.w, 0);
  if (!of_result || !of_w) return std::nullopt;  // [n, (q), c, u, v], [(q), o, c, r, t]
  plan.n = (*of_result)[0];
  take_channels(plan, *of_w);
  const Box& g = plan.g.shard.box;
  plan.rows = row_axis(r, g[row], (*of_result)[row], (*of_w)[row]);
  plan.columns = column_axis(r, g[column], (*of_result)[column], (*of_w)[column]);
  if (plan.depthwise) {
    plan_depthwise(r, plan);
    return plan;
  }
  const Box g_box{plan.n, plan.o, plan.rows.out, plan.columns.out},
      w_box{plan.o, plan.c, plan.rows.window, plan.columns.window};
  if (!is_dense(plan.g, plan, g_box, 2, 4) || !is_dense(plan.w, plan, w_box, 1, 4)) return std::nullopt;
  const int64_t channel = plan.rows.window.size() * plan.columns.window.size() * plan.rows.out.size() *
                          plan.columns.out.size() * element_bytes(r);
  plan.block = std::clamp<int64_t>(kBudgetBytes / channel, 1, plan.c.size());
  plan.workspace_bytes = scratch_size(channel * plan.block) + copy_bytes(r, plan.w, volume(w_box) * plan.q.size()) +
                         copy_bytes(r, plan.g, plan.o.size() * plan.rows.out.size() * plan.columns.out.size()) +
                         copy_bytes(r, plan.result, plan.block * plan.rows.at.size() * plan.columns.at.size());
  return plan;
}

// result += g[n] columns(x[n])^T, a block of rows of g at a time.
std::optional<Conv2dWeightGrad> Conv2dWeightGrad::plan(const KernelRequest& r) {
  auto begun = begin_plan<Conv2dWeightGrad>(r, 1);
  if (!begun) return std::nullopt;
  Conv2dWeightGrad& plan = *begun;
  const size_t row = plan.grouped ? 3 : 2, column = row + 1;
  if (!find_operand(r, 0, plan, 1, plan.g) || !find_operand(r, 1, plan, 1, plan.x) ||
      !find_real(r, r.bound.stages[0].tensor, 4, plan.grouped, 0, plan.result))
    return std::nullopt;
  const auto of_result = along_result(r, plan, 0), of_g = along(r, plan, plan.g, 1);
  if (!of_result || !of_g) return std::nullopt;  // [(q), o, c, r, t], [n, (q), o, y, z]
  plan.n = (*of_g)[0];
  take_channels(plan, *of_result);
  const Box& x = plan.x.shard.box;
  plan.rows = row_axis(r, (*of_g)[row], x[row], (*of_result)[row]);
  plan.columns = column_axis(r, (*of_g)[column], x[column], (*of_result)[column]);
  if (plan.depthwise) {
    plan_depthwise(r, plan);
    return plan;
  }
  const Box g_box{plan.n, plan.o, plan.rows.out, plan.columns.out},
      out_box{plan.o, plan.c, plan.rows.window, plan.columns.window};
  if (!is_dense(plan.g, plan, g_box, 2, 4) || !is_dense(plan.result, plan, out_box, 1, 4)) return std::nullopt;
  const int64_t depth = plan.c.size() * plan.rows.window.size() * plan.columns.window.size();
  const int64_t row_bytes = depth * plan.columns.out.size() * element_bytes(r);
  plan.block = std::clamp<int64_t>(kBudgetBytes / row_bytes, 1, plan.rows.out.size());
  plan.workspace_bytes = scratch_size(row_bytes * plan.block) +
                         copy_bytes(r, plan.g, plan.o.size() * plan.block * plan.columns.out.size()) +
                         copy_bytes(r, plan.result, plan.o.size() * depth);
  return plan;
}

// ---------------------------------------------------------------- pooling

// The window's elements one after another, each compared with the largest so far: one mask a sample.
std::optional<MaxPool> MaxPool::plan(const KernelRequest& r) {
  auto begun = begin_plan<MaxPool>(r, 2);
  if (!begun) return std::nullopt;
  MaxPool& plan = *begun;
  plan.grouped = false;
  const int result = r.bound.stages[0].tensor, index = r.bound.stages[1].tensor;
  if (!find_operand(r, 0, plan, 1, plan.x) || !find_real(r, result, 4, false, 1, plan.result) ||
      plan.result.shard.dtype != plan.x.shard.dtype || !r.held.written[result] || !r.held.written[index] ||
      !find_held(r, index, 4, false, 1, plan.index) || plan.index.shard.dtype != DType::kInt64)
    return std::nullopt;
  plan.n = range(r, "n"), plan.c = range(r, "c");
  plan.rows = row_axis(r, range(r, "y"), plan.x.shard.box[2], range(r, "r"));
  plan.columns = column_axis(r, range(r, "z"), plan.x.shard.box[3], range(r, "t"));
  plan.window_columns = attribute(r, "kw");
  if (plan.rows.window != Interval{0, attribute(r, "kh")} || plan.columns.window != Interval{0, plan.window_columns})
    return std::nullopt;
  plan.workspace_bytes = scratch_size(plan.c.size() * plan.rows.out.size() * plan.columns.out.size());
  return plan;
}

// For each element of the window, the gradients of the windows that it won are added at its place: a mask and the
// masked gradients of a sample.
std::optional<MaxPoolGrad> MaxPoolGrad::plan(const KernelRequest& r) {
  auto begun = begin_plan<MaxPoolGrad>(r, 1);
  if (!begun) return std::nullopt;
  MaxPoolGrad& plan = *begun;
  plan.grouped = false;
  if (!find_held(r, 0, 4, false, 1, plan.index) || plan.index.shard.dtype != DType::kInt64 ||
      !find_operand(r, 1, plan, 1, plan.g) || !find_real(r, r.bound.stages[0].tensor, 4, false, 1, plan.result))
    return std::nullopt;
  const Box box = intersect(plan.g.shard.box, plan.index.shard.box);
  if (is_empty(box)) return std::nullopt;
  plan.n = range(r, "n"), plan.c = range(r, "c");
  plan.rows = row_axis(r, box[2], range(r, "u"), range(r, "r"));
  plan.columns = column_axis(r, box[3], range(r, "v"), range(r, "t"));
  plan.window_columns = attribute(r, "kw");
  const int64_t elements = plan.c.size() * plan.rows.out.size() * plan.columns.out.size();
  plan.workspace_bytes = scratch_size(elements) + scratch_size(elements * element_bytes(r)) +
                         2 * scratch_size(element_bytes(r)) +  // and two numbers
                         copy_bytes(r, plan.result, plan.c.size() * plan.rows.at.size() * plan.columns.at.size());
  return plan;
}

}  // namespace partita

// Plans the kernels of convolutions and pooling: the parts that they read and write, and the blocks that they copy.
#include <algorithm>

#include "partita/kernel_plan/first_fit.h"
#include "partita/kernel_plan/registered.h"

namespace partita {

Interval WindowAxis::outs(int64_t k) const {
  auto ceil_div = [](int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); };
  const int64_t shift = before - k * dilation;
  return intersect(out, {ceil_div(at.lo + shift, stride), ceil_div(at.hi + shift, stride)});
}

namespace {

constexpr int64_t kBudgetBytes = int64_t{1} << 20;  // of a block of columns: a core's cache holds it

int64_t attribute(const KernelRequest& r, const char* name) { return static_cast<int64_t>(r.attributes.at(name)); }

// Formulas of the registry give all their windows' attributes; another one of the same name is not what the kernel
// knows. Nor does it know empty ranges.
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

// One range a subscript; nothing where one is no plain index.
std::vector<Interval> ranges_of(const KernelRequest& r, const std::vector<tdl::Affine>& forms) {
  std::vector<Interval> result;
  for (const tdl::Affine& form : forms) {
    const int i = form.plain_index();
    if (i < 0 && (!form.terms.empty() || form.constant != 0)) return {};
    result.push_back(i < 0 ? Interval{0, 1} : r.ranges[i]);
  }
  return result;
}

// A gradient that was derived has names of its own for its operands and for some of its indices: they are found by
// their places, along the first stage's result and along an operand.
std::vector<Interval> along_result(const KernelRequest& r) { return ranges_of(r, r.bound.stages[0].lhs); }
std::vector<Interval> along(const KernelRequest& r, int operand) {
  std::vector<Interval> result;
  tdl::for_each_read(r.bound.stages[0].body, [&](const tdl::Expr& read) {
    if (read.tensor == operand) result = ranges_of(r, read.subscripts);
  });
  return result;
}

WindowAxis row_axis(const KernelRequest& r, Interval out, Interval at, Interval window) {
  return {attribute(r, "sh"), attribute(r, "dh"), attribute(r, "pt"), out, at, window};
}
WindowAxis column_axis(const KernelRequest& r, Interval out, Interval at, Interval window) {
  return {attribute(r, "sw"), attribute(r, "dw"), attribute(r, "pl"), out, at, window};
}

// ---------------------------------------------------------------- tensors

const Part& part(const KernelRequest& r, int t) { return *r.held.parts[t]; }
int64_t element_bytes(const KernelRequest& r) { return bytes_of(r.held.real); }

// Real numbers, stored as the kernel computes or in two bytes.
bool is_real(const KernelRequest& r, DType dtype) { return is_float(dtype) && computed_in(dtype) == r.held.real; }
bool is_real(const KernelRequest& r, int t, size_t rank) {
  return r.held.parts[t] && is_real(r, part(r, t).dtype) && part(r, t).box.size() == rank;
}
// `t` where it is an operand of real numbers of this rank, else -1.
int real_operand(const KernelRequest& r, int t, size_t rank) {
  return t < r.bound.operand_count && is_real(r, t, rank) ? t : -1;
}

// Scratch for `elements` of a tensor where it must be copied to be computed with.
int64_t copy_bytes(const KernelRequest& r, int t, int64_t elements) {
  return part(r, t).dtype == r.held.real ? 0 : scratch_size(elements * element_bytes(r));
}

// Finds x, over its axes as stored, but for its channels in groups. False where that is no box, or nothing is held.
bool find_input(const KernelRequest& r, int operand, WindowPlan& plan) {
  plan.x = operand;
  const std::optional<Part>& held = r.held.parts[operand];
  if (!held || !is_real(r, held->dtype) || is_empty(held->box)) return false;
  Shape axes = r.bound.tensors[operand].shape;
  if (plan.grouped) {
    const int64_t groups = attribute(r, "groups");
    axes[1] /= groups;
    axes.insert(axes.begin() + 1, groups);
  }
  const auto input = try_over_axes(*held, r.bound.tensors[operand].factored, axes);
  if (input) plan.input = *input;
  return input.has_value();
}

// Whether axes [from, to) of a tensor lie as one over the box, and the elements of the innermost one after another.
// Strides are without the axis of groups.
bool is_dense(const KernelRequest& r, int t, const WindowPlan& plan, const Box& box, size_t from, size_t to) {
  const Shape& strides = part(r, t).strides;
  int64_t stride = 1;
  for (size_t a = to; a-- > from;) {
    if (box[a].size() != 1 && strides[a + plan.grouped] != stride) return false;
    stride *= box[a].size();
  }
  return true;
}

// A plan of stages [0, last_stage) that says no more than whether channels are in groups; empty where the call is none
// that the kernels know.
template <typename Plan>
std::optional<Plan> begin_plan(const KernelRequest& r, int last_stage) {
  if (!knows(r) || r.first_stage != 0 || r.last_stage != last_stage) return std::nullopt;
  Plan plan;
  plan.grouped = is_grouped(r);
  plan.real = r.held.real;
  plan.result = r.bound.stages[last_stage - 1].tensor;
  return plan;
}

size_t rank_of(const WindowPlan& plan) { return plan.grouped ? 5 : 4; }

}  // namespace

// ---------------------------------------------------------------- convolutions

// out[n] = w columns(x[n]), a block of result rows at a time; the bias is added last.
std::optional<Conv2d> Conv2d::plan(const KernelRequest& r) {
  const bool biased = r.last_stage == 2;
  auto begun = begin_plan<Conv2d>(r, biased ? 2 : 1);
  if (!begun) return std::nullopt;
  Conv2d& plan = *begun;
  const size_t rank = rank_of(plan);
  plan.w = real_operand(r, 1, rank);
  if (biased) plan.b = real_operand(r, 2, rank - 3);
  if (!find_input(r, 0, plan) || plan.w < 0 || !is_real(r, plan.result, rank) || (biased && plan.b < 0))
    return std::nullopt;
  if (biased && r.held.written[r.bound.stages[0].tensor]) return std::nullopt;
  const std::vector<Interval> of_result = along_result(r), of_w = along(r, plan.w);
  if (of_result.size() != rank || of_w.size() != rank) return std::nullopt;  // [n, (q), o, y, z], [(q), o, c, r, t]
  plan.n = of_result[0];
  plan.q = plan.grouped ? of_w[0] : Interval{0, 1};
  plan.o = of_w[rank - 4];
  plan.c = of_w[rank - 3];
  const Box& x = plan.input.box;
  plan.rows = row_axis(r, of_result[rank - 2], x[rank - 2], of_w[rank - 2]);
  plan.columns = column_axis(r, of_result[rank - 1], x[rank - 1], of_w[rank - 1]);
  const Box w_box{plan.o, plan.c, plan.rows.window, plan.columns.window},
      out_box{plan.n, plan.o, plan.rows.out, plan.columns.out};
  if (!is_dense(r, plan.w, plan, w_box, 1, 4) || !is_dense(r, plan.result, plan, out_box, 2, 4)) return std::nullopt;
  const int64_t row =
      plan.c.size() * plan.rows.window.size() * plan.columns.window.size() * plan.columns.out.size() * element_bytes(r);
  plan.block = std::clamp<int64_t>(kBudgetBytes / row, 1, plan.rows.out.size());
  plan.workspace_bytes = scratch_size(row * plan.block) + copy_bytes(r, plan.w, volume(w_box) * plan.q.size()) +
                         copy_bytes(r, plan.result, plan.o.size() * plan.block * plan.columns.out.size()) +
                         (biased ? copy_bytes(r, plan.b, plan.o.size()) : 0);
  return plan;
}

// columns = w^T g[n], a block of channels at a time, then added to where they come from.
std::optional<Conv2dDataGrad> Conv2dDataGrad::plan(const KernelRequest& r) {
  auto begun = begin_plan<Conv2dDataGrad>(r, 1);
  if (!begun) return std::nullopt;
  Conv2dDataGrad& plan = *begun;
  const size_t rank = rank_of(plan);
  plan.g = real_operand(r, 0, rank);
  plan.w = real_operand(r, 1, rank);
  if (plan.g < 0 || plan.w < 0 || !is_real(r, plan.result, rank)) return std::nullopt;
  const std::vector<Interval> of_result = along_result(r), of_w = along(r, plan.w);
  if (of_result.size() != rank || of_w.size() != rank) return std::nullopt;  // [n, (q), c, u, v], [(q), o, c, r, t]
  plan.n = of_result[0];
  plan.q = plan.grouped ? of_w[0] : Interval{0, 1};
  plan.o = of_w[rank - 4];
  plan.c = of_w[rank - 3];
  const Box& g = part(r, plan.g).box;
  if (is_empty(g)) return std::nullopt;
  plan.rows = row_axis(r, g[rank - 2], of_result[rank - 2], of_w[rank - 2]);
  plan.columns = column_axis(r, g[rank - 1], of_result[rank - 1], of_w[rank - 1]);
  const Box g_box{plan.n, plan.o, plan.rows.out, plan.columns.out},
      w_box{plan.o, plan.c, plan.rows.window, plan.columns.window};
  if (!is_dense(r, plan.g, plan, g_box, 2, 4) || !is_dense(r, plan.w, plan, w_box, 1, 4)) return std::nullopt;
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
  const size_t rank = rank_of(plan);
  plan.g = real_operand(r, 0, rank);
  if (plan.g < 0 || !find_input(r, 1, plan) || !is_real(r, plan.result, rank)) return std::nullopt;
  const std::vector<Interval> of_result = along_result(r), of_g = along(r, plan.g);
  if (of_result.size() != rank || of_g.size() != rank) return std::nullopt;  // [(q), o, c, r, t], [n, (q), o, y, z]
  plan.n = of_g[0];
  plan.q = plan.grouped ? of_result[0] : Interval{0, 1};
  plan.o = of_result[rank - 4];
  plan.c = of_result[rank - 3];
  const Box& x = plan.input.box;
  plan.rows = row_axis(r, of_g[rank - 2], x[rank - 2], of_result[rank - 2]);
  plan.columns = column_axis(r, of_g[rank - 1], x[rank - 1], of_result[rank - 1]);
  const Box g_box{plan.n, plan.o, plan.rows.out, plan.columns.out},
      out_box{plan.o, plan.c, plan.rows.window, plan.columns.window};
  if (!is_dense(r, plan.g, plan, g_box, 2, 4) || !is_dense(r, plan.result, plan, out_box, 1, 4)) return std::nullopt;
  const int64_t depth = plan.c.size() * plan.rows.window.size() * plan.columns.window.size();
  const int64_t row = depth * plan.columns.out.size() * element_bytes(r);
  plan.block = std::clamp<int64_t>(kBudgetBytes / row, 1, plan.rows.out.size());
  plan.workspace_bytes = scratch_size(row * plan.block) +
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
  plan.index = plan.result;
  plan.result = r.bound.stages[0].tensor;
  if (!find_input(r, 0, plan) || !is_real(r, plan.result, 4) || part(r, plan.result).dtype != plan.input.dtype ||
      !r.held.written[plan.result] || !r.held.written[plan.index] || part(r, plan.index).dtype != DType::kInt64)
    return std::nullopt;
  plan.n = range(r, "n"), plan.c = range(r, "c");
  plan.rows = row_axis(r, range(r, "y"), plan.input.box[2], range(r, "r"));
  plan.columns = column_axis(r, range(r, "z"), plan.input.box[3], range(r, "t"));
  plan.window_columns = attribute(r, "kw");
  if (plan.rows.window != Interval{0, attribute(r, "kh")} || plan.columns.window != Interval{0, plan.window_columns})
    return std::nullopt;
  plan.workspace_bytes = scratch_size(plan.c.size() * plan.rows.out.size() * plan.columns.out.size());
  return plan;
}

// For each element of the window, the gradients of the windows that it won are added to where it lies: a mask and the
// masked gradients of a sample.
std::optional<MaxPoolGrad> MaxPoolGrad::plan(const KernelRequest& r) {
  auto begun = begin_plan<MaxPoolGrad>(r, 1);
  if (!begun) return std::nullopt;
  MaxPoolGrad& plan = *begun;
  plan.grouped = false;
  plan.g = real_operand(r, 1, 4);
  plan.index = 0;
  const std::optional<Part>& index = r.held.parts[plan.index];
  if (plan.g < 0 || !index || index->dtype != DType::kInt64 || !is_real(r, plan.result, 4)) return std::nullopt;
  const Box box = intersect(part(r, plan.g).box, index->box);
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

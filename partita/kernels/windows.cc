// Runs the kernels of convolutions and pooling: a block of columns at a time, and a matrix product.
#include "partita/kernels/windows.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/where.h>

#include <limits>

namespace partita {

ShardMemory in_compute_dtype(const ShardMemory& held, const Box& box, DType real, at::Tensor& memory) {
  if (held.shard.dtype == real) return held;
  memory = new_tensor(real, extents(box));
  memory.copy_(held.tensor(box));
  return {{real, box, dense_strides(extents(box))}, static_cast<std::byte*>(memory.data_ptr())};
}

namespace {

// The shard of a tensor in a box, at group q and sample n if it has such axes.
at::Tensor box_of_held(const ShardMemory& held, Box box, bool grouped, size_t group_axis, int64_t q) {
  if (grouped) box.insert(box.begin() + static_cast<std::ptrdiff_t>(group_axis), Interval{q, q + 1});
  at::Tensor t = held.tensor(box);
  return grouped ? t.select(static_cast<int64_t>(group_axis), 0) : t;
}

// Elements of an input [.., rows, columns] (which begins at rows.at.lo, columns.at.lo) under element (r, t) of the
// windows outs_r x outs_t.
at::Tensor under_window(const at::Tensor& input, const WindowPlan& plan, Interval outs_r, int64_t r, Interval outs_t,
                        int64_t t) {
  const int64_t row = plan.rows.input(outs_r.lo, r) - plan.rows.at.lo,
                column = plan.columns.input(outs_t.lo, t) - plan.columns.at.lo;
  return input.slice(-2, row, row + (outs_r.size() - 1) * plan.rows.stride + 1, plan.rows.stride)
      .slice(-1, column, column + (outs_t.size() - 1) * plan.columns.stride + 1, plan.columns.stride);
}

// The windows' elements of the result [.., rows, columns], which begins at `rows`, `columns`.
at::Tensor among_windows(const at::Tensor& result, Interval rows, Interval outs_r, Interval columns, Interval outs_t) {
  return result.slice(-2, outs_r.lo - rows.lo, outs_r.hi - rows.lo)
      .slice(-1, outs_t.lo - columns.lo, outs_t.hi - columns.lo);
}

// Sample n of the input of a convolution, in group q: [c, rows, columns].
at::Tensor input_of(const WindowPlan& plan, const std::vector<ShardMemory>& held, int64_t n, int64_t q) {
  const Box box{{n, n + 1}, plan.c, plan.rows.at, plan.columns.at};
  return box_of_held(held_of(plan.x, held), box, plan.grouped, 1, q).select(0, 0);
}

// [c, r, t, rows, columns]: the elements of x [c, height, width] under these rows of windows, 0 outside x. They lie at
// the beginning of `memory`.
at::Tensor columns_of(const at::Tensor& memory, const at::Tensor& x, const WindowPlan& plan, Interval rows) {
  const Interval all = plan.columns.out;
  const Shape sizes{plan.c.size(), plan.rows.window.size(), plan.columns.window.size(), rows.size(), all.size()};
  at::Tensor columns = memory.slice(0, 0, volume(sizes)).view(sizes);
  each_element(plan, rows, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
    at::Tensor to = columns.select(1, r - plan.rows.window.lo).select(1, t - plan.columns.window.lo);
    if (outs_r.size() != rows.size() || outs_t.size() != all.size()) to.fill_(0);
    if (outs_r.empty() || outs_t.empty()) return;
    among_windows(to, rows, outs_r, all, outs_t).copy_(under_window(x, plan, outs_r, r, outs_t, t));
  });
  return columns;
}

Box with_groups(Box box, const WindowPlan& plan, size_t axis) {
  if (plan.grouped) box.insert(box.begin() + static_cast<std::ptrdiff_t>(axis), plan.q);
  return box;
}

int64_t window_size(const WindowPlan& plan) { return plan.rows.window.size() * plan.columns.window.size(); }

// Axes of t as a matrix, from its first element: rows lie `row_stride` apart, their elements adjacent.
at::Tensor matrix_view(const at::Tensor& t, int64_t rows, int64_t columns, int64_t row_stride) {
  return t.as_strided({rows, columns}, {rows == 1 ? columns : std::max(row_stride, columns), 1}, t.storage_offset());
}

// ---------------------------------------------------------------- convolutions

void run_conv2d(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  const Interval all = plan.columns.out;
  const int64_t depth = plan.c.size() * window_size(plan);
  at::Tensor memory = new_tensor(plan.real, {depth * plan.block * all.size()}), w_copy, copy, b_copy;
  const ShardMemory weights = in_compute_dtype(
      held_of(plan.w, held), with_groups({plan.o, plan.c, plan.rows.window, plan.columns.window}, plan, 0), plan.real,
      w_copy);
  const bool wide = plan.result.shard.dtype != plan.real;
  if (wide) copy = new_tensor(plan.real, {plan.o.size() * plan.block * all.size()});
  if (plan.b.tensor >= 0 && plan.b.shard.dtype != plan.real) b_copy = new_tensor(plan.real, {plan.o.size()});
  for (int64_t n = plan.n.lo; n < plan.n.hi; ++n)
    for (int64_t q = plan.q.lo; q < plan.q.hi; ++q) {
      const at::Tensor x = input_of(plan, held, n, q);
      const at::Tensor w =
          box_of_held(weights, {plan.o, plan.c, plan.rows.window, plan.columns.window}, plan.grouped, 0, q);
      const at::Tensor out =
          box_of_held(held_of(plan.result, held), {{n, n + 1}, plan.o, plan.rows.out, all}, plan.grouped, 1, q)
              .select(0, 0);
      at::Tensor b;
      if (plan.b.tensor >= 0) b = box_of_held(held_of(plan.b, held), {plan.o}, plan.grouped, 0, q);
      if (b_copy.defined()) b = b_copy.copy_(b);
      for (int64_t y = plan.rows.out.lo; y < plan.rows.out.hi; y += plan.block) {
        const Interval rows{y, std::min(y + plan.block, plan.rows.out.hi)};
        const at::Tensor columns = columns_of(memory, x, plan, rows);
        const int64_t pixels = rows.size() * all.size();
        at::Tensor result = among_windows(out, plan.rows.out, rows, all, all);
        at::Tensor block = wide ? copy.slice(0, 0, plan.o.size() * pixels).view({plan.o.size(), pixels})
                                : matrix_view(result, plan.o.size(), pixels, out.stride(0));
        at::mm_out(block, matrix_view(w, plan.o.size(), depth, w.stride(0)), columns.view({depth, pixels}));
        if (b.defined()) block.add_(b.view({-1, 1}));
        if (wide) result.copy_(block.view({plan.o.size(), rows.size(), all.size()}));
      }
    }
}

void run_conv2d_data_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  const int64_t pixels = plan.rows.out.size() * plan.columns.out.size(), window = window_size(plan);
  at::Tensor memory = new_tensor(plan.real, {plan.block * window * pixels}), w_copy, g_copy, copy;
  const ShardMemory weights = in_compute_dtype(
      held_of(plan.w, held), with_groups({plan.o, plan.c, plan.rows.window, plan.columns.window}, plan, 0), plan.real,
      w_copy);
  if (plan.g.shard.dtype != plan.real)
    g_copy = new_tensor(plan.real, {plan.o.size(), plan.rows.out.size(), plan.columns.out.size()});
  const bool wide = plan.result.shard.dtype != plan.real;
  if (wide) copy = new_tensor(plan.real, {plan.block * plan.rows.at.size() * plan.columns.at.size()});
  for (int64_t n = plan.n.lo; n < plan.n.hi; ++n)
    for (int64_t q = plan.q.lo; q < plan.q.hi; ++q) {
      at::Tensor g =
          box_of_held(held_of(plan.g, held), {{n, n + 1}, plan.o, plan.rows.out, plan.columns.out}, plan.grouped, 1, q)
              .select(0, 0);
      if (g_copy.defined()) g = g_copy.copy_(g);
      for (int64_t c = plan.c.lo; c < plan.c.hi; c += plan.block) {
        const Interval channels{c, std::min(c + plan.block, plan.c.hi)};
        const at::Tensor w =
            box_of_held(weights, {plan.o, channels, plan.rows.window, plan.columns.window}, plan.grouped, 0, q);
        at::Tensor columns = memory.slice(0, 0, channels.size() * window * pixels);
        at::Tensor flat = columns.view({channels.size() * window, pixels});
        at::mm_out(flat, matrix_view(w, plan.o.size(), channels.size() * window, w.stride(0)).t(),
                   matrix_view(g, plan.o.size(), pixels, g.stride(0)));
        columns = columns.view({channels.size(), plan.rows.window.size(), plan.columns.window.size(),
                                plan.rows.out.size(), plan.columns.out.size()});
        at::Tensor result = box_of_held(held_of(plan.result, held),
                                        {{n, n + 1}, channels, plan.rows.at, plan.columns.at}, plan.grouped, 1, q)
                                .select(0, 0);
        at::Tensor out = wide ? copy.slice(0, 0, result.numel()).view(result.sizes()) : result;
        out.fill_(0);
        each_element(plan, plan.rows.out, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
          if (outs_r.empty() || outs_t.empty()) return;
          const at::Tensor from = columns.select(1, r - plan.rows.window.lo).select(1, t - plan.columns.window.lo);
          under_window(out, plan, outs_r, r, outs_t, t)
              .add_(among_windows(from, plan.rows.out, outs_r, plan.columns.out, outs_t));
        });
        if (wide) result.copy_(out);
      }
    }
}

void run_conv2d_weight_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  const Interval all = plan.columns.out;
  const int64_t depth = plan.c.size() * window_size(plan);
  at::Tensor memory = new_tensor(plan.real, {depth * plan.block * all.size()}), g_copy, copy;
  if (plan.g.shard.dtype != plan.real) g_copy = new_tensor(plan.real, {plan.o.size() * plan.block * all.size()});
  const bool wide = plan.result.shard.dtype != plan.real;
  if (wide) copy = new_tensor(plan.real, {plan.o.size(), depth});
  for (int64_t q = plan.q.lo; q < plan.q.hi; ++q) {
    const at::Tensor whole = box_of_held(held_of(plan.result, held),
                                         {plan.o, plan.c, plan.rows.window, plan.columns.window}, plan.grouped, 0, q);
    at::Tensor out = wide ? copy : matrix_view(whole, plan.o.size(), depth, whole.stride(0));
    bool first = true;
    for (int64_t n = plan.n.lo; n < plan.n.hi; ++n) {
      const at::Tensor x = input_of(plan, held, n, q);
      const at::Tensor g =
          box_of_held(held_of(plan.g, held), {{n, n + 1}, plan.o, plan.rows.out, all}, plan.grouped, 1, q).select(0, 0);
      for (int64_t y = plan.rows.out.lo; y < plan.rows.out.hi; y += plan.block) {
        const Interval rows{y, std::min(y + plan.block, plan.rows.out.hi)};
        const at::Tensor columns = columns_of(memory, x, plan, rows);
        const int64_t pixels = rows.size() * all.size();
        at::Tensor part = among_windows(g, plan.rows.out, rows, all, all);
        if (g_copy.defined())
          part =
              g_copy.slice(0, 0, plan.o.size() * pixels).view(part.sizes()).copy_(part).view({plan.o.size(), pixels});
        else part = matrix_view(part, plan.o.size(), pixels, g.stride(0));
        const at::Tensor transposed = columns.view({depth, pixels}).t();
        if (first) at::mm_out(out, part, transposed);
        else at::addmm_out(out, out, part, transposed);
        first = false;
      }
    }
    if (wide) at::Tensor(whole).copy_(copy.view(whole.sizes()));
  }
}

// ---------------------------------------------------------------- pooling

void run_max_pool(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  at::Tensor memory = new_tensor(DType::kBool, {plan.c.size() * plan.rows.out.size() * plan.columns.out.size()});
  for (int64_t n = plan.n.lo; n < plan.n.hi; ++n) {
    const Box box{{n, n + 1}, plan.c, plan.rows.out, plan.columns.out};
    const at::Tensor x = held_of(plan.x, held).tensor({{n, n + 1}, plan.c, plan.rows.at, plan.columns.at}).select(0, 0);
    at::Tensor largest = held_of(plan.result, held).tensor(box).select(0, 0),
               index = held_of(plan.index, held).tensor(box).select(0, 0);
    largest.fill_(-std::numeric_limits<double>::infinity());
    index.fill_(0);
    each_element(plan, plan.rows.out, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
      if (outs_r.empty() || outs_t.empty()) return;
      const at::Tensor here = under_window(x, plan, outs_r, r, outs_t, t);
      at::Tensor so_far = among_windows(largest, plan.rows.out, outs_r, plan.columns.out, outs_t);
      at::Tensor larger = memory.slice(0, 0, here.numel()).view(here.sizes());
      at::gt_out(larger, here, so_far);
      among_windows(index, plan.rows.out, outs_r, plan.columns.out, outs_t)
          .masked_fill_(larger, r * plan.window_columns + t);
      at::maximum_out(so_far, so_far, here);
    });
  }
}

void run_max_pool_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  const int64_t elements = plan.c.size() * plan.rows.out.size() * plan.columns.out.size();
  at::Tensor masks = new_tensor(DType::kBool, {elements}), gradients = new_tensor(plan.real, {elements}), copy;
  const at::Tensor zero = constant_tensor(plan.real, 0);
  const bool copied = plan.g.shard.dtype != plan.real, wide = plan.result.shard.dtype != plan.real;
  if (wide) copy = new_tensor(plan.real, {plan.c.size(), plan.rows.at.size(), plan.columns.at.size()});
  for (int64_t n = plan.n.lo; n < plan.n.hi; ++n) {
    const Box box{{n, n + 1}, plan.c, plan.rows.out, plan.columns.out};
    const at::Tensor g = held_of(plan.g, held).tensor(box).select(0, 0),
                     index = held_of(plan.index, held).tensor(box).select(0, 0);
    at::Tensor result =
        held_of(plan.result, held).tensor({{n, n + 1}, plan.c, plan.rows.at, plan.columns.at}).select(0, 0);
    at::Tensor out = wide ? copy : result;
    out.fill_(0);
    each_element(plan, plan.rows.out, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
      if (outs_r.empty() || outs_t.empty()) return;
      at::Tensor part = among_windows(g, plan.rows.out, outs_r, plan.columns.out, outs_t);
      at::Tensor won = masks.slice(0, 0, part.numel()).view(part.sizes()),
                 gradient = gradients.slice(0, 0, part.numel()).view(part.sizes());
      at::eq_out(won, among_windows(index, plan.rows.out, outs_r, plan.columns.out, outs_t),
                 r * plan.window_columns + t);
      if (copied) part = gradient.copy_(part);
      at::where_out(gradient, won, part, zero);
      under_window(out, plan, outs_r, r, outs_t, t).add_(gradient);
    });
    if (wide) result.copy_(out);
  }
}

}  // namespace

void Conv2d::run(const KernelMemory& given) const {
  depthwise ? run_depthwise(*this, given.held) : run_conv2d(*this, given.held);
}
void Conv2dDataGrad::run(const KernelMemory& given) const {
  depthwise ? run_depthwise_data_grad(*this, given.held) : run_conv2d_data_grad(*this, given.held);
}
void Conv2dWeightGrad::run(const KernelMemory& given) const {
  depthwise ? run_depthwise_weight_grad(*this, given.held) : run_conv2d_weight_grad(*this, given.held);
}
void MaxPool::run(const KernelMemory& given) const { run_max_pool(*this, given.held); }
void MaxPoolGrad::run(const KernelMemory& given) const { run_max_pool_grad(*this, given.held); }

}  // namespace partita

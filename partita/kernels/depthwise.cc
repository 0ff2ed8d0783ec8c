// Runs the kernels of convolutions whose groups have one input channel: planes are added up under each element of the
// window. A product of matrices would have a row or two.
#include <algorithm>

#include "partita/base/dtype.h"
#include "partita/kernels/windows.h"

namespace partita {
namespace {

// Planes [q, o, rows, columns] of a sample or of the weight, from their first elements.
template <typename Real>
struct Planes {
  explicit Planes(const at::Tensor& t)
      : first(t.data_ptr<Real>()), q(t.stride(0)), o(t.stride(1)), row(t.stride(2)), column(t.stride(3)) {}

  Real* at(int64_t group, int64_t channel) const { return first + group * q + channel * o; }

  Real* first;
  int64_t q, o, row, column;  // strides
};

// to[i] += factor * from[i]
template <typename Real>
void add_scaled(Real* to, int64_t to_step, const Real* from, int64_t from_step, Real factor, int64_t count) {
  if (to_step == 1 && from_step == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_step] += factor * from[i * from_step];
  }
}

// to[i] += a[i] * b[i]
template <typename Real>
void add_products(Real* to, const Real* a, int64_t a_step, const Real* b, int64_t b_step, int64_t count) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] += a[i] * b[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] += a[i * a_step] * b[i * b_step];
  }
}

// Element (r, t) of the windows outs_r x outs_t: rows of the result and of the input beside each other. Calls f(row of
// the result, row of the input, elements), both at their first column.
template <typename Real, typename F>
void each_row(const WindowPlan& plan, const Planes<Real>& result, Real* out, const Planes<Real>& input, Real* in,
              int64_t r, int64_t t, Interval outs_r, Interval outs_t, F f) {
  if (outs_r.empty() || outs_t.empty()) return;
  out += (outs_t.lo - plan.columns.out.lo) * result.column;
  in += (plan.columns.input(outs_t.lo, t) - plan.columns.at.lo) * input.column;
  for (int64_t y = outs_r.lo; y < outs_r.hi; ++y)
    f(out + (y - plan.rows.out.lo) * result.row, in + (plan.rows.input(y, r) - plan.rows.at.lo) * input.row,
      outs_t.size());
}

// Channels of groups `q` of sample n, [q, channels, rows, columns]: their own memory, or a place for a copy.
struct Sample {
  at::Tensor stored, values;
};
Sample sample_of(const WindowPlan& plan, const WindowTensor& t, const std::vector<ShardMemory>& held, int64_t n,
                 Interval q, Interval channels, Interval rows, Interval columns, at::Tensor& memory) {
  const at::Tensor stored = held_of(t, held).tensor({{n, n + 1}, q, channels, rows, columns}).select(0, 0);
  if (t.shard.dtype == plan.real) return {stored, stored};
  if (!memory.defined()) memory = new_tensor(plan.real, {plan.block * channels.size() * rows.size() * columns.size()});
  return {stored, memory.slice(0, 0, stored.numel()).view(stored.sizes())};
}
at::Tensor read_sample(const Sample& sample) {
  if (!sample.values.is_same(sample.stored)) sample.values.copy_(sample.stored);
  return sample.values;
}
void write_sample(const Sample& sample) {
  if (!sample.values.is_same(sample.stored)) sample.stored.copy_(sample.values);
}

// Calls f(n, groups), plan.block groups at once.
template <typename F>
void each_block(const WindowPlan& plan, F f) {
  for (int64_t n = plan.n.lo; n < plan.n.hi; ++n)
    for (int64_t q = plan.q.lo; q < plan.q.hi; q += plan.block) f(n, Interval{q, std::min(q + plan.block, plan.q.hi)});
}

// The weight [q, o, c, r, t] in the computation dtype, as planes over the window.
at::Tensor window_planes(const WindowPlan& plan, const ShardMemory& weight) {
  return weight.tensor({plan.q, plan.o, plan.c, plan.rows.window, plan.columns.window}).select(2, 0);
}
ShardMemory computed_weight(const WindowPlan& plan, const std::vector<ShardMemory>& held, at::Tensor& memory) {
  return in_compute_dtype(held_of(plan.w, held), {plan.q, plan.o, plan.c, plan.rows.window, plan.columns.window},
                          plan.real, memory);
}

template <typename Real>
Real& element(const WindowPlan& plan, const Planes<Real>& weight, int64_t q, int64_t o, int64_t r, int64_t t) {
  return weight.at(q - plan.q.lo,
                   o)[(r - plan.rows.window.lo) * weight.row + (t - plan.columns.window.lo) * weight.column];
}

template <typename Real>
void convolve(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  at::Tensor w_copy, x_copy, b_copy, copy, bias;
  const ShardMemory weight = computed_weight(plan, held, w_copy);
  const Planes<Real> w(window_planes(plan, weight));
  if (plan.b.tensor >= 0)
    bias = in_compute_dtype(held_of(plan.b, held), {plan.q, plan.o}, plan.real, b_copy).tensor({plan.q, plan.o});
  each_block(plan, [&](int64_t n, Interval groups) {
    const Sample result = sample_of(plan, plan.result, held, n, groups, plan.o, plan.rows.out, plan.columns.out, copy);
    const Planes<Real> x(
        read_sample(sample_of(plan, plan.x, held, n, groups, plan.c, plan.rows.at, plan.columns.at, x_copy)));
    const Planes<Real> out(result.values);
    at::Tensor values = result.values;
    if (!bias.defined()) values.fill_(0);
    else values.copy_(bias.slice(0, groups.lo - plan.q.lo, groups.hi - plan.q.lo).unsqueeze(-1).unsqueeze(-1));
    for (int64_t q = groups.lo; q < groups.hi; ++q)
      for (int64_t o = 0; o < plan.o.size(); ++o)
        each_element(plan, plan.rows.out, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
          const Real factor = element(plan, w, q, o, r, t);
          each_row(plan, out, out.at(q - groups.lo, o), x, x.at(q - groups.lo, 0), r, t, outs_r, outs_t,
                   [&](Real* to, const Real* from, int64_t count) {
                     add_scaled(to, out.column, from, x.column * plan.columns.stride, factor, count);
                   });
        });
    write_sample(result);
  });
}

template <typename Real>
void convolve_data_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  at::Tensor w_copy, g_copy, copy;
  const ShardMemory weight = computed_weight(plan, held, w_copy);
  const Planes<Real> w(window_planes(plan, weight));
  each_block(plan, [&](int64_t n, Interval groups) {
    const Sample result = sample_of(plan, plan.result, held, n, groups, plan.c, plan.rows.at, plan.columns.at, copy);
    const Planes<Real> g(
        read_sample(sample_of(plan, plan.g, held, n, groups, plan.o, plan.rows.out, plan.columns.out, g_copy)));
    const Planes<Real> out(result.values);
    at::Tensor(result.values).fill_(0);
    for (int64_t q = groups.lo; q < groups.hi; ++q)
      for (int64_t o = 0; o < plan.o.size(); ++o)
        each_element(plan, plan.rows.out, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
          const Real factor = element(plan, w, q, o, r, t);
          each_row(plan, g, g.at(q - groups.lo, o), out, out.at(q - groups.lo, 0), r, t, outs_r, outs_t,
                   [&](const Real* from, Real* to, int64_t count) {
                     add_scaled(to, out.column * plan.columns.stride, from, g.column, factor, count);
                   });
        });
    write_sample(result);
  });
}

template <typename Real>
void convolve_weight_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  at::Tensor g_copy, x_copy, copy;
  const at::Tensor row = new_tensor(plan.real, {plan.columns.out.size()});  // sums over rows, a column each
  const at::Tensor stored = window_planes(plan, held_of(plan.result, held));
  if (plan.result.shard.dtype != plan.real) copy = new_tensor(plan.real, stored.sizes().vec());
  at::Tensor values = copy.defined() ? copy : stored;
  values.fill_(0);
  const Planes<Real> out(values);
  Real* const sums = row.data_ptr<Real>();
  each_block(plan, [&](int64_t n, Interval groups) {
    const Planes<Real> g(
        read_sample(sample_of(plan, plan.g, held, n, groups, plan.o, plan.rows.out, plan.columns.out, g_copy)));
    const Planes<Real> x(
        read_sample(sample_of(plan, plan.x, held, n, groups, plan.c, plan.rows.at, plan.columns.at, x_copy)));
    for (int64_t q = groups.lo; q < groups.hi; ++q)
      for (int64_t o = 0; o < plan.o.size(); ++o)
        each_element(plan, plan.rows.out, [&](int64_t r, int64_t t, Interval outs_r, Interval outs_t) {
          std::fill_n(sums, outs_t.size(), Real(0));
          each_row(plan, g, g.at(q - groups.lo, o), x, x.at(q - groups.lo, 0), r, t, outs_r, outs_t,
                   [&](const Real* a, const Real* b, int64_t count) {
                     add_products(sums, a, g.column, b, x.column * plan.columns.stride, count);
                   });
          Real& sum = element(plan, out, q, o, r, t);
          for (int64_t i = 0; i < outs_t.size(); ++i) sum += sums[i];
        });
  });
  if (copy.defined()) at::Tensor(stored).copy_(copy);
}

}  // namespace

void run_depthwise(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  plan.real == DType::kFloat64 ? convolve<double>(plan, held) : convolve<float>(plan, held);
}
void run_depthwise_data_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  plan.real == DType::kFloat64 ? convolve_data_grad<double>(plan, held) : convolve_data_grad<float>(plan, held);
}
void run_depthwise_weight_grad(const WindowPlan& plan, const std::vector<ShardMemory>& held) {
  plan.real == DType::kFloat64 ? convolve_weight_grad<double>(plan, held) : convolve_weight_grad<float>(plan, held);
}

}  // namespace partita

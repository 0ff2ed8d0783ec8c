// Copies and combines boxes of memory, in as few and long runs of elements as their strides allow.
#include "partita/runtime/views.h"

#include <cmath>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/runtime/typed.h"

namespace partita {
namespace {

// Calls f(offset in a, offset in b, count, step in a, step in b), in elements, for runs that make up `box`; a and b
// have the box's axes. Axes that lie one inside the next in both are one: a box that is dense in both is a single run.
template <typename F>
void for_each_run(const Box& box, const View& a, const View& b, F f) {
  if (is_empty(box)) return;
  struct Axis {
    int64_t size = 1, in_a = 1, in_b = 1, at = 0;
  };
  std::vector<Axis> axes;
  int64_t pa = 0, pb = 0;
  for (size_t i = 0; i < box.size(); ++i) {
    pa += (box[i].lo - a.box[i].lo) * a.strides[i];
    pb += (box[i].lo - b.box[i].lo) * b.strides[i];
    const Axis axis{box[i].size(), a.strides[i], b.strides[i]};
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().in_a == axis.size * axis.in_a && axes.back().in_b == axis.size * axis.in_b)
      axes.back() = {axes.back().size * axis.size, axis.in_a, axis.in_b};
    else axes.push_back(axis);
  }
  if (axes.empty()) axes.emplace_back();
  const Axis inner = axes.back();
  axes.pop_back();
  for (;;) {
    f(pa, pb, inner.size, inner.in_a, inner.in_b);
    auto axis = axes.rbegin();
    for (; axis != axes.rend(); ++axis) {
      pa += axis->in_a, pb += axis->in_b;
      if (++axis->at < axis->size) break;
      pa -= axis->size * axis->in_a, pb -= axis->size * axis->in_b;
      axis->at = 0;
    }
    if (axis == axes.rend()) return;
  }
}

// f(element of a, element of b) for every element of `box`.
template <typename A, typename B, typename F>
void for_each_element(const Box& box, const View& a, const View& b, F f) {
  const A* from = reinterpret_cast<const A*>(a.data);
  B* to = reinterpret_cast<B*>(b.data);
  for_each_run(box, a, b, [&](int64_t i, int64_t j, int64_t count, int64_t in_a, int64_t in_b) {
    if (in_a == 1 && in_b == 1)
      for (int64_t k = 0; k < count; ++k) f(from[i + k], to[j + k]);
    else
      for (int64_t k = 0; k < count; ++k) f(from[i + k * in_a], to[j + k * in_b]);
  });
}

// f(zero of from's type, zero of to's): the same, or one of both float32 and the other float16 or bfloat16.
template <typename F>
void with_types(const View& from, const View& to, F f) {
  if (from.dtype == to.dtype) return with_type(to.dtype, [&](auto zero) { f(zero, zero); });
  if (to.dtype == DType::kFloat32 && from.dtype == DType::kFloat16) return f(Float16{}, float{});
  if (to.dtype == DType::kFloat32 && from.dtype == DType::kBFloat16) return f(BFloat16{}, float{});
  if (from.dtype == DType::kFloat32 && to.dtype == DType::kFloat16) return f(float{}, Float16{});
  if (from.dtype == DType::kFloat32 && to.dtype == DType::kBFloat16) return f(float{}, BFloat16{});
  ensure(false, "from {} to {}", name_of(from.dtype), name_of(to.dtype));
}

}  // namespace

std::optional<View> regroup(const View& view, const Shape& axes) {
  if (view.axes == axes) return view;
  auto part = reshape_box(StridedBox{view.box, view.strides}, view.axes, axes);
  if (!part) return std::nullopt;
  return View{view.data, view.dtype, std::move(part->box), std::move(part->strides), axes};
}

View part_of(View view, const Box& box) {
  for (size_t a = 0; a < box.size(); ++a)
    view.data += (box[a].lo - view.box[a].lo) * view.strides[a] * bytes_of(view.dtype);
  view.box = box;
  return view;
}

void copy_box(const View& from, const View& to) {
  with_types(from, to, [&](auto given, auto zero) {
    using A = decltype(given);
    using B = decltype(zero);
    for_each_element<A, B>(to.box, from, to, [](const A& a, B& b) { b = static_cast<B>(a); });
  });
}

std::vector<Box> copy_missing(const std::vector<Box>& missing, const View& from, const View& to) {
  std::vector<Box> rest;
  for (const Box& box : missing) {
    if (is_empty(box)) continue;
    const Box common = intersect(box, from.box);
    if (is_empty(common)) {
      rest.push_back(box);
      continue;
    }
    copy_box(from, part_of(to, common));
    for (Box& left : subtract(box, common)) rest.push_back(std::move(left));
  }
  return rest;
}

void combine_box(tdl::Reducer reducer, const View& from, const View& to) {
  const Box common = intersect(from.box, to.box);
  with_types(from, to, [&](auto given, auto zero) {
    using A = decltype(given);
    using B = decltype(zero);
    switch (reducer) {
      case tdl::Reducer::kSum:
        return for_each_element<A, B>(common, from, to, [](const A& a, B& b) { b = static_cast<B>(b + a); });
      case tdl::Reducer::kProd:
        return for_each_element<A, B>(common, from, to, [](const A& a, B& b) { b = static_cast<B>(b * a); });
      // A NaN stays one, as in the kernels.
      case tdl::Reducer::kMax:
        return for_each_element<A, B>(common, from, to, [](const A& a, B& b) {
          if (a > b || a != a) b = static_cast<B>(a);
        });
      case tdl::Reducer::kMin:
        return for_each_element<A, B>(common, from, to, [](const A& a, B& b) {
          if (a < b || a != a) b = static_cast<B>(a);
        });
    }
  });
}

void fill_view(const View& to, double value) {
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    T v;
    if constexpr (std::is_floating_point_v<T>) v = static_cast<T>(value);
    else if constexpr (!std::is_integral_v<T>) v = T(static_cast<float>(value));
    else
      v = std::isfinite(value) ? static_cast<T>(value)
          : value > 0          ? std::numeric_limits<T>::max()
                               : std::numeric_limits<T>::lowest();
    for_each_element<T, T>(to.box, to, to, [v](const T&, T& b) { b = v; });
  });
}

Finiteness finiteness_of(const View& view) {
  Finiteness worst = Finiteness::kFinite;
  with_type(view.dtype, [&](auto zero) {
    using A = decltype(zero);
    for_each_element<A, A>(view.box, view, view, [&](const A& a, const A&) {
      const double x = static_cast<double>(a);
      if (std::isfinite(x)) return;
      if (x != x) worst = Finiteness::kNan;
      else if (worst == Finiteness::kFinite) worst = Finiteness::kInfinite;
    });
  });
  return worst;
}

}  // namespace partita

#include "partita/runtime/memory.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/base/float16.h"

namespace partita {

namespace {

// Calls f(offset in a, offset in b, count, step in a, step in b), in elements, for runs that make up `box`; a and b
// have the box's axes. Axes that lie one inside the next in both are one: what is dense in both is a single run.
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

template <typename F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kBool:
      return f(uint8_t{});
    case DType::kFloat16:
      return f(Float16{});
    case DType::kBFloat16:
      return f(BFloat16{});
  }
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

int use_of(const Register& reg, int act, int rate) { return reg.carried || reg.uses == 1 || rate == 1 ? 0 : act; }

Memory::Memory(const PhysicalGraph& graph) : graph_(graph) {
  for (int64_t bytes : graph.peak_bytes) {
    size_t size = static_cast<size_t>(align_up(bytes, kAlignBytes));
    void* p = size ? std::aligned_alloc(kAlignBytes, size) : nullptr;
    if (size && !p)
      throw Error(ExitCode::kInfeasible, fmt::format("this machine has no {} bytes for one device's memory", size));
    if (p) std::memset(p, 0, size);
    arenas_.emplace_back(static_cast<std::byte*>(p));
  }
}

std::byte* Memory::address(RegisterId id, int use) const {
  const Register& reg = graph_.reg(id);
  ensure(reg.offset >= 0, "register '{}' has no place in memory", reg.name);
  return arenas_[reg.device.index()].get() + reg.slot_offset(reg.slot(use));
}

View Memory::view(const Access& a, int act, int rate) const {
  const int use = use_of(graph_.reg(a.reg), act, rate);
  if (a.boxes.size() < 2) return view_of_use(a, use);
  return view_of_use({a.reg, a.fresh, {a.boxes[act]}, a.tensor}, use);
}

View Memory::view_of_use(const Access& a, int use) const {
  const Register& reg = graph_.reg(a.reg);
  const Box& whole = reg.box(use);
  View view;
  view.dtype = reg.dtype;
  view.axes = reg.axes;
  view.box = a.boxes.empty() ? whole : a.boxes.size() == 1 ? intersect(whole, a.boxes[0]) : a.boxes[use];
  view.strides = dense_strides(extents(whole));
  view.data = address(a.reg, use);
  if (!is_empty(view.box))
    for (size_t i = 0; i < whole.size(); ++i)
      view.data += (view.box[i].lo - whole[i].lo) * view.strides[i] * bytes_of(reg.dtype);
  return view;
}

std::optional<View> regroup(const View& view, const Shape& axes) {
  if (view.axes == axes) return view;
  auto part = regrouped(StridedBox{view.box, view.strides}, view.axes, axes);
  if (!part) return std::nullopt;
  return View{view.data, view.dtype, std::move(part->box), std::move(part->strides), axes};
}

void copy_box(const View& from, const View& to) {
  with_types(from, to, [&](auto given, auto zero) {
    using A = decltype(given);
    using B = decltype(zero);
    for_each_element<A, B>(to.box, from, to, [](const A& a, B& b) { b = static_cast<B>(a); });
  });
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

void fill(const View& to, double value) {
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

Liveness::Liveness(const PhysicalGraph& graph)
    : graph_(graph), live_(graph.peak_bytes.size()), peak_(graph.peak_bytes.size()) {
  touches_.resize(graph.tasks.size());
  std::vector<TaskId> first_participant;
  for (size_t t = 0; t < graph.tasks.size(); ++t) touches_[t].resize(graph.tasks[t].rate);
  std::vector<std::vector<int>> number(graph.registers.size());
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    if (reg.carried || reg.constant) {
      add(reg.device, reg.bytes);
      continue;
    }
    for (int u = 0; u < reg.uses; ++u) {
      number[r].push_back(static_cast<int>(uses_.size()));
      uses_.push_back({RegisterId(r), u, {}, {}});
    }
  }
  users_.assign(uses_.size(), 0);
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    const Task& task = graph.tasks[t];
    for (int act = 0; act < task.rate; ++act) {
      std::map<int, Touch> mine;  // use -> touch
      auto touch = [&](const Access& a, bool writes) {
        const Register& reg = graph.reg(a.reg);
        if (reg.carried || reg.constant) return;
        std::vector<int> uses;
        if (task.rate == 1)
          for (int u = 0; u < reg.uses; ++u) uses.push_back(number[a.reg.index()][u]);
        else uses.push_back(number[a.reg.index()][use_of(reg, act, task.rate)]);
        for (int u : uses) {
          Touch& entry = mine.try_emplace(u, Touch{u, false, false}).first->second;
          entry.writes |= writes;
        }
      };
      for (const Access& a : task.reads) touch(a, false);
      for (const Access& a : task.writes) touch(a, true);
      for (RegisterId r : task.scratch) touch({r, false, {}, -1}, true);
      for (auto& [use, entry] : mine) {
        users_[use] += 1;
        const Register& reg = graph.reg(uses_[use].reg);
        for (auto& [other, read] : mine) {
          const Register& operand = graph.reg(uses_[other].reg);
          entry.late |=
              entry.writes && !read.writes && operand.device == reg.device && operand.bytes == reg.bytes &&
              operand.slot_offset(operand.slot(uses_[other].number)) == reg.slot_offset(reg.slot(uses_[use].number));
        }
        touches_[t][act].push_back(entry);
      }
    }
  }
  states_ = std::make_unique<State[]>(uses_.size());
  for (size_t u = 0; u < uses_.size(); ++u) states_[u].left = users_[u];
}

void Liveness::add(DeviceId device, int64_t bytes) {
  int64_t now = live_[device.index()].fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_[device.index()].load(std::memory_order_relaxed);
  while (now > peak && !peak_[device.index()].compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void Liveness::note(DeviceId device, int64_t extra_bytes) {
  add(device, extra_bytes);
  live_[device.index()].fetch_sub(extra_bytes, std::memory_order_relaxed);
}

void Liveness::enter(int use) {
  if (states_[use].live.exchange(true)) return;
  const Register& reg = graph_.reg(uses_[use].reg);
  add(reg.device, reg.bytes);
}

void Liveness::began(TaskId task, int act) {
  for (const Touch& touch : touches_[task.index()][act])
    if (touch.writes && !touch.late) enter(touch.use);
}

void Liveness::finished(TaskId task, int act) {
  auto release = [&](const Touch& touch) {
    if (states_[touch.use].left.fetch_sub(1) > 1) return;
    states_[touch.use].left = users_[touch.use];  // for the next step
    if (states_[touch.use].live.exchange(false)) {
      const Register& reg = graph_.reg(uses_[touch.use].reg);
      live_[reg.device.index()].fetch_sub(reg.bytes, std::memory_order_relaxed);
    }
  };
  const auto& touches = touches_[task.index()][act];
  for (const Touch& touch : touches)
    if (!touch.writes) release(touch);
  for (const Touch& touch : touches)
    if (touch.writes) {
      if (touch.late) enter(touch.use);
      release(touch);
    }
}

}  // namespace partita

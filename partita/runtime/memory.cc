#include "partita/runtime/memory.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "partita/base/error.h"
#include "partita/base/float16.h"

namespace partita {

namespace {

// Calls f(offset in a, offset in b) for every element of `box`, offsets in elements; a and b have the box's axes.
template <typename F>
void for_each_element(const Box& box, const View& a, const View& b, F f) {
  if (is_empty(box)) return;
  size_t rank = box.size();
  std::vector<int64_t> at(rank);
  int64_t pa = 0, pb = 0;
  for (size_t i = 0; i < rank; ++i) {
    at[i] = box[i].lo;
    pa += (box[i].lo - a.box[i].lo) * a.strides[i];
    pb += (box[i].lo - b.box[i].lo) * b.strides[i];
  }
  if (rank == 0) return f(int64_t{0}, int64_t{0});
  size_t last = rank - 1;
  for (;;) {
    int64_t n = box[last].size(), sa = a.strides[last], sb = b.strides[last];
    for (int64_t i = 0; i < n; ++i) f(pa + i * sa, pb + i * sb);
    size_t axis = last;
    for (;;) {
      if (axis == 0) return;
      --axis;
      pa += a.strides[axis], pb += b.strides[axis];
      if (++at[axis] < box[axis].hi) break;
      pa -= box[axis].size() * a.strides[axis], pb -= box[axis].size() * b.strides[axis];
      at[axis] = box[axis].lo;
    }
  }
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
    size_t size = static_cast<size_t>((bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes);
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
    using T = decltype(zero);
    const auto* a = reinterpret_cast<const decltype(given)*>(from.data);
    T* b = reinterpret_cast<T*>(to.data);
    for_each_element(to.box, from, to, [&](int64_t i, int64_t j) { b[j] = static_cast<T>(a[i]); });
  });
}

void combine_box(tdl::Reducer reducer, const View& from, const View& to) {
  Box common = intersect(from.box, to.box);
  with_types(from, to, [&](auto given, auto zero) {
    using T = decltype(zero);
    const auto* a = reinterpret_cast<const decltype(given)*>(from.data);
    T* b = reinterpret_cast<T*>(to.data);
    for_each_element(common, from, to, [&](int64_t i, int64_t j) {
      switch (reducer) {
        case tdl::Reducer::kSum:
          b[j] = static_cast<T>(b[j] + a[i]);
          break;
        case tdl::Reducer::kProd:
          b[j] = static_cast<T>(b[j] * a[i]);
          break;
        // A NaN stays one, as in the kernels.
        case tdl::Reducer::kMax:
          if (a[i] > b[j] || a[i] != a[i]) b[j] = static_cast<T>(a[i]);
          break;
        case tdl::Reducer::kMin:
          if (a[i] < b[j] || a[i] != a[i]) b[j] = static_cast<T>(a[i]);
          break;
      }
    });
  });
}

void fill(const View& to, double value) {
  with_type(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* b = reinterpret_cast<T*>(to.data);
    T v;
    if constexpr (std::is_floating_point_v<T>)
      v = static_cast<T>(value);
    else if constexpr (!std::is_integral_v<T>)
      v = T(static_cast<float>(value));
    else
      v = std::isfinite(value) ? static_cast<T>(value)
          : value > 0          ? std::numeric_limits<T>::max()
                               : std::numeric_limits<T>::lowest();
    for_each_element(to.box, to, to, [&](int64_t, int64_t j) { b[j] = v; });
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
        else
          uses.push_back(number[a.reg.index()][use_of(reg, act, task.rate)]);
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

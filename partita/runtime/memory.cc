// Allocates the devices' arenas, and finds registers in them.
#include "partita/runtime/memory.h"

#include <cstring>

#include "partita/base/align.h"
#include "partita/base/error.h"

namespace partita {

int use_of(const Register& reg, int firing, int rate) { return reg.carried || reg.uses == 1 || rate == 1 ? 0 : firing; }

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

View Memory::view(const Access& a, int firing, int rate) const {
  const int use = use_of(graph_.reg(a.reg), firing, rate);
  if (a.boxes.size() < 2) return view_of_use(a, use);
  return view_of_use({a.reg, a.fresh, {a.boxes[firing]}, a.tensor}, use);
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

}  // namespace partita

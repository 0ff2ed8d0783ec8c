// Counts the bytes of registers that are live, firing by firing.
#include "partita/runtime/liveness.h"

#include <map>

#include "partita/base/atomic_max.h"
#include "partita/physical/kept_gradients.h"
#include "partita/runtime/memory.h"

namespace partita {

Liveness::Liveness(const PhysicalGraph& graph)
    : graph_(graph),
      touches_(graph.tasks.size()),
      live_(graph.peak_bytes.size()),
      peak_(graph.peak_bytes.size()),
      kept_(kept_gradient_registers(graph)),
      kept_uses_(graph.peak_bytes.size(), 0),
      kept_left_(graph.peak_bytes.size()),
      kept_bytes_(graph.peak_bytes.size()) {
  std::vector<int> first_use;  // per register: the number of its first use
  for (size_t r = 0; r < graph.registers.size(); ++r) {
    const Register& reg = graph.registers[r];
    first_use.push_back(static_cast<int>(uses_.size()));
    if (reg.carried || reg.constant) add(reg.device, reg.bytes);
    else
      for (int u = 0; u < reg.uses; ++u) uses_.push_back({RegisterId(r), u});
    if (kept_[r]) kept_uses_[reg.device.index()] += reg.uses;
  }
  for (size_t d = 0; d < kept_uses_.size(); ++d) kept_left_[d] = kept_uses_[d];
  users_.assign(uses_.size(), 0);
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    for (int firing = 0; firing < graph.tasks[t].rate; ++firing) {
      touches_[t].push_back(touches_of(graph.tasks[t], firing, first_use));
      for (const Touch& touch : touches_[t].back()) users_[touch.use] += 1;
    }
  states_ = std::make_unique<State[]>(uses_.size());
  for (size_t u = 0; u < uses_.size(); ++u) states_[u].left = users_[u];
}

std::vector<Liveness::Touch> Liveness::touches_of(const Task& task, int firing,
                                                  const std::vector<int>& first_use) const {
  std::map<int, Touch> touches;  // by use
  auto touch = [&](RegisterId id, bool writes) {
    const Register& reg = graph_.reg(id);
    if (reg.carried || reg.constant) return;
    const int only = use_of(reg, firing, task.rate);
    const int first = task.rate == 1 ? 0 : only, last = task.rate == 1 ? reg.uses : only + 1;
    for (int u = first; u < last; ++u) {
      const int use = first_use[id.index()] + u;
      touches.try_emplace(use, Touch{use, false, false}).first->second.writes |= writes;
    }
  };
  for (const Access& a : task.reads) touch(a.reg, false);
  for (const Access& a : task.writes) touch(a.reg, true);
  for (RegisterId scratch : task.scratch) touch(scratch, true);
  std::vector<Touch> result;
  for (const auto& [use, mine] : touches) {
    result.push_back(mine);
    for (const auto& [other, read] : touches)
      result.back().late |= mine.writes && !read.writes && is_same_memory(uses_[other], uses_[use]);
  }
  return result;
}

bool Liveness::is_same_memory(const Use& a, const Use& b) const {
  const Register &x = graph_.reg(a.reg), &y = graph_.reg(b.reg);
  return x.device == y.device && x.bytes == y.bytes &&
         x.slot_offset(x.slot(a.number)) == y.slot_offset(y.slot(b.number));
}

void Liveness::add(DeviceId device, int64_t bytes) {
  atomic_max(peak_[device.index()], live_[device.index()].fetch_add(bytes, std::memory_order_relaxed) + bytes);
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

void Liveness::leave(int use) {
  const RegisterId r = uses_[use].reg;
  const Register& reg = graph_.reg(r);
  const size_t d = reg.device.index();
  if (!kept_[r.index()]) {
    live_[d].fetch_sub(reg.bytes, std::memory_order_relaxed);
    return;
  }
  kept_bytes_[d] += reg.bytes;
  if (kept_left_[d].fetch_sub(1) > 1) return;
  kept_left_[d] = kept_uses_[d];  // for the next step
  live_[d].fetch_sub(kept_bytes_[d].exchange(0), std::memory_order_relaxed);
}

void Liveness::began(TaskId task, int firing) {
  for (const Touch& touch : touches_[task.index()][firing])
    if (touch.writes && !touch.late) enter(touch.use);
}

void Liveness::finished(TaskId task, int firing) {
  auto release = [&](const Touch& touch) {
    if (states_[touch.use].left.fetch_sub(1) > 1) return;
    states_[touch.use].left = users_[touch.use];  // for the next step
    if (states_[touch.use].live.exchange(false)) leave(touch.use);
  };
  const auto& touches = touches_[task.index()][firing];
  for (const Touch& touch : touches)
    if (!touch.writes) release(touch);
  for (const Touch& touch : touches)
    if (touch.writes) {
      if (touch.late) enter(touch.use);
      release(touch);
    }
}

}  // namespace partita

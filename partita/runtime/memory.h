// The devices' memory: one arena a device, registers at the offsets that the planner gave them.
#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/physical/lower.h"
#include "partita/runtime/kernel.h"

namespace partita {

class Memory {
 public:
  explicit Memory(const PhysicalGraph& graph);

  // Where use `use` of a register lies: slot use mod count.
  std::byte* address(RegisterId reg, int use) const;
  // The box that access `a` reads or writes in act `act` of a task of rate `rate`, and where it is.
  View view(const Access& a, int act, int rate) const;
  // The box of use `use` that access `a` reads or writes.
  View view_of_use(const Access& a, int use) const;
  const PhysicalGraph& graph() const { return graph_; }

 private:
  const PhysicalGraph& graph_;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<std::byte[], Free>> arenas_;
};

// The use of a register that act `act` touches: always 0 where U = 1 or the register is carried.
int use_of(const Register& reg, int act, int rate);

// The same memory seen over other axes: `axes` joins or splits the view's axes (a factored axis, TDL.md rule 4). Empty
// where that needs strides that one axis can't have, or elements that are not one box over them.
std::optional<View> regroup(const View& view, const Shape& axes);

// Element by element: to.box must lie in from.box, over the same axes. Both are of one dtype, or one is float32 and the
// other float16 or bfloat16; so in combine_box.
void copy_box(const View& from, const View& to);
// to := to (reducer) from on from.box and to.box's common part.
void combine_box(tdl::Reducer reducer, const View& from, const View& to);
void fill(const View& to, double value);

// Bytes of registers between first write and last release, per device: carried and constant ones always count; a result
// that is written over the operand it takes the place of counts once.
class Liveness {
 public:
  explicit Liveness(const PhysicalGraph& graph);
  void began(TaskId task, int act);
  void finished(TaskId task, int act);
  int64_t live_bytes(DeviceId device) const { return live_[device.index()].load(std::memory_order_relaxed); }
  int64_t peak_bytes(DeviceId device) const { return peak_[device.index()].load(std::memory_order_relaxed); }
  // A kernel's own allocations on top of what is live now.
  void note(DeviceId device, int64_t extra_bytes);

 private:
  struct Touch {
    int use;  // position in uses_
    bool writes;
    bool late;  // lies on an operand that this task releases: counted once that is gone
  };
  struct State {
    std::atomic<int> left{0};
    std::atomic<bool> live{false};
  };
  void add(DeviceId device, int64_t bytes);
  void enter(int use);
  const PhysicalGraph& graph_;
  std::vector<Use> uses_;
  std::vector<int> users_;
  std::unique_ptr<State[]> states_;
  std::vector<std::vector<std::vector<Touch>>> touches_;  // [task][act]
  std::vector<std::atomic<int64_t>> live_, peak_;
};

}  // namespace partita

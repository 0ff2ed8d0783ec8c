// Counts the bytes in the devices' memory while a graph runs.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// Counts the bytes of registers between first write and last release, per device. Carried and constant ones always
// count. A result that is written over its operand counts once.
class Liveness {
 public:
  explicit Liveness(const PhysicalGraph& graph);
  void began(TaskId task, int firing);
  void finished(TaskId task, int firing);
  int64_t live_bytes(DeviceId device) const { return live_[device.index()].load(std::memory_order_relaxed); }
  int64_t peak_bytes(DeviceId device) const { return peak_[device.index()].load(std::memory_order_relaxed); }
  // Adds a kernel's own allocations on top of the live bytes.
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
  struct Use {
    RegisterId reg;
    int number = 0;  // of the register's uses in a step
  };
  std::vector<Touch> touches_of(const Task& task, int firing, const std::vector<int>& first_use) const;
  bool is_same_memory(const Use& a, const Use& b) const;
  void add(DeviceId device, int64_t bytes);
  void enter(int use);
  void leave(int use);
  const PhysicalGraph& graph_;
  std::vector<Use> uses_;
  std::vector<int> users_;
  std::unique_ptr<State[]> states_;
  std::vector<std::vector<std::vector<Touch>>> touches_;  // [task][firing]
  std::vector<std::atomic<int64_t>> live_, peak_;
  // Gradients that are kept until the last of them on their device is released (physical/kept_gradients.h).
  std::vector<char> kept_;                        // by register
  std::vector<int> kept_uses_;                    // by device: how many
  std::vector<std::atomic<int>> kept_left_;       // by device: not released in this step
  std::vector<std::atomic<int64_t>> kept_bytes_;  // by device: released, and still counted
};

}  // namespace partita

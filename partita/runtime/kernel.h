// Defines the runtime's interface to kernels: buffers in, buffers out. Implemented in kernels/ (ATen), and in tests
// without it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/physical/physical.h"

namespace partita {

// A box of a tensor in memory: a part of a register. Strides are in elements.
struct View {
  std::byte* data = nullptr;  // the box's lowest corner
  DType dtype = DType::kFloat32;
  Box box;        // global, over the register's (factored) axes
  Shape strides;  // per axis
  Shape axes;     // the whole tensor's extents over these axes
};

// A number in an op's operand that the op does not take.
struct Outside {
  uint64_t step = 0;
  OpId op;
  int operand = 0;
  int64_t element = 0;  // of the whole operand, row-major
  int64_t value = 0;
  Interval taken;
};

// The first of them by step, op and element, so that it is the same on any number of devices, whichever came first.
class FirstOutside {
 public:
  void add(const Outside& outside) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto place = [](const Outside& o) { return std::tuple(o.step, o.op, o.operand, o.element); };
    if (!first_ || place(outside) < place(*first_)) first_ = outside;
  }
  std::optional<Outside> get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return first_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Outside> first_;
};

// The facts about a call that Kernels find before its first run. They are the same at every step.
struct PreparedCall {
  virtual ~PreparedCall() = default;
};

struct KernelCall {
  const Task* task = nullptr;
  const KernelWork* work = nullptr;
  int firing = 0;
  std::vector<View> reads, writes;  // as the task's accesses; tensor numbers are in task->reads[i].tensor
  std::byte* scratch = nullptr;     // as many bytes as Workspaces has for the task
  std::size_t scratch_bytes = 0;
  std::shared_ptr<const PreparedCall> prepared;
  uint64_t seed = 0, step = 0;  // with work->random_stream, the key of rng()
  // Hears of numbers that the op does not take; the kernel goes on with other numbers. None: it throws.
  FirstOutside* outside = nullptr;
};

class Kernels {
 public:
  virtual ~Kernels() = default;
  // Called once for each call, before its first run: all of it but the key and the memory's contents is known.
  virtual std::shared_ptr<const PreparedCall> prepare_call(const KernelCall&) { return nullptr; }
  // Runs a call; call.prepared is the result of prepare_call() for it. Any thread; one call a compute queue at a time.
  virtual void run(const KernelCall& call) = 0;
  virtual int64_t live_bytes() const { return 0; }  // allocated outside registers now
  virtual int64_t peak_bytes() const { return 0; }  // and at most since reset_peak
  virtual void reset_peak() {}
};

}  // namespace partita

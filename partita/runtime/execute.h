// Runs one firing on the bytes of memory, for all engines. It may be a kernel, a copy, a combination or a participant's
// part of a collective, the load of an input or the output of a value.
#pragma once
#include <functional>
#include <vector>

#include "partita/runtime/firings.h"

namespace partita {

// Fills the view with the step's samples of an input: view.box is the part.
using LoadInput = std::function<void(TensorId input, int64_t step, const View& into)>;
// Takes a graph output of a step.
using TakeOutput = std::function<void(TensorId output, int64_t step, const View& value)>;

// The caller's functions. `kernels`, `load` and `take` are called by the threads of all queues, several at once.
struct Hooks {
  Kernels* kernels = nullptr;  // may be null if the graph has no KernelWork
  LoadInput load;
  TakeOutput take;
  uint64_t seed = 0;       // of counter-based random numbers
  int64_t first_step = 0;  // number of the first step, for random numbers and for load and take
};

// Runs firings. Values of float16 and bfloat16 are combined in float32 and rounded once, however many there are.
class Executor {
 public:
  // Both must outlive it; the firings are prepared for hooks.kernels.
  Executor(const Firings& firings, const Hooks& hooks) : firings_(firings), hooks_(hooks) {}
  // Runs one firing. For a collective: this participant's part, reading the others' values. Each participant's part may
  // run at the same time, once all have come and before any has left.
  void run(TaskId task, int64_t step, int firing) const;
  // Returns the first number that an op does not take, over all firings so far.
  std::optional<Outside> first_outside() const { return outside_.get(); }

 private:
  void run_into(const Task& task, const Firing& firing, int number, int64_t step,
                const std::vector<View>& writes) const;
  void run_kernel(const Task& task, const Firing& firing, int64_t step, const std::vector<View>& writes) const;
  // `tensor`: the place of the write among the task's.
  void run_collective(const CollectiveWork& work, int firing, std::size_t tensor, const View& to) const;
  const Firings& firings_;
  const Hooks& hooks_;
  mutable FirstOutside outside_;
};

}  // namespace partita

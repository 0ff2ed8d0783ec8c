// Where the numbers of a training run stop being finite, and what of it is known.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "partita/graph/graph.h"
#include "partita/runtime/kernel.h"

namespace partita {

// Kernels whose results are looked at while `watch` is on. The first op, in the graph's order, is kept: with a NaN in
// the forward pass, where masks are infinite; with any number that is not finite behind it.
class WatchingKernels final : public Kernels {
 public:
  explicit WatchingKernels(Kernels& kernels) : kernels_(kernels) {}
  std::shared_ptr<const PreparedCall> prepare(const KernelCall& call) override { return kernels_.prepare(call); }
  void run(const KernelCall& call) override;
  int64_t live_bytes() const override { return kernels_.live_bytes(); }
  int64_t peak_bytes() const override { return kernels_.peak_bytes(); }
  void reset_peak() override { kernels_.reset_peak(); }

  std::atomic<bool> watch = false;
  std::optional<OpId> first() const;
  bool weights_lost() const;  // an update wrote such a number

 private:
  Kernels& kernels_;
  mutable std::mutex mutex_;
  std::optional<OpId> first_;
  bool weights_lost_ = false;
};

// What a person should hear after the first step, of kernels that watched it; "" where its loss and its gradients are
// finite. Then what follows is no infinite derivative at the start.
std::string of_first_step(const Graph& graph, const WatchingKernels& kernels, double loss);
// The same of the first loss that is not finite: `before` is that of the step before, `first` that of the first step.
// `watched`: of_first_step was "".
std::string of_later_step(int64_t step, double before, double first, bool watched);

}  // namespace partita

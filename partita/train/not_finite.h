// Finds the first numbers of a training run that are not finite, and reports their likely cause.
#pragma once
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "partita/graph/graph.h"
#include "partita/runtime/kernel.h"

namespace partita {

// Kernels whose results are watched while `watch` is on. The first op, in the graph's order, is kept. It has a NaN in
// the forward pass, in which masks are infinite, or any number that is not finite behind it.
class WatchingKernels final : public Kernels {
 public:
  explicit WatchingKernels(Kernels& kernels) : kernels_(kernels) {}
  std::shared_ptr<const PreparedCall> prepare_call(const KernelCall& call) override {
    return kernels_.prepare_call(call);
  }
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

// Returns the report after the first step, from kernels that watched it; "" if its loss and its gradients are finite.
// Then later faults are no infinite derivative at the start.
std::string first_step_report(const Graph& graph, const WatchingKernels& kernels, double loss);
// The same for the first loss that is not finite: `before` is that of the step before, `first` that of the first step.
// `watched`: first_step_report was "".
std::string later_step_report(int64_t step, double before, double first, bool watched);

}  // namespace partita

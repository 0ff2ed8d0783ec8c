// Measures how far rounding alone can take a training run.
#pragma once
#include <cstdint>

#include "partita/runtime/kernel.h"

namespace partita {

// Kernels whose results in one phase are multiplied, element by element, by 1 plus or minus the epsilon of their type,
// drawn from the seed. This is one unit of the last place, as another order of the terms of a sum would do (Monte Carlo
// arithmetic, Parker 1997). So a gradient, or a loss, that is zero by cancellation becomes another small number. For
// gradients (kBackward) forward results stay as they are, since comparisons of them (the largest of a window) choose
// where gradients go.
class RoundingKernels final : public Kernels {
 public:
  RoundingKernels(Kernels& kernels, Phase phase, uint64_t seed) : kernels_(kernels), phase_(phase), seed_(seed) {}
  std::shared_ptr<const PreparedCall> prepare_call(const KernelCall& call) override {
    return kernels_.prepare_call(call);
  }
  void run(const KernelCall& call) override;
  int64_t live_bytes() const override { return kernels_.live_bytes(); }
  int64_t peak_bytes() const override { return kernels_.peak_bytes(); }
  void reset_peak() override { kernels_.reset_peak(); }

 private:
  Kernels& kernels_;
  Phase phase_;
  uint64_t seed_;
};

}  // namespace partita

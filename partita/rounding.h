// How far rounding alone can take a training run.
#pragma once
#include <cstdint>

#include "partita/runtime/kernel.h"

namespace partita {

// Kernels whose float64 results of the backward pass are multiplied, element by element, by 1 + 2^-52 or 1 - 2^-52, drawn from the seed: one
// unit of the last place, as another order of the terms of a sum would do (Monte Carlo arithmetic, Parker 1997). A gradient that is zero
// by cancellation so becomes another small number. Forward results stay as they are, since comparisons of them (the largest of a window)
// choose where gradients go.
class RoundingKernels final : public Kernels {
 public:
  RoundingKernels(Kernels& kernels, uint64_t seed) : kernels_(kernels), seed_(seed) {}
  void run(const KernelCall& call) override;
  int64_t live_bytes() const override { return kernels_.live_bytes(); }
  int64_t peak_bytes() const override { return kernels_.peak_bytes(); }
  void reset_peak() override { kernels_.reset_peak(); }

 private:
  Kernels& kernels_;
  uint64_t seed_;
};

}  // namespace partita

// Times one kernel on this machine: warm, alone and with one on each core (FlexFlow section 5.1).
#pragma once
#include <functional>

#include "partita/measure/kernels.h"
#include "partita/runtime/kernel.h"

namespace partita {

struct TimingOptions {
  double seconds = 0.04;  // of each of the two
  int least_runs = 5;
  int cores = 2;  // with which the second is done; 1: it is not
};

// Median and quartiles of the times that `run` takes in each of several threads; run(thread) is called at least
// `least_runs` times in each, and for as long as the options say.
Measured timed(const std::function<void(int thread)>& run, int threads, const TimingOptions& options);

// Throws what the kernel throws.
Measured time_kernel(const KernelToTime& kernel, Kernels& kernels, const TimingOptions& options);

}  // namespace partita

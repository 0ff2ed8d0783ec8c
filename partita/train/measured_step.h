// Measures how long a step of a plan takes on this machine.
#pragma once
#include <atomic>

#include "partita/pipeline/pipeline.h"
#include "partita/runtime/kernel.h"

namespace partita {

struct MeasuredStep {
  double us = 0;         // the median over sets of steps that ran together, as in training; the first is left out
  double spread_us = 0;  // between the quartiles
  int64_t steps = 0;
  double others = 0;  // cores that other programs used meanwhile (base/cpu_use.h)
  Trace trace;        // of a few steps more, if requested
};

// Trains on synthetic samples for about so many seconds.
MeasuredStep measure_step(const Planned& planned, double seconds, bool with_trace, Kernels& kernels,
                          std::atomic<bool>* stop = nullptr);

}  // namespace partita

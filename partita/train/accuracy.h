// Measures how well trained weights classify.
#pragma once
#include "partita/pipeline/pipeline.h"
#include "partita/runtime/kernel.h"
#include "partita/train/dataset.h"

namespace partita {

// Returns the share of labels, among those that count, that belong to the largest output, under the evaluation plan
// that follows from the training plan.
double accuracy(const Planned& planned, const Dataset& data, const Arrays& weights, uint64_t seed, Kernels& kernels);

}  // namespace partita

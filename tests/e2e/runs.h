// Declares runs and checks that the end-to-end tests share.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/kernels/kernels.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"

namespace partita {

// Those of this process.
Kernels& kernels();

// Trains three steps; losses and weights are those of the whole batch on one device.
TrainReport train_as_serial(const Planned& planned, const std::string& text);

// Returns the peaks of a plan in its tightest order, by device: without an overlap budget.
std::vector<int64_t> least_peak_bytes(const Planned& planned);

// Expects measured peaks of at most the planned ones, and at least `part` of those of the tightest order: the overlap
// budget is not always used.
void expect_planned_memory(const TrainReport& report, const Planned& planned, double part);

// max|a - b| / max|b|.
double relative_error(const Values& a, const Values& b);

}  // namespace partita

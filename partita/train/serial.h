// Compares a parallel run with the same training on one device, unsharded.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/runtime/array_file.h"
#include "partita/train/dataset.h"
#include "partita/train/train.h"

namespace partita {

// Errors that are allowed against the serial run. They are of weights and states in float64, and of the first loss in
// float32 and in units of the last place of shorter types (docs/reference/cli.md).
constexpr double kFloat64Tolerance = 1e-10, kFirstLossTolerance = 1e-5, kLowUnits = 2;

struct SerialRun {
  std::vector<double> losses;
  std::map<std::string, Values> weights;
};
// Trains from the weights that the options name.
SerialRun train_serial(const Graph& training, const TrainOptions& options, Kernels& kernels);

// Fills in the three errors of a report. The largest over weight tensors of max|parallel - serial| / max(max|serial|,
// 0.01); losses likewise. A value that is NaN on one side only counts as infinite.
void compare_with(const SerialRun& serial, TrainReport& report);

// Makes the serial run of the data from the weights `start` and compares a report with it. If they differ by more than
// is allowed, measures how much rounding explains.
void verify_serial(const Graph& training, const Dataset& data, const Arrays& start, DType dtype,
                   const TrainOptions& options, Kernels& kernels, TrainReport& report);

// Returns the largest first_loss_error_vs_serial, in a type that is shorter than float64.
double allowed_first_loss(const TrainReport& report, DType dtype);
// Bad input if a compared run differs from the serial one by more than docs/reference/cli.md allows for its dtype.
void check_matches_serial(const TrainReport& report, DType dtype);

}  // namespace partita

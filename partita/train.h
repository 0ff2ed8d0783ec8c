// Running what was planned: training, evaluation, and the comparison with the serial run.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partita/dataset.h"
#include "partita/pipeline.h"
#include "partita/runtime/run.h"

namespace partita {

struct TrainOptions {
  int64_t steps = 0;  // 0: as many as `epochs` passes over the data take, at least one
  double epochs = 1;
  std::string data, test_data;  // .npz; no data: synthetic samples
  std::string weights, save;    // .safetensors; to start from, also several files (WeightFiles)
  bool shuffle = true, verify_serial = false;
  bool trace = false;  // of the first steps
  uint64_t seed = 1;
  std::function<void(int64_t step, int64_t steps, double loss)>
      progress;                                  // after each step, in order; steps: of the whole run
  std::function<void(const std::string&)> note;  // what a user should know of the weights
  std::atomic<bool>* stop = nullptr;             // asked between a few steps
};

// A weight tensor or state whose error against the serial run is above what is allowed.
struct Differing {
  std::string name;
  double error = 0, allowed = 0;
};

struct TrainReport {
  int64_t steps = 0;
  std::vector<double> losses;
  std::optional<double> test_accuracy;
  double samples_per_second = 0;
  std::vector<int64_t> peak_bytes;  // measured, per compute device
  std::optional<double> max_error_vs_serial, max_loss_error_vs_serial, first_loss_error_vs_serial;
  std::optional<double> rounding_error;  // measured where max_error_vs_serial is above kFloat64Tolerance: docs/cli.md
  std::optional<double>
      loss_rounding_error;  // in shorter types, where the first loss differs by more than they are allowed: docs/cli.md
  std::optional<Differing> beyond_rounding;  // then: what rounding does not explain, the worst first
  Trace trace;
  bool interrupted = false;
  std::map<std::string, Values> weights;
};

// Errors that are allowed against the serial run: of weights and states in float64, of the first loss in float32 and in
// units of the last place of shorter types (docs/cli.md).
constexpr double kFloat64Tolerance = 1e-10, kFirstLossTolerance = 1e-5, kLowUnits = 2;

// The same training on one device, unsharded.
struct SerialRun {
  std::vector<double> losses;
  std::map<std::string, Values> weights;
};
SerialRun train_serial(const Graph& training, const TrainOptions& options, Kernels& kernels);
// Fills in the three errors of a report. The largest over weight tensors of max|parallel - serial| / max(max|serial|,
// 0.01); losses likewise. A value that is no number on one side only counts as infinite.
void compare_with(const SerialRun& serial, TrainReport& report);
// What first_loss_error_vs_serial may be, in a type that is shorter than float64.
double allowed_first_loss(const TrainReport& report, DType dtype);
// Bad input where a compared run differs from the serial one by more than docs/cli.md allows for its dtype.
void expect_as_serial(const TrainReport& report, DType dtype);

TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels);

// One forward pass: arrays by input name in, by output name out.
Arrays run_forward(const Graph& forward, const Plan& plan, const Cluster& cluster, const Arrays& inputs,
                   const Arrays& weights, uint64_t seed, Kernels& kernels);

}  // namespace partita

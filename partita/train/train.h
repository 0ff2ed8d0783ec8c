// Trains a planned model.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partita/pipeline/pipeline.h"
#include "partita/runtime/kernel.h"

namespace partita {

struct TrainOptions {
  int64_t steps = 0;  // 0: as many as `epochs` passes over the data take, at least one
  double epochs = 1;
  std::optional<double> seconds;  // in place of both: steps for so long, at least a few
  std::string data, test_data;    // .npz; no data: synthetic samples
  std::string weights, save;      // .safetensors; to start from, also several files (WeightFiles)
  bool shuffle = true, verify_serial = false;
  bool trace = false;  // of the first steps
  uint64_t seed = 1;
  // After each step, in order; `steps` are those of the whole run.
  std::function<void(int64_t step, int64_t steps, double loss)> progress;
  std::function<void(const std::string&)> note;  // facts about the weights for the user
  std::function<void()> before_steps;            // all is read, and the first step begins
  std::atomic<bool>* stop = nullptr;             // looked at after every few steps
};

// A weight tensor or state whose error against the serial run is above the allowed one.
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
  Trace trace;
  bool interrupted = false;
  std::map<std::string, Values> weights;
  // Errors against the serial run (train/serial.h, docs/reference/cli.md).
  std::optional<double> max_error_vs_serial, max_loss_error_vs_serial, first_loss_error_vs_serial;
  std::optional<double> rounding_error;  // measured if max_error_vs_serial is above kFloat64Tolerance
  // Measured in shorter types, if the first loss differs by more than they are allowed.
  std::optional<double> loss_rounding_error;
  std::optional<Differing> beyond_rounding;  // differences that rounding does not explain, the worst first
};

// Trains. With options.verify_serial the report has the errors, which check_matches_serial() (train/serial.h) checks.
// `keep` is called once the steps are made, before anything is compared or tested. It is called also if the weights
// could not be saved, which is bad input afterwards.
TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels,
                  const std::function<void(const TrainReport&)>& keep = nullptr);

}  // namespace partita

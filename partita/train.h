// Running what was planned: training, evaluation, and the comparison with the serial run.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "partita/pipeline.h"
#include "partita/runtime/array_file.h"
#include "partita/runtime/run.h"

namespace partita {

// Samples along axis 0 of arrays named as a graph's inputs.
class Dataset {
 public:
  // Bad input names file and array: an input without one, a wrong shape or dtype, different numbers of samples, a label or
  // token number that the model has no class or row for (index_range).
  static Dataset read(const std::string& path, const Graph& graph);
  // Normal numbers, and integers in index_range (or 0 and 1); a few batches of them.
  static Dataset synthetic(const Graph& graph, uint64_t seed);

  int64_t samples() const { return samples_; }
  const Values& array(const std::string& name) const { return arrays_.at(name); }
  bool has(const std::string& name) const { return arrays_.contains(name); }

 private:
  void check(const Graph& graph, const std::string& origin);
  Arrays arrays_;
  int64_t samples_ = 0;
};

// Which samples each step takes: whole batches of each epoch's order; what is left over joins another epoch's order.
class Batches {
 public:
  Batches(int64_t samples, int64_t batch, uint64_t seed, bool shuffle);
  int64_t per_epoch() const { return samples_ / batch_; }
  const std::vector<int64_t>& order(int64_t epoch);
  std::vector<int64_t> at(int64_t step);

 private:
  int64_t samples_, batch_;
  uint64_t seed_;
  bool shuffle_;
  int64_t known_ = -1;
  std::vector<int64_t> order_;
};

struct TrainOptions {
  int64_t steps = 0;                // 0: as many as `epochs` passes over the data take, at least one
  double epochs = 1;
  std::string data, test_data;      // .npz; no data: synthetic samples
  std::string weights, save;        // .safetensors; to start from, also several files (WeightFiles)
  bool shuffle = true, verify_serial = false;
  bool trace = false;               // of the first steps
  uint64_t seed = 1;
  std::function<void(int64_t step, int64_t steps, double loss)> progress;  // after each step, in order; steps: of the whole run
  std::function<void(const std::string&)> note;  // what a user should know of the weights
  std::atomic<bool>* stop = nullptr;  // asked between a few steps
};

struct TrainReport {
  int64_t steps = 0;
  std::vector<double> losses;
  std::optional<double> test_accuracy;
  double samples_per_second = 0;
  std::vector<int64_t> peak_bytes;  // measured, per compute device
  std::optional<double> max_error_vs_serial, max_loss_error_vs_serial, first_loss_error_vs_serial;
  Trace trace;
  bool interrupted = false;
  std::map<std::string, Values> weights;
};

// The same training on one device, unsharded.
struct SerialRun {
  std::vector<double> losses;
  std::map<std::string, Values> weights;
};
SerialRun train_serial(const Graph& training, const TrainOptions& options, Kernels& kernels);
// Fills in the three errors of a report. The largest over weight tensors of max|parallel - serial| / max(max|serial|, 0.01);
// losses likewise. A value that is no number on one side only counts as infinite.
void compare_with(const SerialRun& serial, TrainReport& report);

// Number of samples in a step.
int64_t batch_of(const Graph& graph);
TrainReport train(const Planned& planned, const TrainOptions& options, Kernels& kernels);

// One forward pass: arrays by input name in, by output name out.
Arrays run_forward(const Graph& forward, const Plan& plan, const Cluster& cluster, const Arrays& inputs, const Arrays& weights, uint64_t seed, Kernels& kernels);

}  // namespace partita

// Estimates the step and the memory of configurations in closed form: nothing as large as the model is planned, lowered
// or simulated. Costs of one layer of each kind, measured once for each of a few degrees (block_costs.h,
// state_costs.h), are added up over stages, micro-batches and replicas.
//
// Example: zoo:llama-3-70b with a batch of 256 on 64 H100, tp 4 x pp 4 x dp 4 with ZeRO-1. The costs of a layer on 4
// devices take 0.1 s. Then each configuration that shares them takes less than a millisecond.
//
//   Estimator estimator(model.forward, model.loss, optimizer, cluster, kBucketBytes);
//   const ConfigurationEstimate estimate = estimator.estimate(configuration);
#pragma once
#include <memory>
#include <vector>

#include "partita/base/watch.h"
#include "partita/estimator/configuration.h"
#include "partita/graph/autodiff.h"

namespace partita {

// The terms of the time until one rank's step is over, and its memory.
struct RankEstimate {
  int64_t compute_ns = 0;    // kernels and communication inside layers, of all micro-batches
  int64_t bubble_ns = 0;     // waiting for other ranks, and for casts and gathers of weights
  int64_t gradients_ns = 0;  // reductions of gradients that the backward pass does not hide
  int64_t update_ns = 0;     // the optimizer
  int64_t memory_bytes = 0;
  int64_t gradient_bytes = 0;  // of it: gradients and their sums
  int64_t states_bytes = 0;    // of it: weights, gradients, optimizer states
};

struct ConfigurationEstimate {
  int64_t step_ns = 0;
  int64_t memory_bytes = 0;  // of the rank that needs most
  std::vector<RankEstimate> ranks;
};

class Estimator {
 public:
  // `forward`: on the whole batch, in its dtypes. Does not apply if the model has no repeated layers, or no samples.
  Estimator(const Graph& forward, const Loss& loss, const Optimizer& optimizer, const Cluster& cluster,
            int64_t bucket_bytes);
  ~Estimator();
  int64_t batch() const;
  int layers() const;
  int experts() const;     // of a layer; 0: it has none
  int64_t tokens() const;  // of a sample; 1: it has none
  // Measures the costs that these configurations need, on two threads. estimate() measures what is missing.
  void prepare(const std::vector<Configuration>& configurations, const Watch& watch);
  // Does not apply, with the rule's reason, if the model or the cluster cannot take a degree.
  ConfigurationEstimate estimate(const Configuration& configuration);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace partita

// Enumerates the configurations that practice uses, and estimates each.
//
// Example: Llama 3 8B with a batch of 64 on 8 devices has tensor parallelism of 1, 2, 4 or 8, with or without sequence
// parallelism; 1 to 8 pipeline ranks of 1, 2 or 4 virtual stages; ZeRO 0 to 3 over the replicas that are left;
// micro-batches of 1, 2, 3, 4, 6, .. samples; four kinds of recomputation: some thousands in all.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/estimator/estimator.h"

namespace partita {

struct EstimatedConfiguration {
  Configuration configuration;
  int64_t step_ns = 0;
  int64_t memory_bytes = 0;  // of the device that needs most
  RankEstimate slowest;      // the terms of the rank that computes longest
  int64_t deficit_bytes(int64_t capacity) const { return std::max<int64_t>(0, memory_bytes - capacity); }
};

struct EstimatedSpace {
  std::vector<EstimatedConfiguration> all;  // those that fit by step, then the others by the memory that they lack
  size_t fitting = 0;                       // so many of them fit
  int64_t capacity_bytes = 0;               // of the device with the least memory
  bool whole = true;                        // false: the time ended before all were estimated
};

// Estimates all configurations on all devices of a cluster, or those of one kind of recomputation. When the watch ends,
// those so far are returned. Tensor parallelism stays
// inside a node; pipelines have ZeRO 0 or 1, as in frameworks. A larger micro-batch is left out if no configuration
// with the one before fits, gradients not counted: all else grows with it. If the watch ends before any is estimated,
// those of one shape after another are, until one fits.
//
// Stages have equal layers. For the fastest pipelines layers are then moved from stage to stage as long as that makes
// the step shorter.
EstimatedSpace estimate_space(Estimator& estimator, const Cluster& cluster, const Watch& watch = {},
                              const std::string& recompute = "");

// Returns a configuration that fits, of those with micro-batches of one sample and layers recomputed, which need least
// memory: the fastest of the first degrees that fit, tensor parallelism over a node first. 2% of the memory stay free.
// None: none fits.
std::optional<EstimatedConfiguration> find_fitting(Estimator& estimator, const Cluster& cluster);

}  // namespace partita

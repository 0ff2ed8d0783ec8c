// Defines the pipeline's result: a model, its plan, and the plan's figures.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partita/physical/breakdown.h"
#include "partita/pipeline/load_model.h"
#include "partita/plan/check.h"
#include "partita/search/search.h"

namespace partita {

struct ConfigurationTable;  // best_configuration.h

// A model, planned, checked, lowered and simulated.
// - After a search that estimates (`search.estimate`) plan, report, physical and predicted are empty, except for the
//   request's fields of the plan.
// - If `representatives` is not empty, the plan is for very many devices; physical and predicted are of these only.
struct Planned {
  Graph forward;  // as loaded
  Loss loss;
  Graph training;      // one step, in micro-batches if there are any (graph/micro_batches.h)
  std::string sha256;  // of the step on the whole batch, before recomputation
  WeightNames weight_names;
  std::optional<OtherBatch> other_batch;
  OnnxFindings findings;
  Cluster cluster;
  Plan plan;
  std::shared_ptr<const Resolved> resolved;  // the plan's; check, lowering, costs and explanations read it
  CheckReport report;
  PhysicalGraph physical;
  Trace predicted;
  // If all micro-batches would take long to lower, `physical` and `predicted` are of the first few, and this is of all
  // (extrapolate_breakdown(), breakdown.h).
  std::optional<StepBreakdown> of_all_micro_batches;
  int lowered_micro_batches = 1;
  std::optional<size_t> order;              // the one that was chosen (schedule/choose_order.h)
  std::vector<int64_t> extrapolated_bytes;  // in peaks, by device, of micro-batches that are not lowered; empty: none
  std::vector<int64_t> least_bytes;  // by device: peak bytes in the order that needs least (schedule/choose_order.h)
  std::vector<DeviceId> representatives;
  SearchResult search;  // counters and notes
  double search_seconds = 0;
  std::shared_ptr<const ConfigurationTable> configurations;  // that were compared; null: none were

  // Tells whether `physical` is all of the step, which can be run.
  bool is_whole() const { return representatives.empty() && !of_all_micro_batches; }

  // Figures of the estimate, if there is one; otherwise of the prediction.

  // Samples a step, all devices together; none: no input has samples along axis 0.
  std::optional<int64_t> batch() const;
  int64_t step_time_ns() const;
  std::optional<double> samples_per_second() const;
  // Model FLOPs utilisation: model_flops() (graph/model_flops.h) over the FLOPs of all devices at their peak in the
  // dtype of training in the time of a step. None for an estimate, or if the peak is not known.
  struct Utilization {
    double model_flops = 0, part = 0;
  };
  std::optional<Utilization> utilization() const;
  // The tokens of a sample, for a model of text: the extent of an integer input [samples, tokens].
  std::optional<int64_t> tokens_per_sample() const;
  int64_t peak_memory_bytes() const;  // of the compute device that needs most
  // The contents of that device's memory at its peak: bytes by kind, largest first, with the sum peak_memory_bytes()
  // (contents_at_peak(), physical/shortage.h). Micro-batches that are not lowered are a kind of their own. Not for an
  // estimate.
  std::vector<std::pair<std::string, int64_t>> peak_memory_contents() const;
  // The least memory of a device with which the plan can run. Not for an estimate.
  int64_t least_memory_bytes() const;
  // The terms of the step's time, on the device that computes longest. Not for an estimate.
  StepBreakdown breakdown() const;
};

}  // namespace partita

// What the pipeline comes to: a model, its plan, and what the plan costs.
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

// A model, planned, checked, lowered and simulated.
// - After a search that estimates (`search.estimate`) plan, report, physical and predicted are empty, but for what the
//   plan was asked of.
// - Of a plan for very many devices (`representatives` is not empty) physical and predicted are of typical devices
// alone.
struct Planned {
  Graph forward;  // as loaded
  Loss loss;
  Graph training;      // one step; where it works on its batch in parts, of one part (graph/micro_batches.h)
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
  // Where all micro-batches would take long to lower, `physical` and `predicted` are of the first few, and this is of
  // all (extended(), breakdown.h).
  std::optional<StepBreakdown> of_all_micro_batches;
  int lowered_micro_batches = 1;
  std::optional<size_t> order;              // the one that was chosen (schedule/choose_order.h)
  std::vector<int64_t> extrapolated_bytes;  // in peaks, by device, of micro-batches that are not lowered; empty: none
  std::vector<int64_t> least_bytes;  // by device: peak bytes in the order that needs least (schedule/choose_order.h)
  std::vector<DeviceId> representatives;
  SearchResult search;  // counters and notes
  double search_seconds = 0;

  // Whether `physical` is all of the step, which can be run.
  bool is_whole() const { return representatives.empty() && !of_all_micro_batches; }

  // Figures of the estimate, where there is one; otherwise of the prediction.

  // Samples a step, all devices together; none: no input has samples along axis 0.
  std::optional<int64_t> batch() const;
  int64_t step_time_ns() const;
  std::optional<double> samples_per_second() const;
  // Model FLOPs utilisation: model_flops() (graph/model_flops.h) over what the devices reach at their peak in the dtype
  // of training in the time of a step. None: of an estimate; or the peak is not known.
  struct Utilization {
    double model_flops = 0, part = 0;
  };
  std::optional<Utilization> utilization() const;
  // Of a model of text: the tokens of a sample, the extent of an integer input [samples, tokens].
  std::optional<int64_t> tokens_per_sample() const;
  int64_t peak_memory_bytes() const;  // of the compute device that needs most
  // The contents of that device's memory at its peak: bytes by kind, largest first, with the sum peak_memory_bytes()
  // (contents_at_peak(), physical/shortage.h). Micro-batches that are not lowered are a kind of their own. Of a plan
  // that is no estimate.
  std::vector<std::pair<std::string, int64_t>> peak_memory_contents() const;
  // With so much memory a device the plan can still run. Of a plan that is no estimate.
  int64_t least_memory_bytes() const;
  // What the step's time is made of, on the device that computes longest. Of a plan that is no estimate.
  StepBreakdown breakdown() const;
};

}  // namespace partita

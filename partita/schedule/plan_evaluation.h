// Evaluates a plan on a cluster: the bytes between devices, the time of a step, the peaks of memory, and the memory
// deficit. Searches, remedies, explanations and the pipeline ask here.
//
// Example: data parallelism on two devices of 16 GB, 3 GB of gradients. evaluate_bytes() has 6 GB (2(p-1)|T| of an
// all-reduce). evaluate_step() has a step of 310 ms and peaks of 18 GB: the deficit is 2 GB, and the plan does not fit.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "partita/base/watch.h"
#include "partita/cluster/memory_deficit.h"
#include "partita/plan/plan.h"

namespace partita {

struct PlanEvaluation {
  std::optional<int64_t> comm_bytes;      // in a step, all devices together; none: not asked
  std::optional<int64_t> step_ns;         // of the simulated step; none: not asked
  std::optional<int64_t> memory_deficit;  // of the fullest device, in bytes; at most 0: it fits; none: not asked
  std::vector<int64_t> peak_bytes;        // by device; 0 for those that are not lowered; empty: not asked

  bool fits() const { return memory_deficit.value_or(0) <= 0; }
  int64_t deficit_bytes() const { return std::max<int64_t>(0, memory_deficit.value_or(0)); }
  int64_t cost() const { return step_ns ? *step_ns : comm_bytes.value(); }  // step time if asked, else bytes
};
// A plan that fits is better than one that does not, next one that lacks less memory, then one of lower cost. Both
// evaluations are of the same kind.
inline bool is_better(const PlanEvaluation& a, const PlanEvaluation& b) {
  return std::pair(a.deficit_bytes(), a.cost()) < std::pair(b.deficit_bytes(), b.cost());
}

// Counts bytes as the checker does. Throws if the plan breaks a rule.
PlanEvaluation evaluate_bytes(const Graph& graph, const Plan& plan, const Cluster& cluster);

// Finds the peaks in the order of the least memory, and the deficit. They are of the devices and micro-batches of
// choose_representatives(), or of `devices` and all micro-batches. `graph`: as for_stages() makes it.
PlanEvaluation evaluate_memory(const Graph& graph, const Plan& plan, const Cluster& cluster, const Watch& watch = {},
                               const std::vector<DeviceId>& devices = {});

// Simulates the step in the chosen order (choose_order.h), with peaks and deficit in that order, of the devices and
// micro-batches of choose_representatives(). Gradients are exchanged in buckets of `bucket_bytes`, or one by one if the
// plan does not fit so. `graph`: the planned step, in micro-batches.
PlanEvaluation evaluate_step(const Graph& graph, const Plan& plan, const Cluster& cluster, int64_t bucket_bytes,
                             const Watch& watch = {});

}  // namespace partita

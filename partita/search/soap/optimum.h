// Finds the plan of a SOAP space with the least simulated time, for small models, by depth-first branch and bound.
// Every plan is looked at, or belongs to a partial plan that cannot beat the best.
//
// Units are decided in their order. A partial plan is bounded by its certain tasks: those of decided ops, and the
// conversions between them. Each begins no earlier than all it waits for ends. An undecided op takes its least time,
// from the first of its inputs to the first of its results. So backward ops of decided units wait for the layers
// between. The bound is the largest of these: the last end; for each queue, any time plus the work of tasks that begin
// on it no earlier. It holds for any order in which tasks come to their queues. (The simulated time of the partial plan
// itself is no bound. With tasks served as they come, more tasks can end sooner, as Graham, Bounds on Multiprocessing
// Timing Anomalies, 1969, showed.)
//
// Devices are not interchangeable here, though they are alike. A set has the block [0, 1, 2, 3] and not [1, 0, 2, 3],
// so renamed devices are not a plan of the space. Nothing is left out for symmetry.
//
// Worked example: three units of 15, 15 and 9 configurations on 4 devices are 2025 plans. Let a plan of 107 us be
// known. The first in one part and the second in one part on another device already take 120 us, with any third. So 9
// plans are excluded at once.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partita/search/soap/unit_tasks.h"

namespace partita {

struct SoapOptimum {
  int64_t ns = 0;
  std::vector<int64_t> numbers;  // by unit; empty: no plan takes less than known_ns
  bool proved = false;           // neither the watch nor the number of nodes has ended it before
  double plans = 0;              // of the space
  int64_t nodes = 0;             // partial and whole plans bounded
  int64_t simulated = 0;         // plans
  double seconds = 0;
};

// `known_ns`: the time of some plan; the smaller, the faster the search. `fits`: whether a plan counts; nothing: the
// search has to end. Without it all plans count.
using PlanFits = std::function<std::optional<bool>(const std::vector<int64_t>& numbers)>;
SoapOptimum soap_optimum(const Problem& problem, const SoapSpace& space, const CostModel& cost, int64_t known_ns,
                         const Watch& watch = {}, int64_t most_nodes = INT64_MAX, const PlanFits& fits = nullptr);

}  // namespace partita

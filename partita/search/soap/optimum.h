// The plan of a SOAP space whose simulated time is the least, for small models: depth-first branch and bound over the
// declared sets. Every plan is looked at, or a part of it is that no plan with it beats.
//
// Units are decided in their order. A part of a plan is bounded by the tasks that it has for certain: those of decided
// ops, and the conversions between them. Each begins no earlier than what it waits for ends. An op that is not decided
// takes as little as it may, from the first of what it reads to the first of what it makes; so backward ops of decided
// units wait for the layers between. The bound is the last end, and for each queue the largest of: a time, and what
// tasks take that begin on it no earlier. It holds for any order in which tasks come to their queues. (The simulated
// time of the part itself is no bound: where tasks are served as they come, more tasks can end sooner, as Graham,
// Bounds on Multiprocessing Timing Anomalies, 1969, showed.)
//
// Devices are not interchangeable here, though they are alike: a set has the block [0, 1, 2, 3] and not [1, 0, 2, 3],
// so that renamed devices are not a plan of the space. Nothing is left out for symmetry.
//
// Worked example: three units of 15, 15 and 9 configurations on 4 devices are 2025 plans. With a plan of 107 us known,
// the first in one part and the second in one part on another device already take 120 us, whatever the third does: 9
// plans are told at once.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partita/search/soap/unit_tasks.h"

namespace partita {

struct SoapOptimum {
  int64_t ns = 0;
  std::vector<int64_t> numbers;  // by unit; empty: no plan takes less than what was known
  bool proved = false;           // neither the watch nor the number of nodes has ended it before
  double plans = 0;              // of the space
  int64_t nodes = 0;             // parts and plans bounded
  int64_t simulated = 0;         // plans
  double seconds = 0;
};

// `known_ns`: what some plan takes, the less the faster. `fits`: whether a plan counts; nothing: the search is to end.
// Without it all plans count.
using PlanFits = std::function<std::optional<bool>(const std::vector<int64_t>& numbers)>;
SoapOptimum soap_optimum(const Problem& problem, const SoapSpace& space, const CostModel& cost, int64_t known_ns,
                         const Watch& watch = {}, int64_t most_nodes = INT64_MAX, const PlanFits& fits = nullptr);

}  // namespace partita

// Shorter schedules of a placement by another order: all as late as it can be, then all as early (double justification:
// Valls, Ballestin and Quintanilla 2005).
//
// From the last operation to end to the first each one, and each transfer, takes the latest gap of its queue; then from
// the first to start to the last the earliest. What nothing waits for so leaves its early place to others.
//
// Example: on gpu0 a (3 ns) and b (2 ns), whose value takes 1 ns to gpu1, where c (4 ns) reads it. In the order a, b, c
// c starts at 6 and the step takes 10. As late as can be a ends at 10 and b at 5: b goes first, and the step takes 7.
#pragma once
#include "partita/device_placement/problem.h"

namespace partita {

// Operations by latest start. `order`: a topological one, whose last operation is the first to take its gap; `made`:
// made_by(problem).
std::vector<int> by_latest_start(const PlacementProblem& problem, const std::vector<std::vector<int>>& made,
                                 const std::vector<int>& device, const std::vector<int>& order);

// A schedule of the same placement that is no longer; again while this makes it shorter. Memory does not count.
PlacedSchedule justified(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita

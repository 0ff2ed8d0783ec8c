// Shortens schedules of a placement by double justification: all as late as possible, then all as early (Valls,
// Ballestin and Quintanilla 2005).
//
// From the last operation to end to the first, each one and each transfer takes the latest gap of its queue. Then, from
// the first to start to the last, each takes the earliest. Operations that nothing waits for so leave their early
// places to others.
//
// Example: on gpu0 a (3 ns) and b (2 ns), whose value takes 1 ns to gpu1, where c (4 ns) reads it. In the order a, b, c
// c starts at 6 and the step takes 10. As late as possible, a ends at 10 and b at 5: b goes first, and the step takes
// 7.
#pragma once
#include "partita/device_placement/problem.h"

namespace partita {

// Returns the operations by latest start. `order` is topological; its last operation takes its gap first. `made` is
// made_by(problem).
std::vector<int> by_latest_start(const PlacementProblem& problem, const std::vector<std::vector<int>>& made,
                                 const std::vector<int>& device, const std::vector<int>& order);

// Returns a schedule of the same placement that is no longer; repeats while this shortens it. Memory does not count.
PlacedSchedule justify_schedule(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita

// Improves a schedule by moves of placement and order, one at a time (our search; Pesto solves a program).
//
// A state is a device for each unit (an operation, or a group) and an order of the operations; its schedule is
// list_schedule() with gaps. The moves are those of moves.h. A move stays if the step is no longer than some moves ago
// (late acceptance: Burke and Bykov 2017). An order by latest start stays if the step is shorter. The best state is
// returned. A memory deficit counts as time (deficit_cost_ns()), twice as much after each twentieth of the moves with a
// deficit.
//
// Example: a chain of four operations that starts on two devices in turn, three transfers; two moves bring all to one.
#pragma once
#include <cstdint>

#include "partita/base/rng.h"
#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct ImproveOptions {
  int64_t changes = 10'000;  // moves to try
  int64_t enough_ns = 0;     // a step that is no longer is enough: a bound
  int late = 50;             // moves ago; more takes more moves, and comes further from a bad start
};

// `start`: a schedule of the problem, or one that would be if devices had more memory. The result has a smaller
// deficit, or the same and is no longer. Returns the best so far when the watch ends.
PlacedSchedule improve_schedule(const PlacementProblem& problem, const PlacedSchedule& start,
                                const ImproveOptions& options, Rng& rng, const Watch& watch);

// Returns the cost (ns) of a memory deficit: four steps for as much as the smallest device has.
double deficit_cost_ns(const PlacementProblem& problem, int64_t end_ns, int64_t over_bytes);

}  // namespace partita

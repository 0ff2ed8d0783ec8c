// Better schedules by changes of placement and order, one at a time (our search, where Pesto solves a program).
//
// A state is a device for each unit (an operation, or a group) and an order of the operations; its schedule is
// list_schedule() with gaps. Changes are those of moves.h. Those are kept that make the step no longer than it was some
// changes ago (late acceptance: Burke and Bykov 2017), of orders by latest start those that make it shorter; the best
// state is returned. What a device lacks of memory counts as time (lacking_cost()), twice as much after each twentieth
// of the changes at which some lacked it.
//
// Example: a chain of four operations that starts on two devices in turn, three transfers; two changes bring all to
// one.
#pragma once
#include <cstdint>

#include "partita/base/rng.h"
#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct ImproveOptions {
  int64_t changes = 10'000;  // that are tried
  int64_t enough_ns = 0;     // a step that is no longer will do: a bound
  int late = 50;             // changes ago; more takes more changes, and comes further from a bad start
};

// `start`: a schedule of the problem, or one that would be if devices had more memory. What comes back lacks less, or
// as much and is no longer. The watch's end ends it with the best so far.
PlacedSchedule improved(const PlacementProblem& problem, const PlacedSchedule& start, const ImproveOptions& options,
                        Rng& rng, const Watch& watch);

// What it counts (ns) that a schedule lacks so much memory: four steps for as much as the smallest device has.
double lacking_cost(const PlacementProblem& problem, int64_t end_ns, int64_t over_bytes);

}  // namespace partita

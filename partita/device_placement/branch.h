// Finds the shortest schedule of a small problem, or a proved bound near it, by branch and bound.
//
// A limit between the bound and the best schedule is tried. Either a schedule ends at the limit or before, or there is
// none and the bound rises. The next limit halves the gap. To decide, classes of operations placed together go on their
// devices one after another. Heads, tails, loads and crossings (windows.h) leave devices out and put operations
// together. If a class has two devices left and one leads to nothing, it goes on the other. Among equal empty devices
// one is tried. A placement that is left is ordered by branches of its own (sequence.h).
//
// Example: two devices, a (3 ns) and b and c (4 and 5 ns), which read a's value, 2 ns on its way. On one device 12 ns;
// with b on the other one 9 ns, and nothing is shorter.
#pragma once
#include <cstdint>

#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct BranchOptions {
  double seconds = 1e6;       // at most; with a limit of nodes alone the result is the same each time
  int64_t nodes = INT64_MAX;  // for placements and orders
  double gap = 0;             // relative: a bound so near to the schedule is enough
};

struct BranchResult {
  PlacedSchedule schedule;  // no longer than the start
  int64_t bound_ns = 0;     // no schedule ends before
  int64_t nodes = 0, order_nodes = 0;
  double seconds = 0;
  bool proved() const { return bound_ns >= schedule.end; }
};

// `start`: a schedule that schedule_error() accepts, of a problem of at most 64 devices. Stops at the watch's end too.
BranchResult branch_and_bound(const PlacementProblem& problem, const PlacedSchedule& start,
                              const BranchOptions& options, const Watch& watch);

}  // namespace partita

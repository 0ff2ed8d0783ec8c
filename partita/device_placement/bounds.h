// Bounds the step time of any schedule of a placement problem from below, for searches and proofs.
//
// Examples: a chain of three operations of 2 ns and one of 4 ns beside it, on two devices: the path is 6 ns, the load
// of 10 ns on two devices 5 ns. No schedule takes less than 6 ns. a and b (3 ns each), which c (1 ns) reads, 2 ns away:
// the path is 4 ns, with heads 6 ns, since c begins at 6 with both on its device and at 5 with one. A chain of four
// operations of 2 ns, 5 ns apart, of which two fit a device: the path is 8 ns, the cut 13.
#pragma once
#include <algorithm>
#include <cstdint>

#include "partita/device_placement/problem.h"

namespace partita {

struct PlacementBounds {
  int64_t load_ns = 0;  // the work of operations that run on the same devices, shared out evenly; the most of any set
  int64_t path_ns = 0;  // the longest path, each operation on its fastest device, without transfers that can be spared
  // The longest path with heads and tails (windows.h). Producers on one device take their times one after another;
  // otherwise their values cross.
  int64_t heads_ns = 0;
  int64_t work_ns = 0;   // the most over heads and tails of the work between, shared out evenly; not below load_ns
  int64_t links_ns = 0;  // the same for values that have to cross, on queues, if no device runs both ends
  // Below it no division is possible. Operations that make a path too long if apart are together, and take too long or
  // too much memory for one device. Or the devices left make another of these bounds too long.
  int64_t cut_ns = 0;
  int64_t ns() const { return std::max({load_ns, path_ns, heads_ns, work_ns, links_ns, cut_ns}); }
};
// For more than 64 devices only load and path.
PlacementBounds placement_bounds(const PlacementProblem& problem);

}  // namespace partita

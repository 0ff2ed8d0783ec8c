// What every schedule of a problem takes at least.
//
// Example: a chain of three operations of 2 ns and one of 4 ns beside it, on two devices: the path is 6 ns, the work of
// 10 ns on two devices 5 ns. No schedule takes less than 6 ns.
#pragma once
#include <algorithm>
#include <cstdint>

#include "partita/placement/problem.h"

namespace partita {

struct PlacementBounds {
  int64_t load_ns = 0;  // the work of operations that run on the same devices, shared out evenly; the most of any set
  int64_t path_ns = 0;  // the longest path, each operation where it is fastest, without transfers that can be spared
  int64_t ns() const { return std::max(load_ns, path_ns); }
};
PlacementBounds placement_bounds(const PlacementProblem& problem);

}  // namespace partita

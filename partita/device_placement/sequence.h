// Decides whether any order of operations and transfers of one placement ends early enough, for branch and bound.
//
// One of any two items on a device or queue is first. Heads and tails follow from the graph and from the decided
// orders, those on one device one after another (Carlier and Pinson 1989). If one order is too long the other is
// decided; if both are there is none. Branches are on the pair with the least time to spare.
//
// Example: on one device a (4 ns) and b (2 ns), on another c (5 ns) and then d (1 ns), which reads b, 1 ns away. With a
// first d ends at 8: to end at 7 or before, b is first, and all ends at 6.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct SequenceResult {
  std::optional<PlacedSchedule> schedule;  // ends at the limit or before
  bool complete = true;                    // without a schedule: whether it is proved that there is none
  int64_t nodes = 0;
};

// Searches orders of a valid placement. Looks at `nodes` nodes at most, and until the watch ends.
SequenceResult find_sequence(const PlacementProblem& problem, const std::vector<int>& device, int64_t limit_ns,
                             int64_t most_nodes, const Watch& watch);

}  // namespace partita

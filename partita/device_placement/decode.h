// Schedules of a placement: when each operation starts, and when each value crosses.
//
// Example: on one device a (4 ns) and b (2 ns); on another c (5 ns) and then d (1 ns), which reads b. In the order a,
// b, c, d the link and d wait for b. In the order b, a, c, d nothing does.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// In the framework's way: a device that is free takes, of the operations whose inputs are there, the one of the lowest
// rank; a link sends what came first, of the same time what an operation of the lowest rank reads. A value is sent as
// soon as it is made. `device` and `rank` are by operation. A device that holds more than a share of its memory,
// `frees_from`, takes first what leaves it no more than it holds; from 1 on none does.
PlacedSchedule first_come(const PlacementProblem& problem, const std::vector<int>& device, const std::vector<int>& rank,
                          double frees_from = 1);

// List scheduling: operations are taken in `order`, each after the producers of what it reads. What it reads is sent,
// and it starts, as early as the queues allow: behind all that they have, or (gaps) also between.
PlacedSchedule list_schedule(const PlacementProblem& problem, const std::vector<int>& device,
                             const std::vector<int>& order, bool gaps);

// By operation: the longest path from its start to the end of the step, with the transfers that the placement needs and
// without waiting (ns).
std::vector<int64_t> tails(const PlacementProblem& problem, const std::vector<int>& device);

// By operation, 0 for the first: longer tails first; of equals the framework's order. A topological order.
std::vector<int> critical_ranks(const PlacementProblem& problem, const std::vector<int>& device);
// The operations by rank.
std::vector<int> by_rank(const std::vector<int>& rank);
// List scheduling with gaps, by critical ranks.
PlacedSchedule by_tails(const PlacementProblem& problem, const std::vector<int>& device);

// A schedule in which each device's operations and each link's transfers are in the same order, and all is as early as
// that allows.
PlacedSchedule pushed_left(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita

// Decodes a placement into a schedule: when each operation starts, and when each value crosses.
//
// Example: on one device a (4 ns) and b (2 ns); on another c (5 ns) and then d (1 ns), which reads b. In the order a,
// b, c, d the link and d wait for b. In the order b, a, c, d nothing does.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/device_placement/problem.h"

namespace partita {

// Schedules in the framework's way. A free device takes the operation of lowest rank among those whose inputs are
// there. A link sends the value that came first, among equal times that read by the lowest rank. A value is sent as
// soon as it is made. `device` and `rank` are by operation. A device that holds more than the share `frees_from` of its
// memory first takes operations that leave it no more than it holds; from 1 on none does.
PlacedSchedule first_come(const PlacementProblem& problem, const std::vector<int>& device, const std::vector<int>& rank,
                          double frees_from = 1);

// List scheduling: takes operations in `order`, each after the producers of its inputs. Its inputs are sent, and it
// starts, as early as the queues allow: behind all that they have, or (gaps) also between.
PlacedSchedule list_schedule(const PlacementProblem& problem, const std::vector<int>& device,
                             const std::vector<int>& order, bool gaps);

// Returns by operation the longest path from its start to the end of the step (ns), with the transfers that the
// placement needs and without waiting.
std::vector<int64_t> tails(const PlacementProblem& problem, const std::vector<int>& device);

// Returns by operation its rank, 0 for the first: longer tails first, equal ones in the framework's order. A
// topological order.
std::vector<int> critical_ranks(const PlacementProblem& problem, const std::vector<int>& device);
// Returns the operations by rank.
std::vector<int> by_rank(const std::vector<int>& rank);
// List scheduling with gaps, by critical ranks.
PlacedSchedule by_tails(const PlacementProblem& problem, const std::vector<int>& device);

// Returns the earliest schedule with the same order on each device and each link.
PlacedSchedule pushed_left(const PlacementProblem& problem, const PlacedSchedule& schedule);

}  // namespace partita

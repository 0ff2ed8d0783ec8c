// Matches the transfers of a plan whose schedule is kept (Plan::transfers) with tasks.
//
// Example: h is made on gpu0 and read on gpu1, whole by b and c, and its first half by d. The list has [h, gpu1, b] and
// [h, gpu1, d]: conversions are named for their first readers. If h is split over devices, each of its shards that goes
// to gpu1 is a task of the same entry.
#pragma once
#include <vector>

#include "partita/physical/physical.h"
#include "partita/plan/plan.h"

namespace partita {

// Returns the transfer that a task on a link's queue does.
PlannedTransfer transfer_of(const Graph& graph, const Task& task);

// Returns, by TaskId, the place in the list; -1 if it is no transfer over a link. Bad input names a transfer that the
// list has and the plan does not make, or one that it lacks.
std::vector<int> transfer_places(const Graph& graph, const PhysicalGraph& physical,
                                 const std::vector<PlannedTransfer>& transfers);

}  // namespace partita

// The transfers of a plan whose schedule is kept (Plan::transfers), and the tasks that they are.
//
// Example: h is made on gpu0 and read on gpu1, whole by b and c, and its first half by d. The list has [h, gpu1, b] and
// [h, gpu1, d]: conversions are named for their first readers. Where h is split over devices, each of its parts that
// goes to gpu1 is a task of the same entry.
#pragma once
#include <vector>

#include "partita/physical/physical.h"
#include "partita/plan/plan.h"

namespace partita {

// What a task on a link's queue moves, and where to.
PlannedTransfer transfer_of(const Graph& graph, const Task& task);

// By TaskId: the place in the list, -1 of what is no transfer over a link. Bad input names a transfer that the list has
// and the plan does not make, or one that it lacks.
std::vector<int> transfer_places(const Graph& graph, const PhysicalGraph& physical,
                                 const std::vector<PlannedTransfer>& transfers);

// All transfers of a lowered plan, in its order: a list that transfer_places() takes.
std::vector<PlannedTransfer> transfers_of(const Graph& graph, const PhysicalGraph& physical);

}  // namespace partita

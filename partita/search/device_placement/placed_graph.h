// A training step as a placement problem (partita/device_placement/problem.h), and the plan of a schedule of it.
//
// The operations are the graph's, and besides: the loading of each input and the taking of each output, on the host,
// and a start of each parameter and state, which is where its update is (one group) and takes a tick. An update comes
// after what reads the old value. Constants are wherever they are read. Durations are those of the step on one device,
// simulated, for each type of device; a transfer takes what the cost model says of the route, on the queue of its
// narrowest link. Operations that read the same part of a tensor read one value, those that read another part another:
// each crosses by itself, as in a lowered plan.
//
// Example: y = x w on two devices, with an update of w. Operations: load x (host), w (with its update, a group), y, the
// update, output y (host). y on gpu1 and w on gpu0: w crosses once. In the plan y's mesh is gpu1, w is kept on gpu0.
#pragma once
#include <string_view>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/device_placement/bounds.h"
#include "partita/device_placement/problem.h"
#include "partita/search/search.h"

namespace partita {

struct PlacedGraph {
  PlacementProblem problem;
  std::vector<int> number;       // by OpId: of problem.ops
  std::vector<OpId> op;          // by number; none: not the graph's
  std::vector<TensorId> value;   // by value of the problem: of what it is all or a part; none: kOrderAlone
  std::vector<int> start;        // by TensorId: of parameters and states the operation that stands for them, else -1
  int64_t one_device_bytes = 0;  // what the step takes on one device
};

// One host, a step on the whole batch, no pins of tensors: then the step is such a problem.
bool can_be_placed(const Problem& problem);

// Parameters and states stay, with an operation that starts them; results are there while they are needed. Infeasible
// where the model is too large to lower.
PlacedGraph placed_graph(const Problem& problem, const CostModel& cost, const Watch& watch);

// What no plan's step is below. The problem has an update wait for readers of the old value on other devices too, which
// read a copy, and its parameters take a tick each to start: these bounds have neither.
PlacementBounds bounds_of_plans(const PlacedGraph& placed);

// For what knows no time: results stay too, of each so large a part that all together are what the step takes on one
// device, since few are there at the same time.
PlacementProblem with_footprints(const PlacedGraph& placed);

// Whole operations where the schedule has them. With `keeps_order` its order of operations and of transfers is in the
// plan, and kept (Plan::transfers); without, what is ready first goes first, in the graph's order.
Plan plan_of(const Problem& problem, const PlacedGraph& placed, const PlacedSchedule& schedule, bool keeps_order,
             std::string_view search);

}  // namespace partita

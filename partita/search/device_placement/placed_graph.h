// Makes the placement problem (partita/device_placement/problem.h) of a training step, and the plan of a schedule of
// it, for searches that place operations whole.
//
// The operations are the graph's, and some more on the host: the loading of each input and the taking of each output.
// Each parameter and state has a start, which is in one group with its update and takes a tick. An update comes after
// the readers of the old value. Constants are on all devices that read them. Durations are those of the step on one
// device, simulated, for each type of device. A transfer takes the cost model's time of the route, on the queue of its
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
  std::vector<OpId> op;          // by number; none: not one of the graph's
  std::vector<TensorId> value;   // by value of the problem: the tensor that it is all or a part of; none: kOrderAlone
  std::vector<int> start;        // by TensorId: the start operation of a parameter or state, else -1
  int64_t one_device_bytes = 0;  // peak of the step on one device
};

// Tells whether the step is such a problem: one host, no micro-batches, no pins of tensors.
bool can_be_placed(const Problem& problem);

// Makes the problem. Parameters and states stay, with an operation that starts them; results are there as long as they
// are needed. Infeasible if the model is too large to lower.
PlacedGraph placed_graph(const Problem& problem, const CostModel& cost, const Watch& watch);

// Returns lower bounds on the step of any plan. In the problem an update waits for readers of the old value on other
// devices too, which read a copy. Its parameters take a tick each to start. These bounds have neither.
PlacementBounds bounds_of_plans(const PlacedGraph& placed);

// Returns the problem for searches without time. Results stay too, each with so large a part that all together are the
// step's bytes on one device, since few are there at the same time.
PlacementProblem with_footprints(const PlacedGraph& placed);

// Returns the plan of a schedule, with whole operations. With `keeps_order` the schedule's order of operations and of
// transfers is in the plan, and kept (Plan::transfers). Without, ready operations go first, in the graph's order.
Plan plan_of(const Problem& problem, const PlacedGraph& placed, const PlacedSchedule& schedule, bool keeps_order,
             std::string_view search);

}  // namespace partita

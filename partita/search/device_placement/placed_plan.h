// A plan of whole operations as a placement of a problem's operations (placed_graph.h).
//
// Example: y = x w with y on gpu1 and w kept on gpu0. The problem's y is on gpu1, what starts w on gpu0, the load of x
// on the host.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/search/device_placement/placed_graph.h"

namespace partita {

// Whether each operation runs whole on one device.
bool runs_ops_whole(const Plan& plan);
// The same, and not all on one.
bool places_whole_ops(const Plan& plan);

struct PlacedPlan {
  std::vector<int> device;  // by operation of the problem
  std::vector<int> order;   // of them: starts and loads, the plan's operations in its order, outputs
};

// Of a plan whose operations are whole. None where one is on a device that cannot run it, which `why` says.
std::optional<PlacedPlan> placed_plan(const PlacedGraph& placed, const Plan& plan, std::string& why);

}  // namespace partita

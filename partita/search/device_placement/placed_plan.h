// Reads a plan of whole operations as a placement of a problem's operations (placed_graph.h).
//
// Example: y = x w with y on gpu1 and w kept on gpu0. The problem's y is on gpu1, the start of w on gpu0, the load of x
// on the host.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/search/device_placement/placed_graph.h"

namespace partita {

// Tells whether each operation runs whole on one device.
bool runs_ops_whole(const Plan& plan);
// Tells whether each operation runs whole on one device, and not all on the same.
bool places_whole_ops(const Plan& plan);

struct PlacedPlan {
  std::vector<int> device;  // by operation of the problem
  std::vector<int> order;   // of the operations: starts and loads, the plan's operations in its order, outputs
};

// Converts a plan whose operations are whole. None if one is on a device that cannot run it, which `why` says.
std::optional<PlacedPlan> placed_plan(const PlacedGraph& placed, const Plan& plan, std::string& why);

}  // namespace partita

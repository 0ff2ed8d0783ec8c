// Lists the alternatives to a plan that places operations whole, for `explain`: each op on each other device.
//
// Example: a (2 ns), b (2 ns) and c (1 ns), which reads both, 5 ns away from each other; all on gpu0: 5 ns. With b on
// gpu1 c would begin at 7: 3 ns more.
#pragma once
#include <optional>
#include <vector>

#include "partita/search/device_placement/placed_graph.h"

namespace partita {

struct PlacedAlternative {
  DeviceId device;
  // The increase of the step in the problem's measure (placed_graph.h), by lists in the plan's order (ns).
  int64_t change_ns = 0;
  int64_t deficit_bytes = 0;  // on the device that would have the largest deficit
};

class PlacedExplainer {
 public:
  // None if the step is not such a problem (several hosts, micro-batches), or an operation runs where it cannot.
  static std::optional<PlacedExplainer> of(const Graph& graph, const Cluster& cluster, const Plan& plan);

  // Returns lower bounds on any schedule of whole operations, whatever it keeps together
  // (partita/device_placement/bounds.h).
  PlacementBounds bounds() const { return bounds_of_plans(placed_); }
  // Returns the graph's operations that stay on the device of this one, itself among them.
  std::vector<OpId> together(OpId op) const;
  // Returns every other device on which it can run, with all that stays with it.
  std::vector<PlacedAlternative> alternatives(OpId op) const;

 private:
  explicit PlacedExplainer(PlacedGraph placed) : placed_(std::move(placed)) {}

  PlacedGraph placed_;
  std::vector<int> device_, order_;  // of the plan, by operation of the problem and by place
  int64_t end_ns_ = 0;               // of its schedule by lists
};

}  // namespace partita

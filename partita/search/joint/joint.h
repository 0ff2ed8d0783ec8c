// Builds the joint sharding problem of a graph on one mesh as one cost network, for exact search. It has every op's
// strategies over all mesh axes at once (op_space.h), and the kept layout of every tensor (tensor_space.h). Its cost is
// the checker's, byte for byte. If the objective is time, it is the ns of all parts one after another (serial_ns,
// partita/cost/isolated_costs.h). Its uses (memory_uses.h) are a part of a device's bytes, so a plan beyond them does
// not fit.
//
// Worked example: x -> matmul with w -> h -> relu -> y on two devices. There are a variable for matmul (i, j, k), one
// for relu (i, j), one for x and one for w (S(0), S(1), B). h has one reader, so it goes straight: an edge joins matmul
// and relu. From k, which leaves P(sum), to i, which reads S(0), its table has a reduce-scatter of |h|.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partita/network/network.h"
#include "partita/search/joint/limits.h"
#include "partita/search/joint/op_space.h"
#include "partita/search/joint/tensor_space.h"
#include "partita/search/search.h"

namespace partita {

struct JointProblem {
  Mesh mesh;
  std::vector<std::shared_ptr<const OpSpace>> ops;  // by OpId
  // By TensorId; null: without a variable, or in the kept layout of the tensor that it replaces.
  std::vector<std::shared_ptr<const TensorSpace>> tensors;
  std::vector<std::shared_ptr<const StraightSpace>> straight;  // by TensorId; null: kept as its producer leaves it
  std::vector<int> op_variable, tensor_variable;               // tensor_variable: -1 if tensors is null
  std::vector<std::vector<int>> resharded_variables;           // by TensorId, one a TensorSpace::resharded
  solver::Network network;                                     // costs in bytes, or ns
  bool leaves_copies_out = false;                              // some that counts_copies would count
  int64_t tensor_entries = 0;                                  // as JointLimits had it
};

// Returns the extents of a mesh of all devices with so many axes, or as many as there are prime factors. Each factor,
// the largest first, goes to the smallest axis. 8 over 3 axes is 2x2x2, over 2 it is 4x2.
std::vector<int> joint_extents(int devices, int axes);
// All devices of a cluster, the slowest links first.
Mesh joint_mesh(const Cluster& cluster, int axes);

// Builds the problem. Domains grow with the power of the number of axes. Empty if the tables would have more entries
// than the limit, or the deadline or the stop comes before they are built. Bad input if a pin is for another mesh or
// does not exist.
std::optional<JointProblem> joint_problem(const Problem& problem, const JointSpace& space,
                                          const JointLimits& limits = {});
Plan plan_of(const JointProblem& joint, const Graph& graph, const solver::Assignment& values);
// Returns a plan's values in the network, as far as the space has them. Its mesh may be another one over the same
// devices in the same order: S(0) on [8] is S(0), S(0) on 4x2. Other variables take cheap values beside these. Empty if
// the space has none of the plan's strategies.
std::optional<solver::Assignment> values_of(const JointProblem& joint, const Graph& graph, const Plan& plan);
// Returns all values if the ops have these, one an op: each tensor takes its cheapest value then.
solver::Assignment with_best_tensors(const JointProblem& joint, const std::vector<int>& op_values);

}  // namespace partita

// The joint sharding problem of a graph on one mesh, as one cost network: every op's strategies over all mesh axes at
// once (op_space.h), and where every tensor is kept (tensor_space.h). Its cost is what the checker counts, byte for
// byte; or, where the problem's objective is time, the ns of all parts one after another (serial_ns,
// partita/cost/alone.h). Its uses (memory_uses.h) are a part of what a device holds, so what they do not allow, no plan
// does.
//
// Worked example: x -> matmul with w -> h -> relu -> y on two devices. There are a variable for matmul (i, j, k), one
// for relu (i, j), one for x and one for w (S(0), S(1), B). h has one reader, so it goes straight: an edge between
// matmul and relu, whose table says that from k, which leaves P(sum), to i, which reads S(0), is a reduce-scatter of
// |h| bytes.
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
  // By TensorId; null: without a variable, or at home as what it replaces.
  std::vector<std::shared_ptr<const TensorSpace>> tensors;
  std::vector<std::shared_ptr<const StraightSpace>> straight;  // by TensorId; null: at home as its producer leaves it
  std::vector<int> op_variable, tensor_variable;               // tensor_variable: -1 where tensors is null
  std::vector<std::vector<int>> brought_variables;             // by TensorId, one a TensorSpace::brought
  solver::Network network;                                     // costs in bytes, or ns
  bool leaves_copies_out = false;                              // some that counts_copies would count
  int64_t tensor_entries = 0;                                  // as JointLimits had it
};

// The extents of a mesh of all devices with so many axes, or as many as there are prime factors: each, the largest
// first, goes to the smallest axis. 8 over 3 axes is 2x2x2, over 2 it is 4x2.
std::vector<int> joint_extents(int devices, int axes);
// All devices of a cluster, the slowest links first.
Mesh joint_mesh(const Cluster& cluster, int axes);

// Domains grow with the power of the number of axes. Empty where the tables would have more entries than the limit, or
// the deadline or the stop comes before they are built. Bad input where a pin is for another mesh or does not exist.
std::optional<JointProblem> joint_problem(const Problem& problem, const JointSpace& space,
                                          const JointLimits& limits = {});
Plan plan_of(const JointProblem& joint, const Graph& graph, const solver::Assignment& values);
// A plan in the network's values: what it says, where the space has that. Its mesh may be another one over the same
// devices in the same order: S(0) on [8] is S(0), S(0) on 4x2. Everything else is as is cheap beside that. Empty where
// the space has none of its strategies.
std::optional<solver::Assignment> values_of(const JointProblem& joint, const Graph& graph, const Plan& plan);
// The other variables' values where the ops have these, one an op: each tensor where it costs least then.
solver::Assignment with_best_tensors(const JointProblem& joint, const std::vector<int>& op_values);

}  // namespace partita

// The joint sharding problem of a graph on one mesh: every op's strategies over all mesh axes at once, and where every tensor is
// kept, as one cost network. Its cost is what the checker counts, byte for byte; its uses are a part of what a device holds, so
// that what they do not allow, no plan does.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "partita/network/network.h"
#include "partita/search/search.h"

namespace partita {

// What an op may do, one entry a value of its variable; ops of one formula share it. Every strategy that divides the op's work on
// every mesh axis: bytes are what is counted, and replicated work moves none. On an axis where nothing divides it, it is
// replicated; element-wise ops may also pass partial values on.
struct OpSpace {
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // per value, one a mesh axis
  std::vector<OpLayouts> layouts;                          // per value
  std::vector<int64_t> inner_bytes;                        // per value
};

// Where a tensor may be, one entry a value of its variable. A conversion to one layout is made once for all its readers, so a value
// says into which layouts, besides its home, it is brought for several readers together.
struct TensorSpace {
  struct Value {
    int home = 0;            // in layouts
    std::vector<int> also;   // in layouts; ascending
  };
  std::vector<Layout> layouts;  // homes, and what readers want
  std::vector<Value> values;
};

struct JointProblem {
  Mesh mesh;
  std::vector<std::shared_ptr<const OpSpace>> ops;          // by OpId
  std::vector<std::shared_ptr<const TensorSpace>> tensors;  // by TensorId; null: at home as its producer leaves it, or as what it replaces
  std::vector<int> op_variable, tensor_variable;            // tensor_variable: -1 where tensors is null
  solver::Network network;                                  // costs in bytes
  // Tensors whose readers could share more layouts than a value names: there the network may count a conversion twice.
  std::vector<TensorId> counted_above;
};

struct JointLimits {
  int64_t tensor_values = 2048;  // of one tensor's variable
};

// The mesh: at most two axes, their extents as near to each other as can be, the larger first, the slowest links first: domains grow
// with the power of the number of axes. Bad input where a pin is for another mesh or does not exist.
JointProblem joint_problem(const Problem& problem, const JointLimits& limits = {});
Plan plan_of(const JointProblem& joint, const Graph& graph, const solver::Assignment& values);

}  // namespace partita

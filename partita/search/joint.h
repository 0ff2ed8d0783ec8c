// The joint sharding problem of a graph on one mesh: every op's strategies over all mesh axes at once, and where every
// tensor is kept, as one cost network. Its cost is what the checker counts, byte for byte; or, where the problem's
// objective is time, the ns of all parts one after another (serial_ns, partita/cost/alone.h). Its uses are a part of
// what a device holds, so that what they do not allow, no plan does.
#pragma once
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partita/network/network.h"
#include "partita/search/search.h"

namespace partita {

// What an op may do, one entry a value of its variable; ops of one formula share it. Every strategy that divides the
// op's work on every mesh axis; element-wise ops may also pass partial values on. In bytes, replicated work costs
// nothing: there it is offered on an axis only where nothing divides it. In time it costs what it takes, and is always
// offered.
struct OpSpace {
  std::vector<std::vector<tdl::AxisStrategy>> strategies;  // per value, one a mesh axis
  std::vector<OpLayouts> layouts;                          // per value
  std::vector<int64_t> costs;                              // per value: its inner conversions; in time its kernels too
};

// Where a tensor may be, one entry a value of its variable. A conversion to one layout is made once for all its
// readers, so a value says into which layouts, besides its home, it is brought for several readers together; where
// those sets are too many, each such layout has a variable of its own instead.
struct TensorSpace {
  struct Value {
    int home = 0;           // in layouts
    std::vector<int> also;  // in layouts; ascending
  };
  // Whether the tensor is brought into a layout for readers of the backward pass, and for others; for both that is
  // once, and then its copy lies on the last device in between, or once for each.
  struct Way {
    bool others = false, backward = false, once = false;
    int64_t elements = 0;  // once: what the copy takes there beyond the home; homes that say otherwise are forbidden
  };
  struct Brought {
    int layout = 0;         // in layouts
    std::vector<Way> ways;  // one a value of its variable; the first: not at all
  };
  std::vector<Layout> layouts;  // homes, and what readers want
  std::vector<Value> values;
  std::vector<Brought> brought;  // the layouts with variables of their own; ascending
};

// A tensor without a variable, from each value of the op that makes it to each of the one that reads it. In bytes no
// way is cheaper than the straight one; in time the tensor may be kept in a layout on the way.
struct StraightSpace {
  std::vector<Layout> layouts;
  std::vector<int> homes;  // row-major; in layouts, -1: kept as it was made
};

struct JointProblem {
  Mesh mesh;
  std::vector<std::shared_ptr<const OpSpace>> ops;  // by OpId
  std::vector<std::shared_ptr<const TensorSpace>>
      tensors;  // by TensorId; null: without a variable, or at home as what it replaces
  std::vector<std::shared_ptr<const StraightSpace>> straight;  // by TensorId; null: at home as its producer leaves it
  std::vector<int> op_variable, tensor_variable;               // tensor_variable: -1 where tensors is null
  std::vector<std::vector<int>> brought_variables;             // by TensorId, one a TensorSpace::brought
  solver::Network network;                                     // costs in bytes, or ns
  bool leaves_copies_out = false;                              // some that counts_copies would count
  int64_t tensor_entries = 0;                                  // as JointLimits had it
};

// What the network chooses from.
struct JointSpace {
  Mesh mesh;
  // By OpId, what an op may do, one strategy a mesh axis; empty: everything that divides its work. What does not exist
  // is passed over.
  std::vector<std::vector<std::vector<tdl::AxisStrategy>>> strategies;
};

// What conversions cost, bytes or ns, remembered from one joint problem to the next of the same objective and cluster.
// Not thread-safe.
class JointCosts;
std::shared_ptr<JointCosts> joint_costs(const Problem& problem);

struct JointLimits {
  int64_t tensor_values = 1 << 17;  // of one tensor's variable, as long as its homes allow
  static constexpr int64_t kEntries = 1 << 24, kManyEntries = 1 << 26;
  int64_t tensor_entries = kEntries;  // of the tables at one tensor's variable, likewise; kManyEntries: for a bound
  int64_t entries = std::numeric_limits<int64_t>::max();  // of the tables of all edges
  // Where layouts have variables of their own: whether copies that lie from the forward to the backward pass are
  // counted among the uses, and may be made again instead. It makes the tables of these variables several times as
  // large, and bounds weaker in the same time.
  bool counts_copies = false;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* stop = nullptr;
  std::shared_ptr<JointCosts> costs = nullptr;  // null: its own
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
// A plan in the network's values: what it says, where the space has it on this mesh or on another one over the same
// devices in the same order (S(0) on [8] is S(0), S(0) on 4x2); everything else as is cheap beside that. Empty where
// the space has none of its strategies.
std::optional<solver::Assignment> values_of(const JointProblem& joint, const Graph& graph, const Plan& plan);
// The other variables' values where the ops have these, one an op: each tensor where it costs least then.
solver::Assignment with_best_tensors(const JointProblem& joint, const std::vector<int>& op_values);

}  // namespace partita

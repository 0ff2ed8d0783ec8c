// Plans made by a rule: the published baselines. Each is a plan that a search could return, made without searching.
// They throw where the watch ends.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "partita/base/watch.h"
#include "partita/plan/constraints.h"
#include "partita/plan/plan.h"

namespace partita {

// Everything on the first device.
Plan single_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {},
                 const Watch& watch = {});

// Every op that sees samples is split along them, all others are replicated; parameters are kept whole everywhere
// (SoyBean section 4.1's T_data). Infeasible where there are fewer samples than devices.
Plan data_parallel_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {},
                        const Watch& watch = {});

// Pinned choices, and for all others data parallelism where there are samples enough, else replication.
Plan filled_in_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints,
                    const Watch& watch = {});

// SoyBean section 4.1's T_model, for any operation with a parameter: the parameter's contracted dimension is split; if
// there is none, or it is shorter than the device count, its output dimension; else the op is replicated. Its backward
// ops split the same index. Results that come out partial are kept split along the parameter's output dimension. Every
// other op takes the strategy whose operands are cheapest to bring, splits before replication.
Plan model_parallel_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {},
                         const Watch& watch = {});

// One weird trick (Krizhevsky 2014): convolutions are split along samples, fully connected layers along their units.
// Ops between them take the strategy that moves least. Infeasible where there are fewer samples than devices.
Plan owt_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {}, const Watch& watch = {});

// Groups of devices, the innermost first: `tensor` devices split the layers of a transformer (Megatron-LM), `expert`
// such groups the experts, and what is left shares the samples: mesh [data, expert, tensor] without axes of one
// position.
struct GroupsOf {
  int tensor = 1;
  int expert = 1;
  bool sequence = false;  // what tensor parallelism leaves whole is split along the sequence over the tensor groups
  // ZeRO's stage over the devices that share samples; 0: none, 1: states and master copies are kept split, 2: gradients
  // too, 3: parameters too, which are gathered again for the backward pass. A tensor without a free axis as long as
  // there are such devices is kept whole. Stage 1 has all gradients until the backward pass is over.
  int zero = 0;
  // Stage 3: parameters are gathered once a step and kept until its end, not for each pass and part of the batch. In
  // other stages they are whole in any case.
  bool gathers_once = false;
};
// Example, 16 devices with tensor 4 and zero 1: four groups of four. In a group each device has a quarter of the heads
// and of the feed-forward part; over the groups samples are split, and of its quarter each device keeps a quarter of
// the states. `rule`: its name in messages. Infeasible where the degrees do not divide the devices or the heads, where
// nothing can be split so, or where there are fewer samples than data x expert.
Plan groups_plan(const std::string& rule, const Graph& graph, const Cluster& cluster, const GroupsOf& of,
                 const Constraints& constraints = {}, const Watch& watch = {});
// Devices of a node: of one host, or of nodes of several sizes their common divisor; where every device is a host of
// its own, all.
int node_size(const Cluster& cluster);
// The divisor of a node's devices at which tensor parallelism splits most bytes of weights, of those that split heads
// evenly; of equal ones the largest.
int tensor_degree(const Graph& graph, const Cluster& cluster);

// The indices along which an op sees samples, from its tensors' sample axes: one, or those of the axis's factors, the
// most significant first; empty where it sees none.
std::vector<std::string> sample_indices(const Graph& graph, const Op& op);

// The strategies of one op on an axis of p positions that a plan may take: index names no shorter than p, partial,
// replicate.
std::vector<tdl::AxisStrategy> allowed_strategies(const Op& op, int p);
// Whether no index is split into more parts than it has values, over mesh axes of these extents.
bool has_values_for(const tdl::Bound& bound, const std::vector<int>& extents,
                    const std::vector<tdl::AxisStrategy>& strategies);

}  // namespace partita

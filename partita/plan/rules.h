// Makes plans by a rule: the published baselines. Each is a plan that a search could return, made without searching.
// They throw when the watch ends.
#pragma once
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "partita/base/watch.h"
#include "partita/plan/constraints.h"
#include "partita/plan/plan.h"

namespace partita {

// Places everything on the first device.
Plan single_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {},
                 const Watch& watch = {});

// Splits every op that sees samples along them, and replicates all others. Parameters are kept whole everywhere
// (SoyBean section 4.1's T_data). Infeasible if there are fewer samples than devices.
Plan data_parallel_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {},
                        const Watch& watch = {});

// Takes pinned choices, and for all others data parallelism if there are samples enough, else replication.
Plan filled_in_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints,
                    const Watch& watch = {});

// SoyBean section 4.1's T_model, for any operation with a parameter. It splits the parameter's contracted dimension. If
// there is none, or it is shorter than the device count, it splits its output dimension; else it replicates the op. Its
// backward ops split the same index. Results that come out partial are kept split along the parameter's output
// dimension. Every other op takes the strategy whose operands are cheapest to bring, splits before replication.
Plan model_parallel_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {},
                         const Watch& watch = {});

// One weird trick (Krizhevsky 2014): splits convolutions along samples, fully connected layers along their units. Ops
// between them take the strategy that moves least. Infeasible if there are fewer samples than devices.
Plan owt_plan(const Graph& graph, const Cluster& cluster, const Constraints& constraints = {}, const Watch& watch = {});

// Sizes of groups of devices, the innermost first. `tensor` devices split the layers of a transformer (Megatron-LM),
// `context` such groups split the sequence, `expert` of these split the experts, and the rest split the samples. The
// mesh is [data, expert, context, tensor] without axes of one position.
struct GroupsOf {
  int tensor = 1;
  int context = 1;
  int expert = 1;
  bool sequence =
      false;  // activations that tensor parallelism leaves whole are split along the sequence over the tensor groups
  // ZeRO's stage over the devices that split samples or the sequence. 0: none. 1: states and master copies are kept
  // split. 2: gradients too. 3: parameters too, which are gathered again for the backward pass. A tensor without a free
  // axis as long as there are such devices is kept whole. Stage 1 has all gradients until the backward pass is over.
  int zero = 0;
  // Stage 3: parameters are gathered once a step and kept until its end, not for each pass and micro-batch. In other
  // stages they are whole in any case.
  bool gathers_once = false;
};
// Example, 16 devices with tensor 4 and zero 1: four groups of four. In a group each device has a quarter of the heads
// and of the feed-forward layer. Over the groups samples are split, and each device keeps a quarter of its quarter's
// states. `rule`: its name in messages. Infeasible if the degrees do not divide the devices, the heads or the sequence,
// or if nothing can be split so. It is infeasible too with fewer samples than data x expert.
Plan groups_plan(const std::string& rule, const Graph& graph, const Cluster& cluster, const GroupsOf& of,
                 const Constraints& constraints = {}, const Watch& watch = {});
// Tells whether the product of the degrees divides the devices.
bool divide(int devices, std::initializer_list<int> degrees);
// Returns the devices of a node: those of one host, or the common divisor of nodes of several sizes. If every device
// has a host of its own, all.
int node_size(const Cluster& cluster);
// Returns the divisor of a node's devices at which tensor parallelism splits most bytes of weights. Only those that
// split heads evenly count; among equal ones it is the largest.
int tensor_degree(const Graph& graph, const Cluster& cluster);

// Returns the indices along which an op sees samples, from its tensors' sample axes. There is one, or those of the
// axis's factors, the most significant first. It is empty if the op sees none.
std::vector<std::string> sample_indices(const Graph& graph, const Op& op);

// Returns the strategies of one op on an axis of p positions that a plan may take: index names no shorter than p,
// partial, replicate.
std::vector<tdl::AxisStrategy> allowed_strategies(const Op& op, int p);
// Tells whether no index is split into more shards than it has values, over mesh axes of these extents.
bool has_values_for(const tdl::Bound& bound, const std::vector<int>& extents,
                    const std::vector<tdl::AxisStrategy>& strategies);

}  // namespace partita

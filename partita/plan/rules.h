// Plans made by a rule: the published baselines. Each is what a search could return, made without searching.
#pragma once
#include <string_view>
#include <vector>

#include "partita/plan/plan.h"

namespace partita {

// Everything on the first device.
Plan single_plan(const Graph& graph, const Cluster& cluster, const Pins& pins = {});

// Every op that sees samples is split along them, all others are replicated; parameters are kept whole everywhere
// (SoyBean section 4.1's T_data). Infeasible where there are fewer samples than devices.
Plan data_parallel_plan(const Graph& graph, const Cluster& cluster, const Pins& pins = {});

// SoyBean section 4.1's T_model, for any operation with a parameter: the parameter's contracted dimension is split; if there
// is none, or it is shorter than the device count, its output dimension; else the op is replicated. Its backward ops split
// the same index. Results that come out partial are kept split along the parameter's output dimension. Every other op takes
// the strategy whose operands are cheapest to bring, splits before replication.
Plan model_parallel_plan(const Graph& graph, const Cluster& cluster, const Pins& pins = {});

// The indices along which an op sees samples, from its tensors' sample axes: one, or those of the axis's factors, the most significant
// first; empty where it sees none.
std::vector<std::string> sample_indices(const Graph& graph, const Op& op);

// The strategies of one op on an axis of p positions that a plan may take: index names no shorter than p, partial, replicate.
std::vector<tdl::AxisStrategy> allowed_strategies(const Op& op, int p);

}  // namespace partita

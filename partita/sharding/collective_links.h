// Finds the links that a collective of some devices uses.
#pragma once
#include <vector>

#include "partita/cluster/group.h"
#include "partita/sharding/step.h"

namespace partita {

// The links of a collective. An all-to-all uses the routes between all pairs. Others use the rings, or the pairs'
// routes too if every device has a direct library (cluster/direct.h).
GroupLinks collective_links(const Cluster& cluster, StepKind kind, std::vector<DeviceId> devices);

// Returns by ring how many of these rings of one collective pass over a link that it keeps busy, itself counted.
// Example: 8 rings of two devices, each from one node to the other over the nodes' only port: 8 for each.
std::vector<int> ring_sharers(const Cluster& cluster, StepKind kind, const std::vector<std::vector<DeviceId>>& rings);

}  // namespace partita

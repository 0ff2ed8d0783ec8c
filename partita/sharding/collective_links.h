// Finds the links that a collective of some devices uses.
#pragma once
#include <vector>

#include "partita/cluster/group.h"
#include "partita/sharding/step.h"

namespace partita {

// The links of a collective. An all-to-all uses the routes between all pairs. Others use the rings, or the pairs'
// routes too if every device has a direct library (cluster/direct.h).
GroupLinks collective_links(const Cluster& cluster, StepKind kind, std::vector<DeviceId> devices);

}  // namespace partita

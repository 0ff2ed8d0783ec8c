// The links that a collective of some devices uses.
#pragma once
#include <vector>

#include "partita/cluster/group.h"
#include "partita/sharding/step.h"

namespace partita {

// Of an all-to-all the routes between all pairs. Of the others the rings, or those routes too where every device has a
// direct library (cluster/direct.h).
GroupLinks collective_links(const Cluster& cluster, StepKind kind, std::vector<DeviceId> devices);

}  // namespace partita

// Groups devices by node: the devices that one host feeds. A device without a host is a node of its own.
#pragma once
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

// Groups these devices by node. Each node's devices ascend; the node of the lowest device comes first.
std::vector<std::vector<DeviceId>> group_by_node(const Cluster& cluster, std::vector<DeviceId> devices);

}  // namespace partita

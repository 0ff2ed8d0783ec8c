// Nodes: the devices that one host feeds. A device without a host is a node of its own.
#pragma once
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

// These devices by node: each node's ascending, the node of the lowest device first.
std::vector<std::vector<DeviceId>> by_node(const Cluster& cluster, std::vector<DeviceId> devices);

}  // namespace partita

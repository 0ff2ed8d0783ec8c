// Finds the links that collectives use, with direct libraries too. A direct library has no rings: its rows in the
// cluster file are all pairwise (library.h), and data goes straight from device to device.
//
// Example: an all-reduce of 64 MB on 8 devices. Each part of 8 MB belongs to one device, which gets 7 terms of it and
// sends the sum to 7 others. Each device sends 112 MB, as in a ring, but over its routes to all of them.
#pragma once
#include <vector>

#include "partita/cluster/group.h"

namespace partita {

// True if every one of these devices has a direct library.
bool are_direct(const Cluster& cluster, const std::vector<DeviceId>& devices);

// Finds the links that all-reduces, all-gathers and reduce-scatters of these devices use. If every device has a direct
// library, they are the routes between all pairs, otherwise the rings.
GroupLinks reduction_links(const Cluster& cluster, std::vector<DeviceId> devices);

}  // namespace partita

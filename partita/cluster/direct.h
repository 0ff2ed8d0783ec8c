// Libraries without rings: every collective goes straight from device to device (library.h). Such a library has
// pairwise rows alone; in the cluster file they are called direct.
//
// Example: an all-reduce of 64 MB on 8 devices. Each part of 8 MB belongs to one device, which gets 7 terms of it and
// sends the sum to 7 others: each device sends 112 MB, as in a ring, but over its routes to all of them.
#pragma once
#include <vector>

#include "partita/cluster/group.h"

namespace partita {

// True if every one of these devices has a direct library.
bool are_direct(const Cluster& cluster, const std::vector<DeviceId>& devices);

// The links that all-reduces, all-gathers and reduce-scatters of these devices use: the routes between all pairs if
// every device has a direct library, otherwise the rings.
GroupLinks reduction_links(const Cluster& cluster, std::vector<DeviceId> devices);

}  // namespace partita

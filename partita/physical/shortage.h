// What fills a device's memory, and the message where it is too small.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// At the place of `order` where what lives on the device has most bytes: how many of them are of what, largest first
// ("weights", "gradients", "optimizer states", "activations", "inputs and constants", "communication buffers",
// "workspaces", "gaps between them"). Their sum is the device's peak. `graph`: what was lowered.
std::vector<std::pair<std::string, int64_t>> contents_at_peak(const Graph& graph, const PhysicalGraph& physical,
                                                              DeviceId device);

// Throws infeasible where a device's peak is beyond its memory: how many devices, what one needs, has and misses, and
// what its memory is made of; one line, of the device that lacks most.
void check_capacity(const Graph& graph, const PhysicalGraph& physical, const Cluster& cluster);

}  // namespace partita

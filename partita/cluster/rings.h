// Finds disjoint rings over the wires of a node. Internal to cluster/.
//
// Example: three devices, two wires between each two, one each way: wires is {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}. Two
// rings have no wire in common: 0 1 2 and 0 2 1.
#pragma once
#include <vector>

namespace partita {

// Returns as many rings through all devices as the wires carry at once: at most wires[i][j] rings go from i to j. Each
// ring is the devices in order, from 0 on. Empty if there is no ring. The search ends after a fixed number of tries
// with the most rings found by then.
std::vector<std::vector<int>> disjoint_rings(std::vector<std::vector<int>> wires);

}  // namespace partita

// Internal to cluster/: rings over the wires of a node.
//
// Example: three devices, two wires between each two, one each way: wires is {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}. Two
// rings have no wire in common: 0 1 2 and 0 2 1.
#pragma once
#include <vector>

namespace partita {

// As many rings through all devices as the wires carry at once: wires[i][j] rings at most go from i to j. Each is the
// devices in order, from 0 on. None where no ring is. The search ends after a fixed number of tries, with the most
// that it has found by then.
std::vector<std::vector<int>> disjoint_rings(std::vector<std::vector<int>> wires);

}  // namespace partita

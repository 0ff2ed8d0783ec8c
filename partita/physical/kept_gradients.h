// The registers of gradients that are kept until the last update on their device (graph/kept_gradients.h): those that
// the updates read. What a gradient was before, on its way there (terms of a sum, all of what is then split), is not.
#pragma once
#include <vector>

#include "partita/physical/uses.h"

namespace partita {

std::vector<char> kept_gradient_registers(const PhysicalGraph& graph);  // by register: it is kept

struct KeptGradients {
  std::vector<char> registers;            // as kept_gradient_registers() says
  std::vector<std::vector<int>> updates;  // by device: the nodes, by number, that read these registers

  bool has(RegisterId r) const { return registers[r.index()] != 0; }
};
KeptGradients kept_gradients(const PhysicalGraph& graph, const NodeTable& table);

// By device: the place of its last update; -1: nothing is kept there.
std::vector<int> last_updates(const KeptGradients& kept, const std::vector<int>& place);

}  // namespace partita

// Finds the registers of gradients that are kept until the last update on their device (graph/kept_gradients.h): those
// that the updates read. A gradient's earlier forms (terms of a sum, a whole that is split later) are not kept.
#pragma once
#include <algorithm>
#include <vector>

#include "partita/physical/uses.h"

namespace partita {

std::vector<char> kept_gradient_registers(const PhysicalGraph& graph);  // by register: it is kept

struct KeptGradients {
  std::vector<char> registers;            // as kept_gradient_registers() says
  std::vector<std::vector<int>> updates;  // by device: the nodes, by number, that read these registers
};
KeptGradients kept_gradients(const PhysicalGraph& graph, const NodeTable& table);

// The end of kept gradients' lives. It is that of the last such update on their device, in the caller's measure (places
// in an order, ns of a step). Every count of bytes asks this.
template <typename Time>
class KeptUntil {
 public:
  // end_of(node, device): the end of a node, by number, on a device. `none`: what of() returns for all other uses;
  // before every end.
  template <typename EndOf>
  KeptUntil(const PhysicalGraph& graph, const KeptGradients& kept, Time none, const EndOf& end_of)
      : graph_(graph), kept_(kept.registers), updated_(kept.updates.size(), none), none_(none) {
    for (std::size_t d = 0; d < updated_.size(); ++d)
      for (const int update : kept.updates[d]) updated_[d] = std::max<Time>(updated_[d], end_of(update, DeviceId(d)));
  }
  Time of(const Use& use) const {
    return kept_[use.reg.index()] ? updated_[graph_.reg(use.reg).device.index()] : none_;
  }

 private:
  const PhysicalGraph& graph_;
  std::vector<char> kept_;     // by register
  std::vector<Time> updated_;  // by device
  Time none_;
};

}  // namespace partita

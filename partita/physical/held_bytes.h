// Says for how long the bytes that a node reads and writes on a device are held, in places of the order. Orders with an
// overlap budget give this to the memory planner (schedule/overlap_budget.h, schedule/by_time.h).
#pragma once
#include <functional>
#include <vector>

#include "partita/physical/uses.h"

namespace partita {

struct HeldBytes {
  DeviceId device;
  int from = 0, until = 0;
};
// By place in the order. Bytes of nodes that are not in it are held for the node's own place. Empty: all are.
using Held = std::vector<std::vector<HeldBytes>>;
HeldBytes held_at(const Held& held, int place, DeviceId device);

// Finds held bytes of a graph that has its order.
using HoldBytes = std::function<Held(const PhysicalGraph&, const NodeTable&)>;

}  // namespace partita

// Room between collectives of parameters and the work around them, so that they run beside it.
//
// A gather of a weight stands a stretch before its reader in the order, so that it is under way while the ops between
// run. A collective stands in the order where it begins; its bytes are given to others a stretch behind that place.
// What is put there then need not wait for it. A stretch is a part of the time that the kernels of a micro-batch's
// passes take on a device.
//
// Example: ops 0 .. 7 of 1 ms each, and stretches of 2 ms. The gather for op 5 stands before op 3. The bytes of a
// gradient that op 5 makes, whose reduction stands behind op 5, are free behind op 7.
#pragma once
#include <vector>

#include "partita/physical/physical.h"
#include "partita/physical/uses.h"

namespace partita {

struct Room {
  double stretch_s = 0;         // 0: none
  std::vector<double> seconds;  // by TaskId: of kernels, alone
  std::vector<int> ahead;       // by place of an op: the place before which a gather for it stands
};

// Stretches of `part` of a micro-batch's passes. `places` is the order of the ops, by OpId; empty: the graph's own.
Room room_of(const PhysicalGraph& graph, const Cluster& cluster, double part, const std::vector<int>& places);

// Whether there is anything to leave room for.
bool wants_room(const PhysicalGraph& graph);

// For how long the bytes that a node reads and writes on a device are its own: up to a place in `order`.
struct HeldBytes {
  DeviceId device;
  int until = 0;
};
// By place in `order`. Of collectives of parameters, and of what waits for the reductions among them; bytes of all
// others are held for the node's own place. Empty where there is no room.
using Held = std::vector<std::vector<HeldBytes>>;
Held held_bytes(const PhysicalGraph& graph, const NodeTable& table, const Room& room);
int until(const Held& held, int place, DeviceId device);

}  // namespace partita

// Room between communication and the work around it, so that they run beside each other.
//
// A gather of a weight stands ahead of its reader in the order, so that it is under way while the ops between run. A
// collective or transfer stands in the order where it begins; its bytes are given to others behind work that takes as
// long as it and what is queued before it. What is put there then need not wait for it. What a transfer writes is its
// own as long before its place, since it may begin before its reader is next.
//
// Example: ops 0 .. 7 of 1 ms each, and collectives of parameters of 2 ms. The gather for op 5 stands before op 3. The
// bytes of a gradient that op 3 makes, whose reduction stands behind op 3, are free behind op 5; those of one that op 4
// makes, whose reduction begins then, behind op 7.
#pragma once
#include <vector>

#include "partita/physical/physical.h"
#include "partita/physical/uses.h"

namespace partita {

// About, in seconds, by TaskId.
struct RoughTimes {
  std::vector<double> kernels;  // of the forward and backward pass, at their device's peaks
  std::vector<double> beside;   // of what is to run beside them (below), at the peaks of its links; 0 of all else
};
// Collectives of parameters run beside kernels; with `transfers` those of micro-batches too, as between the stages of a
// pipeline; and where there are any, outputs to a host.
RoughTimes rough_times(const PhysicalGraph& graph, const Cluster& cluster, bool transfers);

// What a ring of devices takes for the bytes that each sends, about.
struct RingTime {
  double hops_s = 0, a_byte_s = 0;
};
RingTime ring_time(const Cluster& cluster, const std::vector<DeviceId>& group);

// What is left beyond the rough times, as a part of the kernels of a micro-batch: links reach less than their peaks,
// and gathers and reductions of one device wait for each other. Without it 8B with ZeRO-3 on 64 H100 takes 2% longer.
constexpr double kSparePart = 1.0 / 64;

struct Room {
  double most_s = 0;   // for one collective or transfer; 0: there is none
  double spare_s = 0;  // of it
  RoughTimes times;
  std::vector<int> ahead;  // by TaskId, of gathers of parameters: the place of the op before which it stands; else -1
};

// For each at most `part` of the kernels of a micro-batch. `places` is the order of the ops, by OpId; empty: the
// graph's own.
Room room_of(const PhysicalGraph& graph, const RoughTimes& times, double part, const std::vector<int>& places);

// Whether there is anything to leave room for.
bool wants_room(const RoughTimes& times);

// For how long the bytes that a node reads and writes on a device are its own: places in `order`.
struct HeldBytes {
  DeviceId device;
  int from = 0, until = 0;
};
// By place in `order`. Of collectives and transfers that run beside kernels, and of what waits for the reductions among
// them; bytes of all others are held for the node's own place. Empty where there is no room.
using Held = std::vector<std::vector<HeldBytes>>;
Held held_bytes(const PhysicalGraph& graph, const NodeTable& table, const Room& room);
HeldBytes held_at(const Held& held, int place, DeviceId device);

}  // namespace partita

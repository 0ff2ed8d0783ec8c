// Defines the simulator's nodes, internal to sim/. Each firing of a task or collective is one node. It has the queues
// and links that it occupies, its time, and the nodes that wait for it.
//
// Example: a kernel of rate 2 on a device's compute queue is two nodes of one queue each. The second waits for the
// first, and the first of the next step for the second. An all-reduce of 4 participants is one node on their queues and
// on the links that it takes for itself (Collective::occupies).
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/physical/physical.h"

namespace partita {

struct SimNode {
  std::vector<TaskId> tasks;               // of a collective all participants, in rank order
  std::vector<int> queues;                 // all that must be free
  std::vector<int> static_queues;          // those of them in which it must be next in order
  int64_t duration_ns = 0;                 // from the formulas of cost/
  const Collective* collective = nullptr;  // null for a task by itself
  int64_t sent_bytes = 0;                  // by each participant of a collective
  int threads = 1;                         // of the runtime, busy meanwhile: one a participant
  double together = 1;                     // TaskTime's
  std::vector<DeviceId> devices;  // of a kernel that collectives slow down, and of these collectives; else none
  double overlapped_speed = 1;    // fraction of its speed that such a kernel keeps (KernelFigures::beside_collectives)
  bool estimated = false;
  std::vector<int> now, next;  // successors in this step and in the next
  int waits_now = 0, waits_next = 0;
};

// Makes the nodes of one step, in its order.
std::vector<SimNode> sim_nodes(const PhysicalGraph& graph, const CostModel& cost);

// Returns the graph's queues by link, for collective_node().
std::map<LinkId, int> queues_of_links(const PhysicalGraph& graph);
// Makes the node of a collective of these participants, on all that it occupies, without edges.
SimNode collective_node(const PhysicalGraph& graph, const CostModel& cost, std::vector<TaskId> participants,
                        const std::map<LinkId, int>& queue_of);

}  // namespace partita

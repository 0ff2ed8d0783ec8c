// Orders tasks by the times at which they run if none waits for another's bytes, for plans with inter-op parallelism
// (physical/inter_op_parallelism.h).
//
// Bytes are a task's own until it ends, so later users of them need not wait. In this order a schedule that is kept
// (Plan::transfers) is not later than if no two registers share bytes, nor in general are others. It needs the memory
// that it holds at its fullest.
//
// Example: kernel x runs from 0 to 10 us on gpu0 and reads r. A transfer to gpu0 that is under way from 2 to 5 us does
// not lie on r's bytes. One that begins at 10 us may.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/physical/passes.h"
#include "partita/physical/trace.h"
#include "partita/physical/uses.h"

namespace partita {

// By number of the node, ns. Empty: not known.
struct NodeTimes {
  std::vector<int64_t> start, end;
  bool known() const { return !start.empty(); }
};
// Returns the times of the first step of a simulation that has every node.
NodeTimes node_times(const NodeTable& table, const std::vector<Event>& events);

// Returns places by number of the node: 0 for the first that starts, equal for nodes that start at the same time.
std::vector<int> places_by_start(const NodeTimes& times);

// Each node holds the bytes of all its registers until the place of the last node that starts before it ends. `graph`
// is in an order by these times.
Held held_until_end(const PhysicalGraph& graph, const NodeTable& table, const NodeTimes& times);

// Makes the passes order the nodes by these times, and hold bytes until their nodes end.
void set_times(LowerOptions& options, NodeTimes times);

}  // namespace partita

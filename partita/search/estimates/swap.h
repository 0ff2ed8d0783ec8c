// Declares swapping of Tofu's comparison (section 7.1): the model whole on every device, with host memory for all that
// does not fit.
//
// Worked example: on a device of 4 bytes, weight a of 4 bytes is read by ops 0 and 2, weight b of 4 bytes by op 1. A
// step in the steady run begins with a in memory. Op 0 runs, and a is dropped, since the host has it. Then b is copied
// in for op 1 and dropped, and a is copied in for op 2.
#pragma once
#include "partita/physical/physical.h"
#include "partita/search/entry.h"
#include "partita/search/estimates/swap_schedule.h"

namespace partita {

// Every device takes its share of the batch and does the same at the same time. So each has its share of the links to
// the host. As for small-batch, nothing is exchanged. Blocks are the registers of the lowered step, and swap_schedule()
// says when they move. The simulator runs kernels and copies on their queues. Fragments of memory do not count. No plan
// if one op alone needs more than a device has, or all devices together more than their host.
SearchEntry swap_search();

// Returns the step of a graph on one device, after make_order(): ops[i] is order[i]. A result that may lie on an
// operand which nothing reads later is the same block.
SwapProgram swap_program(const PhysicalGraph& graph, DeviceId device);

// Returns the graph with the schedule's copies as transfers between the device and its host, for the simulator. They
// are in the schedule's order and have its edges alone. It is not to be run: the copies name no registers.
PhysicalGraph with_copies(PhysicalGraph graph, const SwapProgram& program, const SwapSchedule& schedule,
                          const Cluster& cluster, DeviceId device);

}  // namespace partita

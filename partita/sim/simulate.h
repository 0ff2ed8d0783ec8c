// Simulates the execution of a PhysicalGraph in full (FlexFlow section 5.2, Algorithm 1), under the runtime's rules.
// cost/ has the formulas for the time of a task or a transfer.
//
// Example: two kernels of 10 us on one queue and a transfer of 15 us that waits for the first. The kernels run from 0
// to 10 and from 10 to 20, the transfer from 10 to 25 on its link's queue. So one step takes 25 us.
#pragma once
#include "partita/base/watch.h"
#include "partita/cost/cost.h"
#include "partita/physical/trace.h"

namespace partita {

// Runs `steps` steps, which overlap as far as the edges let them. A dynamic queue runs, among its ready tasks, the
// lowest in the order; a static queue runs its share in order. A collective is one node on all its participants' queues
// and on the links that it takes for itself (Collective::occupies). It begins when the last participant has come. Time
// is in whole nanoseconds and every task takes at least one, so the timeline is unique. `step_time_ns` is one step's
// share. Throws when the watch ends.
Trace simulate(const PhysicalGraph& graph, const CostModel& cost, int steps = 1, const Watch& watch = {});

// Returns the bytes of registers between first write and last release over the time of a trace, per device.
std::vector<MemorySample> memory_over_time(const PhysicalGraph& graph, const std::vector<Event>& events);

}  // namespace partita

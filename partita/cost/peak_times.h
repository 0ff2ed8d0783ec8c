// Estimates times of tasks at the peaks of devices and links. They decide how much communication may overlap before an
// order is simulated. No task takes less.
#pragma once
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// In seconds, by TaskId.
struct PeakTimes {
  std::vector<double> kernels;  // of the forward and backward pass; 0 for other tasks
  std::vector<double> overlap;  // of communication that may overlap kernels (below); 0 for other tasks
};
// Returns the peak times. Collectives of parameters may overlap kernels. With `transfers` those of micro-batches may
// too, as between the stages of a pipeline. If there are any, so may outputs to a host.
PeakTimes peak_times(const PhysicalGraph& graph, const Cluster& cluster, bool transfers);
// Tells whether any communication may overlap kernels.
bool may_overlap(const PeakTimes& times);

// The time that a ring of devices takes for the bytes that each sends: of its hops, and of a byte.
struct RingTime {
  double hops_s = 0, a_byte_s = 0;
};
RingTime ring_time(const Cluster& cluster, const std::vector<DeviceId>& group);

}  // namespace partita

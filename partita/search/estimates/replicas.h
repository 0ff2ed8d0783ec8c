// Describes a model on every device by itself, without any exchange, for Tofu's small-batch and swapping baselines
// (section 7.1). All devices do the same at the same time, so one represents all that are like it.
//
// Worked example: two devices share one 16 GB/s link to their host, batch 7. own_share() gives the link 8 GB/s, both
// devices have device 0 as representative, and samples_a_device() is 3; the seventh sample is left out.
#pragma once
#include <vector>

#include "partita/search/search.h"

namespace partita {

// Returns `cluster` as one device sees it while all are busy alike. A link between devices and their hosts has the
// bandwidth that is left to each of the devices whose routes share it.
Cluster own_share(const Cluster& cluster);

// Returns by compute device the first one with equal figures, whose routes to and from its host are equal too.
std::vector<DeviceId> representatives(const Cluster& cluster);

// Returns a plan with everything on this device, and on its host the ops that only it can run (cpu ops).
Plan plan_on(const Graph& graph, const Cluster& cluster, DeviceId device);

// Returns the problem's samples a step, divided by the devices; the remainder is left out. Infeasible (exit 4) if that
// is none. Bad input if the model has no samples, and with pins: there is no choice to pin.
int64_t samples_a_device(const Problem& problem);

// Returns the problem's training step of so many samples.
Graph step_of(const Problem& problem, int64_t samples);

}  // namespace partita

// A model on every device by itself, without any exchange: what Tofu's small-batch and swapping baselines do
// (section 7.1). All devices do the same at the same time, so that one stands for all that are like it.
//
// Worked example: two devices share one 16 GB/s link to their host, batch 7. own_share() gives the link 8 GB/s, both
// devices have device 0 as representative, and samples_a_device() is 3; the seventh sample is left out.
#pragma once
#include <vector>

#include "partita/search/search.h"

namespace partita {

// `cluster` as one device sees it while all are busy alike: a link between devices and their hosts has the part of its
// bandwidth that is left to each of the devices whose routes share it.
Cluster own_share(const Cluster& cluster);

// By compute device the first with its figures and those of the routes between it and its host: what one does, the
// other does too.
std::vector<DeviceId> representatives(const Cluster& cluster);

// Everything on this device, and on its host what only that can run (cpu ops).
Plan plan_on(const Graph& graph, const Cluster& cluster, DeviceId device);

// The problem's samples a step, divided by the devices; what is left over is left out. Infeasible (exit 4) where that
// is none. Bad input where the model has no samples, and with pins: there is no choice to pin.
int64_t samples_a_device(const Problem& problem);

// The problem's training step of so many samples.
Graph step_of(const Problem& problem, int64_t samples);

}  // namespace partita

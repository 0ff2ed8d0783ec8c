// Whether two devices take the same time for the same work.
//
// Example: two H100s of one node are of the same type; an H100 and an H200 are not, nor two H100s of which one has
// other collectives in its cluster file.
#pragma once
#include "partita/cluster/cluster.h"

namespace partita {

// All figures that times come from: kind, model, peaks, bandwidth, efficiency, kernels, launches, collectives. Not the
// name, the host and the memory.
bool is_same_type(const Device& a, const Device& b);

}  // namespace partita

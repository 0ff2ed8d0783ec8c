// Tells whether two devices take the same time for the same work.
//
// Example: two H100s of one node are of the same type. An H100 and an H200 are not. Two H100s are not if one has other
// collectives in its cluster file.
#pragma once
#include "partita/cluster/cluster.h"

namespace partita {

// True if all figures that determine times agree: kind, model, peaks, bandwidth, efficiency, kernels, launches,
// collectives. Name, host and memory do not count.
bool is_same_type(const Device& a, const Device& b);

}  // namespace partita

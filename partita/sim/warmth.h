// Internal to sim/: how much of what a kernel reads and writes its core still has in its own cache. A device's kernels
// run in their order; bytes that were touched not longer ago than the cache holds are there (an LRU stack, Mattson et
// al. 1970, by the span of what is accessed).
//
// Example: a cache of 2 MB, and kernels that touch 1 MB each: a, b, a again, c, d, b. The second a finds all of its
// bytes; b does not, since c and d came between.
#pragma once
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// By place in `order`: the part of the bytes that a kernel's act touches and finds, 0 to 1; 1 for other tasks. In a
// step that follows others.
std::vector<double> warm_parts(const PhysicalGraph& graph, double cache_bytes);

}  // namespace partita

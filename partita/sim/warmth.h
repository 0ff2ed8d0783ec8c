// Finds how many of a kernel's bytes are still in its core's own cache, and how many are not even in the shared cache.
// It is internal to sim/. A device's kernels run in their order. Bytes that were touched no longer ago than a cache
// holds are there. (The model is an LRU stack, Mattson et al. 1970, by the span of each access.) Each device has its
// share of the shared cache; it ends from half of that to twice as much, evenly in the logarithm.
//
// Example: a cache of 2 MB, and kernels that touch 1 MB each: a, b, a again, c, d, b. The second a finds all of its
// bytes; b does not, since c and d came between.
#pragma once
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// Fractions of the bytes that a kernel's firing touches.
struct CacheFractions {
  double warm = 1;  // in the core's own cache, 0 to 1
  double far = 0;   // in none
};
// Returns, by place in `order`, the fractions in a step that follows others; defaults for tasks that are no kernels.
// Without a shared cache (0 bytes) nothing is far.
std::vector<CacheFractions> cache_fractions(const PhysicalGraph& graph, double core_bytes, double shared_bytes);

}  // namespace partita

// Finds a whole conversion with a given counter of elements. Internal to sharding/.
//
// Example: P(sum) -> S(0) of 3x4 elements on 2 devices, of which either holds all 12: one reduce-scatter of 12
// elements. If the end is rows [0,2) and [1,3) instead: 2 rows wanted twice over, one fetch of 16 elements, less 8 that
// are present.
#pragma once
#include <cstdint>
#include <utility>

#include "partita/sharding/count.h"
#include "partita/sharding/step.h"

namespace partita::boxing {

// The cheapest conversion, and the elements that it moves, without its steps.
Conversion find_conversion(const Layout& from, const Layout& to, int64_t element_bytes, const ElementCounter& counter);
int64_t conversion_elements(const Layout& from, const Layout& to, const ElementCounter& counter);

// Both layouts over a common factoring if they have one.
std::pair<Layout, Layout> over_common_radices(const Layout& from, const Layout& to);
// Tells whether both have the same devices in the same order, with the same boxes of whole values, whatever the meshes'
// extents.
bool is_in_place(const Layout& from, const Layout& to);

}  // namespace partita::boxing

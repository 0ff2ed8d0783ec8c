// Finds which part of its partial values a position holds, and the intersection of two boxes. Internal to sharding/.
#pragma once
#include <cstdint>

#include "partita/sharding/layout.h"

namespace partita::boxing {

// Elements that two boxes share.
inline int64_t common_elements(const Box& a, const Box& b) {
  int64_t n = 1;
  for (size_t i = 0; i < a.size(); ++i) n *= intersect(a[i], b[i]).size();
  return n;
}

// A total order of boxes.
bool box_less(const Box& a, const Box& b);

// Tells whether values are partial over more than one position. A mesh axis of extent 1 holds the whole value.
bool has_partial_values(const Layout& l);

// How many parts a partial value has: the product of the extents of the partial axes. [P(sum), S(0)] on 2x4 has 2.
int partial_member_count(const Layout& l);

// The part that a position holds: its coordinate on the partial axes, row-major. Position 5 of the above holds part 1.
int partial_member(const Layout& l, int position);

// Bits: the mesh axes on which values are partial.
uint64_t partial_axes(const Layout& l);

}  // namespace partita::boxing

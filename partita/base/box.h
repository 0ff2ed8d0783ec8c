// Defines half-open integer intervals, boxes of them, and `cut`, the one function that splits an extent.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partita {

using Shape = std::vector<int64_t>;

// Number of elements; 1 for a scalar.
int64_t volume(const Shape& shape);

// The integers lo <= i < hi; empty when hi <= lo.
struct Interval {
  int64_t lo = 0, hi = 0;

  int64_t size() const { return hi > lo ? hi - lo : 0; }
  bool empty() const { return hi <= lo; }
  bool contains(const Interval& other) const { return other.empty() || (lo <= other.lo && other.hi <= hi); }
  bool operator==(const Interval&) const = default;
};

inline Interval intersect(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }
// The smallest interval that holds both; an empty one adds nothing.
inline Interval hull(Interval a, Interval b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

// Part r of p of an extent n: [floor(r n / p), floor((r+1) n / p)) (docs/ARCHITECTURE.md section 4), so that nested
// splits refine each other. With n < p some parts are empty.
Interval cut(int64_t extent, int64_t parts, int64_t part);

// One interval per axis; a box without axes is a scalar's one element. Empty if any axis is.
using Box = std::vector<Interval>;

Box full_box(const Shape& shape);
Shape extents(const Box& box);
int64_t volume(const Box& box);
bool is_empty(const Box& box);
bool contains(const Box& outer, const Box& inner);
Box intersect(const Box& a, const Box& b);
Box hull(const Box& a, const Box& b);
// `inner` in coordinates whose origin is outer's lowest corner.
Box relative_to(const Box& inner, const Box& outer);
// a without b, as disjoint boxes in ascending order; {a} if they do not meet.
std::vector<Box> subtract(const Box& a, const Box& b);

// ---------------------------------------------------------------- other axes of the same elements

// A box in memory: its element p lies at sum (p[a] - box[a].lo) * strides[a] from its lowest corner.
struct StridedBox {
  Box box;
  Shape strides;
};
// The same elements with the axes `from` joined or split into `to`, both row-major over as many elements: 6x4 to 2x3x4,
// or to 24. An interval of a split axis may be a box over its digits: [2,4) of 8 is [0,1)x[2,4) of 2x4, and [2,6) is
// none. Empty if the elements are no box over `to`, or have no one stride there. Zero elements are zero elements over
// any axes.
std::optional<StridedBox> reshape_box(const StridedBox& part, const Shape& from, const Shape& to);
std::optional<Box> reshape_box(const Box& box, const Shape& from, const Shape& to);
// The strides of a row-major array without gaps.
Shape dense_strides(const Shape& extents);
// The interval from the box's first element to its last, in row-major numbers over `axes`; {} if it has none.
Interval linear_range(const Box& box, const Shape& axes);

// Compares factorings of one extent into radices, most significant first. Returns how many of `fine` make each radix of
// `coarse`; empty if `fine` is not a refinement of it.
std::optional<std::vector<size_t>> radices_within(const Shape& coarse, const Shape& fine);
// The coarsest factoring that refines both; empty if there is none, as for 3x4 and 4x3.
std::optional<Shape> common_factoring(const Shape& a, const Shape& b);

// "[0,3)x[4,9)"; "[]" for a scalar.
std::string to_string(const Box& box);

}  // namespace partita

// Divides an op into kernels under a strategy: runs of stages between its inner steps, with their reads, writes and
// FLOPs.
//
// Example: softmax has the stages m = max(x), e = exp(x - m), s = sum(e), y = e / s. With the class axis split, m and s
// are all-reduced, and there are three segments: {m}, {e, s} and {y}. The second reads x and m, and writes e and s.
#pragma once
#include <vector>

#include "partita/graph/registry.h"
#include "partita/tdl/tdl.h"

namespace partita {

// Stages [first, last), one kernel a position.
struct Segment {
  int first = 0, last = 0;
  std::vector<int> reads;   // tensors of the formula that no stage of the segment makes; ascending
  std::vector<int> writes;  // its stages' tensors that leave it: results, and those that later steps read
};
std::vector<Segment> segments_of(const tdl::Bound& bound, const tdl::Derived& derived);

// Returns the box of a tensor that position p reads for a segment. It is the one that an inner step before it brings,
// else the one that it holds.
Box box_read(const tdl::Derived& derived, const Segment& segment, int tensor, int p);

// Returns the tensors that a formula's expression reads.
std::vector<int> tensors_read(const tdl::Expr& e);  // ascending

// Counts the FLOPs of each segment's kernel over a box of the iteration space. For an op of one segment it takes those
// that the definition declares, if any; else it counts from the stages. `definition` may be null.
std::vector<double> segment_flops(const OpDefinition* definition, const tdl::Bound& bound,
                                  const std::vector<Segment>& segments, const std::vector<Interval>& ranges);

}  // namespace partita

// What derivation needs of a bound formula, worked out once: the reads with their guards, regions (rules 5 to 9), and
// the kinds of values on one mesh axis (rules 11 to 16).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/tdl/affine.h"
#include "partita/tdl/tdl.h"

namespace partita::tdl {

struct Read {
  const Expr* access = nullptr;  // a kRead; below an opaque with `whole` axes
  std::vector<Affine> guards;    // >= 0 wherever the read happens
};

struct StageAnalysis {
  std::vector<int> lhs_indices;  // of the left side
  std::vector<int> indices;      // those, and what the root reduces
  std::vector<Read> reads;
  bool has(int index) const;
  bool has_on_left(int index) const;
};

// Holds pointers into the formula, which must outlive it.
struct Analysis {
  const Bound* bound = nullptr;
  std::vector<StageAnalysis> stages;
};
Analysis analyze(const Bound& bound);

// What accesses read along an axis of a tensor, by what splits the indices that this depends on, for one formula and
// one mesh.
struct KnownRegions {
  std::map<std::vector<int>, Along>
      along;  // by stage, tensor, access, axis, and per index the mesh axes that split it, as bits
};

// The part of every index at each position (5): a split index has its cut, over all mesh axes that split it.
Boxes ranges_on_mesh(const Bound& bound, const std::vector<int>& mesh, const std::vector<std::vector<int>>& split);

Box empty_box(size_t rank);
// The box of a tensor that a stage reads (8), the hull over its accesses; empty where it reads nothing.
Box stage_reads(const Analysis& analysis, int stage, int tensor, const std::vector<Interval>& ranges);
// What a position owns of a stage (9). False where that is not one box.
bool owned_box(const Analysis& analysis, int stage, const std::vector<Interval>& ranges, Box& box);
// The same of all positions: along each axis of a tensor only what the indices there make different is looked at, and
// once for one `known` (or null). `split`: as for ranges_on_mesh().
Boxes stage_reads(const Analysis& analysis, int stage, int tensor, const Boxes& ranges,
                  const std::vector<std::vector<int>>& split, KnownRegions* known);
bool owned_boxes(const Analysis& analysis, int stage, const Boxes& ranges, Boxes& boxes);

// Kinds on one mesh axis.
struct AxisKinds {
  bool exists = true;
  std::string why;                // where it does not
  std::vector<Kind> first;        // per tensor, as computed
  std::vector<int> whole_before;  // per tensor, the stage before which it is made whole; -1: it never is
  int conversions = 0;
  // Where the partial and the true side of a sum met (14): each a set of operands that could join.
  struct Join {
    Reducer reducer;
    std::vector<int> operands;
  };
  std::vector<Join> joins;
};
// `split`: the names' indices. `partial`: one kind an operand.
AxisKinds kinds_on_axis(const Analysis& analysis, const std::vector<int>& split, const std::vector<Kind>& partial);

}  // namespace partita::tdl

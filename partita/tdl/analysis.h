// Analyses a bound formula once, for all derivations. It finds the reads with their guards, regions (rules 5 to 9), and
// kinds of values on one mesh axis (rules 11 to 16).
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
  std::vector<int> indices;      // those, and the indices that the root reduces
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

// Remembers what accesses read along a tensor's axis, by the mesh axes that split the indices it depends on, for one
// formula and one mesh.
struct RegionCache {
  std::map<std::vector<int>, Along>
      along;  // by stage, tensor, access, axis, and per index the mesh axes that split it, as bits
};

// The range of every index at each position (5): a split index has its cut, over all mesh axes that split it.
Boxes ranges_on_mesh(const Bound& bound, const std::vector<int>& mesh, const std::vector<std::vector<int>>& split);

Box empty_box(size_t rank);
// The box of a tensor that a stage reads (8), the hull over its accesses; empty if it reads nothing.
Box stage_reads(const Analysis& analysis, int stage, int tensor, const std::vector<Interval>& ranges);
// Finds the box of a stage that a position owns (9). False if that is not one box.
bool owned_box(const Analysis& analysis, int stage, const std::vector<Interval>& ranges, Box& box);
// The same for all positions. Along each axis of a tensor it computes only positions whose indices differ, and once for
// one `known` (or null). `split`: as for ranges_on_mesh().
Boxes stage_reads(const Analysis& analysis, int stage, int tensor, const Boxes& ranges,
                  const std::vector<std::vector<int>>& split, RegionCache* known);
bool owned_boxes(const Analysis& analysis, int stage, const Boxes& ranges, Boxes& boxes);

// Kinds on one mesh axis.
struct AxisKinds {
  bool exists = true;
  std::string why;                // if there is no strategy
  std::vector<Kind> first;        // per tensor, as computed
  std::vector<int> whole_before;  // per tensor, the stage before which it is made whole; -1: it never is
  int conversions = 0;
  // The partial and the true side of a sum that met (14): each a set of operands that could join.
  struct Join {
    Reducer reducer;
    std::vector<int> operands;
  };
  std::vector<Join> joins;
};
// `split`: the names' indices. `partial`: one kind an operand.
AxisKinds kinds_on_axis(const Analysis& analysis, const std::vector<int>& split, const std::vector<Kind>& partial);

}  // namespace partita::tdl

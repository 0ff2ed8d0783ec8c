// Regions: docs/TDL.md, section 3.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/tdl/analysis.h"
#include "partita/tdl/mutant.h"

namespace partita::tdl {
namespace {

void collect_reads(const Expr& e, const std::vector<Affine>& guards, std::vector<Read>& reads) {
  if (e.kind == ExprKind::kRead) {
    reads.push_back({&e, guards});
  } else if (e.kind == ExprKind::kIf) {  // (7)
    std::vector<Affine> then_guards = guards, else_guards = guards;
    collect_constraints(e.args[0], false, then_guards);
    collect_constraints(e.args[0], !MUTANT("else_guard"), else_guards);
    collect_reads(e.args[0], guards, reads);
    collect_reads(e.args[1], then_guards, reads);
    collect_reads(e.args[2], else_guards, reads);
  } else {
    for (const Expr& a : e.args) collect_reads(a, guards, reads);
  }
}

Interval cut_range(int64_t extent, int64_t parts, int64_t part) {
  if (MUTANT("ceil_split")) {
    const int64_t size = (extent + parts - 1) / parts;
    return {std::min(extent, part * size), std::min(extent, (part + 1) * size)};
  }
  return cut(extent, parts, part);
}

// The region of one access over non-empty ranges that its guards have narrowed already.
Box access_box(const Expr& access, const Shape& shape, const std::vector<Interval>& ranges) {
  Box box(shape.size());
  for (size_t a = 0; a < shape.size(); ++a) {
    Interval r{0, shape[a]};
    if (access.whole.empty() || !access.whole[a]) {
      const Affine& form = access.subscripts[a];
      r = range_of(form, ranges);
      if (MUTANT("hi_short")) --r.hi;
      if (MUTANT("lo_long")) ++r.lo;
      if (form.terms.size() > 1 && MUTANT("no_halo")) {
        Affine longest;
        for (const auto& term : form.terms) {
          Affine one;
          one.terms.push_back(term);
          if (longest.terms.empty() || range_of(one, ranges).size() > range_of(longest, ranges).size()) longest = one;
        }
        r = range_of(longest, ranges);
      }
      if (form.terms.size() > 1 && MUTANT("fat_halo")) --r.lo, ++r.hi;
      r = intersect(r, {0, shape[a]});
    }
    if (r.empty()) return empty_box(shape.size());
    box[a] = r;
  }
  return box;
}

}  // namespace

bool StageAnalysis::has(int index) const { return std::find(indices.begin(), indices.end(), index) != indices.end(); }
bool StageAnalysis::has_on_left(int index) const {
  return std::find(lhs_indices.begin(), lhs_indices.end(), index) != lhs_indices.end();
}

Analysis analyze(const Bound& bound) {
  Analysis analysis;
  analysis.bound = &bound;
  for (const Stage& stage : bound.stages) {
    StageAnalysis s;
    for (const Affine& a : stage.lhs) collect_indices(a, s.lhs_indices);
    s.indices = s.lhs_indices;
    s.indices.insert(s.indices.end(), stage.body.reduced.begin(), stage.body.reduced.end());
    collect_reads(stage.body, {}, s.reads);
    analysis.stages.push_back(std::move(s));
  }
  return analysis;
}

std::vector<std::vector<Interval>> ranges_on_mesh(const Bound& bound, const std::vector<int>& mesh, const std::vector<std::vector<int>>& split) {
  int positions = 1;
  for (int extent : mesh) positions *= extent;
  std::vector<std::vector<Interval>> ranges(positions, full_ranges(bound));
  for (size_t i = 0; i < bound.indices.size(); ++i) {
    for (int position = 0; position < positions; ++position) {
      int64_t parts = 1, part = 0;
      int below = positions;
      for (size_t axis = 0; axis < mesh.size(); ++axis) {
        below /= mesh[axis];
        if (std::find(split[axis].begin(), split[axis].end(), static_cast<int>(i)) == split[axis].end()) continue;
        const int coordinate = position / below % mesh[axis];
        parts *= mesh[axis], part = part * mesh[axis] + coordinate;
      }
      if (parts == 1) break;
      ranges[position][i] = cut_range(bound.indices[i].extent, parts, part);
    }
  }
  return ranges;
}

Box empty_box(size_t rank) { return Box(rank); }

std::vector<Box> stage_reads(const Analysis& analysis, int stage, const std::vector<Interval>& ranges) {
  const Bound& bound = *analysis.bound;
  const StageAnalysis& s = analysis.stages[stage];
  std::vector<Box> boxes;
  for (const BoundTensor& t : bound.tensors) boxes.push_back(empty_box(t.factored.size()));
  if (std::any_of(s.indices.begin(), s.indices.end(), [&](int i) { return ranges[i].empty(); })) return boxes;
  std::vector<bool> seen(bound.tensors.size(), false);
  for (const Read& read : s.reads) {
    const int tensor = read.access->tensor;
    if (seen[tensor] && MUTANT("first_access")) continue;
    seen[tensor] = true;
    const Shape& shape = bound.tensors[tensor].factored;
    if (read.guards.empty() || MUTANT("no_guard")) {
      boxes[tensor] = hull(boxes[tensor], access_box(*read.access, shape, ranges));
    } else {
      std::vector<Interval> narrowed = ranges;
      if (tighten(narrowed, read.guards)) boxes[tensor] = hull(boxes[tensor], access_box(*read.access, shape, narrowed));
    }
  }
  return boxes;
}

bool owned_box(const Analysis& analysis, int stage, const std::vector<Interval>& ranges, Box& box) {
  const Bound& bound = *analysis.bound;
  const Stage& s = bound.stages[stage];
  box = empty_box(s.lhs.size());
  int64_t points = 1;  // the left side is injective: as many points as its indices have
  for (int i : analysis.stages[stage].lhs_indices) points *= ranges[i].size();
  if (points == 0) return true;
  for (size_t a = 0; a < s.lhs.size(); ++a) box[a] = range_of(s.lhs[a], ranges);
  return volume(box) == points || MUTANT("owned_hull");
}

}  // namespace partita::tdl

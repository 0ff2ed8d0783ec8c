// Computes regions: docs/inside/TDL.md, section 3.
#include <algorithm>
#include <optional>

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

// The region of one access along an axis over ranges that are not empty and that its guards have narrowed already.
Interval access_interval(const Expr& access, const Shape& shape, size_t a, const std::vector<Interval>& ranges) {
  Interval r{0, shape[a]};
  if (!access.whole.empty() && access.whole[a]) return r;
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
  return intersect(r, {0, shape[a]});
}

// The region along all axes; empty if it is along one.
Box access_box(const Expr& access, const Shape& shape, const std::vector<Interval>& ranges) {
  Box box(shape.size());
  for (size_t a = 0; a < shape.size(); ++a) {
    box[a] = access_interval(access, shape, a, ranges);
    if (box[a].empty()) return empty_box(shape.size());
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

Boxes ranges_on_mesh(const Bound& bound, const std::vector<int>& mesh, const std::vector<std::vector<int>>& split) {
  std::vector<Along> ranges;
  for (size_t i = 0; i < bound.indices.size(); ++i) {
    Along along;
    int64_t parts = 1;
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      if (std::find(split[axis].begin(), split[axis].end(), static_cast<int>(i)) == split[axis].end()) continue;
      along.axes.push_back(static_cast<int>(axis));
      parts *= mesh[axis];
    }
    for (int64_t part = 0; part < parts; ++part)
      along.intervals.push_back(cut_range(bound.indices[i].extent, parts, part));
    ranges.push_back(std::move(along));
  }
  return Boxes(mesh, std::move(ranges));
}

Box empty_box(size_t rank) { return Box(rank); }

namespace {

// The ranges in which an access reads; null if its guards say that it never does. `narrowed`: a buffer for them.
const std::vector<Interval>* ranges_of_read(const Read& read, const std::vector<Interval>& ranges,
                                            std::vector<Interval>& narrowed) {
  if (read.guards.empty() || MUTANT("no_guard")) return &ranges;
  narrowed = ranges;
  return narrow_ranges(narrowed, read.guards) ? &narrowed : nullptr;
}

std::vector<const Read*> reads_of(const StageAnalysis& stage, int tensor) {
  std::vector<const Read*> reads;
  for (const Read& read : stage.reads) {
    if (read.access->tensor != tensor) continue;
    if (!reads.empty() && MUTANT("first_access")) continue;
    reads.push_back(&read);
  }
  return reads;
}

// The mesh axes that make ranges of these indices different.
std::vector<int> axes_of(const Boxes& ranges, const std::vector<int>& indices) {
  std::vector<int> axes;
  for (int i : indices) axes = joined_axes(axes, ranges.along(static_cast<size_t>(i)).axes);
  return axes;
}

bool never_empty(const Boxes& ranges, const std::vector<int>& indices) {
  return std::none_of(indices.begin(), indices.end(),
                      [&](int i) { return is_empty(ranges.along(static_cast<size_t>(i)).intervals); });
}

// Makes boxes of all positions from one function of the ranges, position by position on these axes.
template <typename BoxAt>
Boxes boxes_on(const Boxes& ranges, size_t rank, const std::vector<int>& axes, const BoxAt& box_at) {
  std::vector<Along> dimensions(rank, {axes, {}});
  for_each_coordinate(ranges.extents(), axes, [&](size_t position) {
    const Box box = box_at(ranges[position]);
    for (size_t a = 0; a < rank; ++a) dimensions[a].intervals.push_back(box[a]);
  });
  return Boxes(ranges.extents(), std::move(dimensions));
}

// The same if along axis a intervals depend on the ranges of indices[a] only, and a box is null if an interval along
// any axis is null. Empty if one of its intervals is empty. Intervals are taken from kept_at(a), or kept there; if it
// is null, neither.
template <typename IntervalAt, typename KeptAt>
std::optional<Boxes> boxes_along(const Boxes& ranges, const std::vector<std::vector<int>>& indices,
                                 const IntervalAt& interval_at, const KeptAt& kept_at) {
  std::vector<Along> dimensions;
  std::vector<Interval> at = ranges[0];
  for (size_t a = 0; a < indices.size(); ++a) {
    Along* kept = kept_at(a);
    if (kept && !kept->intervals.empty()) {
      dimensions.push_back(*kept);
      continue;
    }
    dimensions.push_back({axes_of(ranges, indices[a]), {}});
    bool empty = false;
    for_each_coordinate(ranges.extents(), dimensions[a].axes, [&](size_t position) {
      if (empty) return;
      for (int i : indices[a]) at[i] = ranges.at(position, static_cast<size_t>(i));
      const std::optional<Interval> interval = interval_at(at, a);
      dimensions[a].intervals.push_back(interval.value_or(Interval{0, 0}));
      empty = interval && interval->empty();
    });
    for (int i : indices[a]) at[i] = ranges.at(0, static_cast<size_t>(i));
    if (empty) return std::nullopt;
    if (kept) *kept = dimensions[a];
  }
  return Boxes(ranges.extents(), std::move(dimensions));
}

}  // namespace

Box stage_reads(const Analysis& analysis, int stage, int tensor, const std::vector<Interval>& ranges) {
  const StageAnalysis& s = analysis.stages[stage];
  const Shape& shape = analysis.bound->tensors[tensor].factored;
  Box box = empty_box(shape.size());
  if (std::any_of(s.indices.begin(), s.indices.end(), [&](int i) { return ranges[i].empty(); })) return box;
  std::vector<Interval> narrowed;
  for (const Read* read : reads_of(s, tensor))
    if (const auto* where = ranges_of_read(*read, ranges, narrowed))
      box = hull(box, access_box(*read->access, shape, *where));
  return box;
}

Boxes stage_reads(const Analysis& analysis, int stage, int tensor, const Boxes& ranges,
                  const std::vector<std::vector<int>>& split, RegionCache* known) {
  const StageAnalysis& s = analysis.stages[stage];
  const Shape& shape = analysis.bound->tensors[tensor].factored;
  const std::vector<const Read*> reads = reads_of(s, tensor);
  Boxes all = Boxes::everywhere(ranges.extents(), empty_box(shape.size()));
  if (reads.empty()) return all;
  bool apart = never_empty(ranges, s.indices);
  for (size_t r = 0; r < reads.size() && apart; ++r) {
    std::vector<int> guarded;
    for (const Affine& guard : reads[r]->guards) collect_indices(guard, guarded);
    std::vector<std::vector<int>> indices(shape.size());
    for (size_t a = 0; a < shape.size(); ++a) {
      indices[a] = guarded;
      if (reads[r]->access->whole.empty() || !reads[r]->access->whole[a])
        collect_indices(reads[r]->access->subscripts[a], indices[a]);
    }
    auto kept_at = [&](size_t a) -> Along* {
      if (!known) return nullptr;
      std::vector<int> key = {stage, tensor, static_cast<int>(r), static_cast<int>(a)};
      for (int i : indices[a]) {
        int bits = 0;
        for (size_t axis = 0; axis < split.size(); ++axis)
          bits |= (std::find(split[axis].begin(), split[axis].end(), i) != split[axis].end()) << axis;
        key.push_back(bits);
      }
      return &known->along[std::move(key)];
    };
    std::vector<Interval> narrowed;
    auto interval_at = [&](const std::vector<Interval>& at, size_t a) -> std::optional<Interval> {
      const auto* where = ranges_of_read(*reads[r], at, narrowed);
      if (!where) return std::nullopt;
      return access_interval(*reads[r]->access, shape, a, *where);
    };
    const auto boxes = boxes_along(ranges, indices, interval_at, kept_at);
    if (boxes) all = hull(all, *boxes);
    else apart = false;
  }
  if (apart) return all;
  return boxes_on(ranges, shape.size(), axes_of(ranges, s.indices),
                  [&](const std::vector<Interval>& at) { return stage_reads(analysis, stage, tensor, at); });
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

bool owned_boxes(const Analysis& analysis, int stage, const Boxes& ranges, Boxes& boxes) {
  const Stage& s = analysis.bound->stages[stage];
  const std::vector<int>& all = analysis.stages[stage].lhs_indices;
  std::vector<std::vector<int>> indices(s.lhs.size());
  size_t used = 0;
  for (size_t a = 0; a < s.lhs.size(); ++a) collect_indices(s.lhs[a], indices[a]), used += indices[a].size();
  bool one_box = true;
  if (used == all.size() &&
      never_empty(ranges, all)) {  // no index stands at two axes: the left side is injective along each
    std::vector<Interval> at = ranges[0];
    for (size_t a = 0; a < s.lhs.size(); ++a)
      for_each_coordinate(ranges.extents(), axes_of(ranges, indices[a]), [&](size_t position) {
        for (int i : indices[a]) at[i] = ranges.at(position, static_cast<size_t>(i));
        int64_t points = 1;
        for (int i : indices[a]) points *= at[i].size();
        one_box = one_box && range_of(s.lhs[a], at).size() == points;
      });
    one_box = one_box || MUTANT("owned_hull");
    if (!one_box) return false;
    auto interval_at = [&](const std::vector<Interval>& at, size_t a) { return std::optional(range_of(s.lhs[a], at)); };
    boxes = *boxes_along(ranges, indices, interval_at, [](size_t) -> Along* { return nullptr; });
    return true;
  }
  boxes = boxes_on(ranges, s.lhs.size(), axes_of(ranges, all), [&](const std::vector<Interval>& at) {
    Box box;
    one_box = owned_box(analysis, stage, at, box) && one_box;
    return box;
  });
  return one_box;
}

}  // namespace partita::tdl

// Computes with boxes: cuts, intersections, differences, and the same elements over other axes.
#include "partita/base/box.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/error.h"

namespace partita {

int64_t volume(const Shape& shape) {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}

Interval cut(int64_t extent, int64_t parts, int64_t part) {
  ensure(parts > 0 && part >= 0 && part < parts, "cut: part {} of {}", part, parts);
  return {part * extent / parts, (part + 1) * extent / parts};
}

Box full_box(const Shape& shape) {
  Box box;
  for (int64_t e : shape) box.push_back({0, e});
  return box;
}

Shape extents(const Box& box) {
  Shape shape;
  for (const Interval& i : box) shape.push_back(i.size());
  return shape;
}

int64_t volume(const Box& box) {
  int64_t n = 1;
  for (const Interval& i : box) n *= i.size();
  return n;
}

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Interval& i) { return i.empty(); });
}

bool contains(const Box& outer, const Box& inner) {
  if (is_empty(inner)) return true;
  for (size_t a = 0; a < inner.size(); ++a)
    if (!outer[a].contains(inner[a])) return false;
  return true;
}

Box intersect(const Box& a, const Box& b) {
  Box box(a.size());
  for (size_t i = 0; i < a.size(); ++i) box[i] = intersect(a[i], b[i]);
  return box;
}

Box hull(const Box& a, const Box& b) {
  if (is_empty(a)) return b;
  if (is_empty(b)) return a;
  Box box(a.size());
  for (size_t i = 0; i < a.size(); ++i) box[i] = hull(a[i], b[i]);
  return box;
}

Box relative_to(const Box& inner, const Box& outer) {
  Box box(inner.size());
  for (size_t i = 0; i < inner.size(); ++i) box[i] = {inner[i].lo - outer[i].lo, inner[i].hi - outer[i].lo};
  return box;
}

std::vector<Box> subtract(const Box& a, const Box& b) {
  if (is_empty(a)) return {};
  Box meet = intersect(a, b);
  if (is_empty(meet)) return {a};
  std::vector<Box> rest;
  Box core = a;  // shrinks to `meet` one axis at a time
  for (size_t i = 0; i < a.size(); ++i) {
    if (core[i].lo < meet[i].lo) {
      Box low = core;
      low[i].hi = meet[i].lo;
      rest.push_back(low);
    }
    if (meet[i].hi < core[i].hi) {
      Box high = core;
      high[i].lo = meet[i].hi;
      rest.push_back(high);
    }
    core[i] = meet[i];
  }
  return rest;
}

Shape dense_strides(const Shape& extents) {
  Shape strides(extents.size());
  int64_t stride = 1;
  for (size_t a = extents.size(); a-- > 0;) strides[a] = stride, stride *= std::max<int64_t>(extents[a], 1);
  return strides;
}

Interval linear_range(const Box& box, const Shape& axes) {
  if (is_empty(box)) return {};
  const Shape strides = dense_strides(axes);
  Interval span{0, 1};
  for (size_t a = 0; a < box.size(); ++a) span.lo += box[a].lo * strides[a], span.hi += (box[a].hi - 1) * strides[a];
  return span;
}

namespace {

// An interval of the row-major numbers over several axes, and the distance in memory from one to the next.
struct Run {
  Interval whole;
  int64_t stride = 1;
};

// The box over axes [first, last) as one run, if it is one: full below its first axis longer than one, without gaps in
// memory.
std::optional<Run> joined(const StridedBox& part, const Shape& extents, size_t first, size_t last) {
  Run run{{0, 1}};
  for (size_t k = first; k < last; ++k) {
    const Interval here = part.box[k];
    if (run.whole.size() > 1 && (here.lo != 0 || here.hi != extents[k])) return std::nullopt;
    run.whole = {run.whole.lo * extents[k] + here.lo, (run.whole.hi - 1) * extents[k] + here.hi};
    if (extents[k] > 1) run.stride = part.strides[k];
  }
  int64_t size = 1;
  for (size_t k = last; k-- > first;) {
    if (part.box[k].size() == 1) continue;
    if (part.strides[k] != run.stride * size) return std::nullopt;
    size *= part.box[k].size();
  }
  return run;
}

// A run as a box over axes [first, last), if it is one.
std::optional<StridedBox> divided(const Run& run, const Shape& extents, size_t first, size_t last) {
  int64_t lo = run.whole.lo, hi = run.whole.hi, below = 1;
  StridedBox group{Box(last - first), Shape(last - first)};
  for (size_t k = last; k-- > first;) {
    const int64_t extent = extents[k];
    if (lo / extent == (hi - 1) / extent) {  // one place on the axes before
      group.box[k - first] = {lo % extent, (hi - 1) % extent + 1};
      lo = lo / extent, hi = lo + 1;
    } else {
      if (lo % extent != 0 || hi % extent != 0) return std::nullopt;
      group.box[k - first] = {0, extent};
      lo /= extent, hi /= extent;
    }
    group.strides[k - first] = run.stride * below;
    below *= group.box[k - first].size();
  }
  return group;
}

}  // namespace

std::optional<StridedBox> reshape_box(const StridedBox& part, const Shape& from, const Shape& to) {
  if (from == to) return part;
  if (is_empty(part.box)) return StridedBox{Box(to.size()), Shape(to.size(), 1)};
  StridedBox out;
  // Walk both lists of axes; each round takes the fewest of both that have the same extent.
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    size_t i0 = i, j0 = j;
    int64_t a = 1, b = 1;
    if (i < from.size()) a = from[i++];
    if (j < to.size()) b = to[j++];
    while (a != b) {
      if (a < b && i < from.size()) a *= from[i++];
      else if (b < a && j < to.size()) b *= to[j++];
      else return std::nullopt;
    }
    while (i < from.size() && from[i] == 1) ++i;
    while (j < to.size() && to[j] == 1) ++j;
    if (i - i0 == j - j0) {
      bool same = true;
      for (size_t k = 0; k < i - i0; ++k) same &= from[i0 + k] == to[j0 + k];
      if (same) {
        for (size_t k = i0; k < i; ++k) out.box.push_back(part.box[k]), out.strides.push_back(part.strides[k]);
        continue;
      }
    }
    const auto run = joined(part, from, i0, i);
    const auto group = run ? divided(*run, to, j0, j) : std::nullopt;
    if (!group) return std::nullopt;
    out.box.insert(out.box.end(), group->box.begin(), group->box.end());
    out.strides.insert(out.strides.end(), group->strides.begin(), group->strides.end());
  }
  return out;
}

std::optional<Box> reshape_box(const Box& box, const Shape& from, const Shape& to) {
  const auto out = reshape_box(StridedBox{box, dense_strides(from)}, from, to);
  return out ? std::optional(out->box) : std::nullopt;
}

std::optional<std::vector<size_t>> radices_within(const Shape& coarse, const Shape& fine) {
  std::vector<size_t> counts;
  size_t at = 0;
  for (int64_t r : coarse) {
    int64_t product = 1;
    size_t begin = at;  // a digit of extent 1 may have none
    while (at < fine.size() && product * fine[at] <= r && (product < r || fine[at] == 1)) product *= fine[at++];
    if (r == 0 && at < fine.size() && fine[at] == 0) product = 0, ++at;
    if (product != r) return std::nullopt;
    counts.push_back(at - begin);
  }
  // Radices of 1 that are left over belong to the last digit.
  while (at < fine.size() && fine[at] == 1 && !counts.empty()) ++at, ++counts.back();
  if (at != fine.size()) return std::nullopt;
  return counts;
}

std::optional<Shape> common_factoring(const Shape& a, const Shape& b) {
  const int64_t extent = volume(a);
  if (extent != volume(b)) return std::nullopt;
  if (a == b) return a;
  if (radices_within(a, b) && radices_within(b, a))
    return a.size() > b.size() ? a : b;  // they differ in radices of 1 only
  if (extent == 0) return std::nullopt;
  std::vector<int64_t> strides = {extent};  // of the digits, most significant first; each must divide the one before
  for (const Shape* s : {&a, &b}) {
    int64_t stride = extent;
    for (int64_t r : *s) strides.push_back(stride /= r);
  }
  std::sort(strides.rbegin(), strides.rend());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  Shape radices;
  for (size_t i = 1; i < strides.size(); ++i) {
    if (strides[i - 1] % strides[i]) return std::nullopt;
    radices.push_back(strides[i - 1] / strides[i]);
  }
  if (!radices_within(a, radices) || !radices_within(b, radices)) return std::nullopt;
  return radices;
}

std::string to_string(const Box& box) {
  if (box.empty()) return "[]";
  std::string text;
  for (const Interval& i : box) text += fmt::format("{}[{},{})", text.empty() ? "" : "x", i.lo, i.hi);
  return text;
}

}  // namespace partita

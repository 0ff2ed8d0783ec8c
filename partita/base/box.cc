// Boxes: cuts, intersections, differences, and the same elements over other axes.
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

std::optional<StridedBox> regrouped(const StridedBox& part, const Shape& from, const Shape& to) {
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
    // A box over these axes as one interval of their product, if it is one: full below its first axis with
    // several; then that interval as a box over the other axes.
    Interval whole{0, 1};
    int64_t stride = 1;
    for (size_t k = i0; k < i; ++k) {
      int64_t extent = from[k];
      Interval here = part.box[k];
      if (whole.size() > 1 && (here.lo != 0 || here.hi != extent)) return std::nullopt;
      whole = {whole.lo * extent + here.lo, (whole.hi - 1) * extent + here.hi};
      if (extent > 1) stride = part.strides[k];
    }
    // Memory must run on without gaps.
    int64_t run = 1;
    for (size_t k = i; k-- > i0;) {
      if (part.box[k].size() == 1) continue;
      if (part.strides[k] != stride * run) return std::nullopt;
      run *= part.box[k].size();
    }
    int64_t lo = whole.lo, hi = whole.hi;
    Box group(j - j0);
    Shape strides(j - j0);
    int64_t below = 1;
    for (size_t k = j; k-- > j0;) {
      int64_t extent = to[k];
      bool rest_single = lo / extent == (hi - 1) / extent;
      if (rest_single) {
        group[k - j0] = {lo % extent, (hi - 1) % extent + 1};
        lo = lo / extent, hi = lo + 1;
      } else {
        if (lo % extent != 0 || hi % extent != 0) return std::nullopt;
        group[k - j0] = {0, extent};
        lo /= extent, hi /= extent;
      }
      strides[k - j0] = stride * below;
      below *= group[k - j0].size();
    }
    out.box.insert(out.box.end(), group.begin(), group.end());
    out.strides.insert(out.strides.end(), strides.begin(), strides.end());
  }
  return out;
}

std::optional<Box> regrouped(const Box& box, const Shape& from, const Shape& to) {
  const auto out = regrouped(StridedBox{box, dense_strides(from)}, from, to);
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

// Expresses boxes and layouts over other factorings of a tensor's axes.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/sharding/layout.h"

namespace partita {

namespace {

Shape joined_radices(const std::vector<Shape>& radices) {
  Shape all;
  for (const Shape& r : radices) all.insert(all.end(), r.begin(), r.end());
  return all;
}

// Splits the numbers in `range` below the product of `radices` into boxes of their digits, most significant first.
void split_range(Interval range, const int64_t* radices, size_t count, Box prefix, std::vector<Box>& out) {
  if (range.empty()) return;
  if (count <= 1) {
    if (count == 1) prefix.push_back(range);
    out.push_back(std::move(prefix));
    return;
  }
  int64_t inner = 1;
  for (size_t i = 1; i < count; ++i) inner *= radices[i];
  int64_t first = range.lo / inner, last = (range.hi - 1) / inner;  // the leading digits that are met
  auto descend = [&](Interval digit, Interval rest) {
    Box head = prefix;
    head.push_back(digit);
    split_range(rest, radices + 1, count - 1, std::move(head), out);
  };
  if (first == last) return descend({first, first + 1}, {range.lo - first * inner, range.hi - first * inner});
  if (range.lo % inner) descend({first, first + 1}, {range.lo - first * inner, inner}), ++first;
  bool ragged = range.hi % inner;
  if (int64_t end = ragged ? last : last + 1; first < end) descend({first, end}, {0, inner});
  if (ragged) descend({last, last + 1}, {0, range.hi - last * inner});
}

// The reverse: joins the numbers whose digits lie in `digits` into ranges in ascending order.
void join_digits(const Interval* digits, const int64_t* radices, size_t count, int64_t base,
                 std::vector<Interval>& out) {
  if (count == 0) {
    out.push_back({base, base + 1});
    return;
  }
  int64_t inner = 1;
  bool rest_full = true;
  for (size_t i = 1; i < count; ++i) {
    inner *= radices[i];
    rest_full = rest_full && digits[i] == Interval{0, radices[i]};
  }
  if (rest_full) {
    out.push_back({base + digits[0].lo * inner, base + digits[0].hi * inner});
    return;
  }
  for (int64_t d = digits[0].lo; d < digits[0].hi; ++d)
    join_digits(digits + 1, radices + 1, count - 1, base + d * inner, out);
}

// Calls append for every choice of one part per axis, first axis outermost.
template <typename Part, typename Append>
std::vector<Box> product_of(const std::vector<std::vector<Part>>& parts, Append append) {
  std::vector<Box> all = {{}};
  for (const std::vector<Part>& axis : parts) {
    std::vector<Box> next;
    for (const Box& head : all)
      for (const Part& part : axis) {
        next.push_back(head);
        append(next.back(), part);
      }
    all = std::move(next);
  }
  return all;
}

}  // namespace

Shape Layout::factored_shape() const { return joined_radices(radices); }

std::vector<Box> refined_boxes(const Box& box, const std::vector<Shape>& radices, const std::vector<Shape>& fine) {
  if (is_empty(box)) return {};
  std::vector<std::vector<Box>> parts;  // per factored axis of `box`: its digits
  size_t f = 0;
  for (size_t a = 0; a < radices.size(); ++a) {
    auto counts = radices_within(radices[a], fine[a]);
    ensure(counts.has_value(), "{} does not refine {}", fmt::join(fine[a], "."), fmt::join(radices[a], "."));
    size_t at = 0;
    for (size_t count : *counts) {
      parts.emplace_back();
      split_range(box[f++], fine[a].data() + at, count, {}, parts.back());
      at += count;
    }
  }
  return product_of(parts, [](Box& head, const Box& part) { head.insert(head.end(), part.begin(), part.end()); });
}

std::optional<Box> over_radices(const Box& box, const std::vector<Shape>& from, const std::vector<Shape>& to) {
  return from == to ? box : reshape_box(box, joined_radices(from), joined_radices(to));
}

std::optional<Layout> over_radices(const Layout& layout, const std::vector<Shape>& radices) {
  if (layout.radices == radices) return layout;
  if (layout.shape() != Layout{layout.mesh, radices, {}, {}}.shape()) return std::nullopt;
  const std::vector<int>& extents = layout.mesh.extents;
  Layout out{layout.mesh, radices, {}, layout.kinds};
  if (layout.boxes.any_empty()) {
    std::vector<Box> boxes;
    for (const Box& box : layout.boxes) {
      auto changed = over_radices(box, layout.radices, radices);
      if (!changed) return std::nullopt;
      boxes.push_back(std::move(*changed));
    }
    out.boxes = Boxes(extents, boxes);
    return out;
  }
  std::vector<Along> along;
  for (size_t stored = 0, first = 0; stored < radices.size();
       first += layout.radices[stored++].size()) {  // each stored axis by itself
    std::vector<size_t> digits;
    std::vector<int> axes;
    for (size_t d = 0; d < layout.radices[stored].size(); ++d) {
      digits.push_back(first + d);
      axes = joined_axes(axes, layout.boxes.along(first + d).axes);
    }
    const Boxes from = layout.boxes.of(digits);
    std::vector<Along> to(radices[stored].size(), {axes, {}});
    bool one_box = true;
    for_each_coordinate(extents, axes, [&](size_t position) {
      const auto changed =
          one_box ? reshape_box(from[position], layout.radices[stored], radices[stored]) : std::nullopt;
      one_box = one_box && changed.has_value();
      for (size_t d = 0; one_box && d < to.size(); ++d) to[d].intervals.push_back((*changed)[d]);
    });
    if (!one_box) return std::nullopt;
    along.insert(along.end(), to.begin(), to.end());
  }
  out.boxes = Boxes(extents, std::move(along));
  return out;
}

std::optional<std::vector<Shape>> common_radices(const std::vector<Shape>& a, const std::vector<Shape>& b) {
  if (a.size() != b.size()) return std::nullopt;
  std::vector<Shape> common;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    auto radices = common_factoring(a[axis], b[axis]);
    if (!radices) return std::nullopt;
    common.push_back(std::move(*radices));
  }
  return common;
}

std::vector<Box> stored_boxes(const Box& box, const std::vector<Shape>& radices) {
  if (is_empty(box)) return {};
  std::vector<std::vector<Interval>> parts;
  size_t f = 0;
  for (const Shape& r : radices) {
    parts.emplace_back();
    join_digits(box.data() + f, r.data(), r.size(), 0, parts.back());
    f += r.size();
  }
  return product_of(parts, [](Box& head, const Interval& part) { head.push_back(part); });
}

}  // namespace partita

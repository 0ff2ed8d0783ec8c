#include "partita/base/box.h"

#include <fmt/format.h>

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

std::string to_string(const Box& box) {
  if (box.empty()) return "[]";
  std::string text;
  for (const Interval& i : box) text += fmt::format("{}[{},{})", text.empty() ? "" : "x", i.lo, i.hi);
  return text;
}

}  // namespace partita

// Names parts once the boxes are known (rule 19), and writes strategies as text.
#include <algorithm>

#include "partita/base/error.h"
#include "partita/tdl/tdl.h"

namespace partita::tdl {
namespace {

bool same(const Box& a, const Box& b) { return (is_empty(a) && is_empty(b)) || a == b; }

// Digits first to first + count of a box as one interval of the stored axis; nothing if they are not contiguous.
std::optional<Interval> stored_interval(const Box& box, const Shape& radices, size_t first) {
  Interval r{0, 1};
  bool whole = true;  // all less significant digits are full
  int64_t weight = 1;
  for (size_t i = radices.size(); i-- > 0;) {
    const Interval digit = box[first + i];
    if (!whole && digit.size() != 1) return std::nullopt;
    if (whole) r = {digit.lo * weight, digit.hi * weight};
    else r.lo += digit.lo * weight, r.hi += digit.lo * weight;
    whole = whole && digit.lo == 0 && digit.hi == radices[i];
    weight *= radices[i];
  }
  return r;
}

struct Split {
  size_t axis = 0;   // stored
  int digit = -1;    // -1: the stored axis itself
  size_t first = 0;  // position of the axis' first digit in the factored box
};

std::vector<Split> splits_of(const BoundTensor& tensor) {
  std::vector<Split> splits;
  size_t first = 0;
  for (size_t a = 0; a < tensor.radices.size(); ++a) {
    const size_t digits = tensor.radices[a].size();
    splits.push_back({a, -1, first});
    if (digits > 1)
      for (size_t i = 0; i < digits; ++i) splits.push_back({a, static_cast<int>(i), first});
    first += digits;
  }
  return splits;
}

std::string name_of_split(const Split& s) {
  return s.digit < 0 ? fmt::format("S({})", s.axis) : fmt::format("S({}.{})", s.axis, s.digit);
}

// Tells whether one position's box is that of splits, one a mesh axis (none: whole); axes that split the same are one
// split.
bool is_cut_at(const BoundTensor& tensor, const std::vector<Split>& all, const Derived& d, const Box& box,
               const std::vector<std::optional<Split>>& splits, int position) {
  auto by_digit = [&](size_t stored) {
    return std::any_of(splits.begin(), splits.end(),
                       [&](const auto& x) { return x && x->axis == stored && x->digit >= 0; });
  };
  bool agrees = true;
  for (const Split& s : all) {
    const Shape& radices = tensor.radices[s.axis];
    if (radices.size() > 1 && (s.digit >= 0) != by_digit(s.axis)) continue;  // the other form has it
    int64_t parts = 1, part = 0;
    int below = d.positions();
    for (size_t axis = 0; axis < d.mesh.size(); ++axis) {
      below /= d.mesh[axis];
      const auto& x = splits[axis];
      if (!x || x->axis != s.axis || x->digit != s.digit) continue;
      parts *= d.mesh[axis], part = part * d.mesh[axis] + position / below % d.mesh[axis];
    }
    const Interval wanted = cut(s.digit < 0 ? tensor.shape[s.axis] : radices[s.digit], parts, part);
    if (wanted.empty() && is_empty(box)) return true;  // an empty shard is empty whatever its other axes
    const auto found = s.digit < 0 ? stored_interval(box, radices, s.first) : std::optional(box[s.first + s.digit]);
    agrees = agrees && found && *found == wanted;
  }
  return agrees;
}

bool is_cut(const BoundTensor& tensor, const std::vector<Split>& all, const Derived& d, const std::vector<Box>& boxes,
            const std::vector<std::optional<Split>>& splits) {
  for (size_t w = 0; w < boxes.size(); ++w)
    if (!is_cut_at(tensor, all, d, boxes[w], splits, static_cast<int>(w))) return false;
  return true;
}

// The stored axes along which some box that is not empty lacks something: no combination of splits that leaves one of
// them whole fits.
std::vector<size_t> cut_axes(const BoundTensor& tensor, const std::vector<Box>& boxes) {
  std::vector<const Box*> filled;
  for (const Box& box : boxes)
    if (!is_empty(box)) filled.push_back(&box);
  std::vector<size_t> axes;
  size_t first = 0;
  for (size_t a = 0; a < tensor.radices.size(); ++a) {
    bool whole = true;
    for (size_t i = 0; i < tensor.radices[a].size(); ++i, ++first)
      for (const Box* box : filled) whole = whole && (*box)[first] == Interval{0, tensor.radices[a][i]};
    if (!whole) axes.push_back(a);
  }
  return axes;
}

// "H(2)": the axes on which the boxes differ; U if they are disjoint.
std::string list_name(const BoundTensor& tensor, const std::vector<Box>& boxes) {
  bool disjoint = true;
  for (size_t a = 0; a < boxes.size(); ++a)
    for (size_t b = a + 1; b < boxes.size(); ++b)
      disjoint = disjoint && (is_empty(boxes[a]) || is_empty(boxes[b]) || is_empty(intersect(boxes[a], boxes[b])));
  std::string axes;
  for (const Split& s : splits_of(tensor)) {
    const size_t digits = tensor.radices[s.axis].size();
    if (s.digit < 0 && digits > 1) continue;
    const size_t at = s.first + (s.digit < 0 ? 0 : s.digit);
    auto side = [&](const Box& box) { return is_empty(box) ? Interval{} : box[at]; };
    const bool varies =
        std::any_of(boxes.begin(), boxes.end(), [&](const Box& b) { return side(b) != side(boxes[0]); });
    if (varies)
      axes += (axes.empty() ? "" : ",") + (digits > 1 ? fmt::format("{}.{}", s.axis, s.digit) : std::to_string(s.axis));
  }
  return fmt::format("{}({})", disjoint ? "U" : "H", axes);
}

std::string partial_name(Reducer r) { return fmt::format("P({})", name_of(r)); }

}  // namespace

std::string part_name(const Bound& bound, const Derived& d, int tensor) {
  const BoundTensor& t = bound.tensors[tensor];
  const std::vector<Box> boxes = d.boxes[tensor].list();
  std::vector<std::string> names(d.mesh.size());
  for (size_t axis = 0; axis < d.mesh.size(); ++axis)
    if (d.final_kinds[axis][tensor]) names[axis] = partial_name(*d.final_kinds[axis][tensor]);
  auto joined_names = [&] { return names.size() == 1 ? names[0] : fmt::format("[{}]", fmt::join(names, ",")); };

  // Whole at every position that computes anything; a position with nothing to compute may read nothing.
  const Box full = full_box(t.factored);
  bool all_full = true, any_live = false;
  for (size_t w = 0; w < boxes.size(); ++w) {
    const bool idle = is_empty(d.ranges[w]);
    if (t.is_operand && idle) continue;
    any_live = true;
    all_full = all_full && same(boxes[w], full);
  }
  if (names.size() == 1 && !names[0].empty()) return names[0];
  if ((all_full && any_live) || t.shape.empty()) {
    for (std::string& name : names)
      if (name.empty()) name = "B";
    return joined_names();
  }

  // Tries, for each axis that is not partial, whole or one of the splits; takes the first combination with these boxes.
  const std::vector<Split> splits = splits_of(t);
  std::vector<size_t> open;
  for (size_t axis = 0; axis < names.size(); ++axis)
    if (names[axis].empty()) open.push_back(axis);
  std::vector<std::optional<Split>> chosen(names.size());
  std::vector<size_t> choice(open.size(), 0);
  const std::vector<size_t> needed = cut_axes(t, boxes);
  const auto is_chosen = [&](size_t axis) {
    return std::any_of(open.begin(), open.end(), [&](size_t i) { return chosen[i] && chosen[i]->axis == axis; });
  };
  while (needed.size() <= open.size()) {
    for (size_t i = 0; i < open.size(); ++i)
      chosen[open[i]] = choice[i] == 0 ? std::nullopt : std::optional(splits[choice[i] - 1]);
    if (std::all_of(needed.begin(), needed.end(), is_chosen) && is_cut(t, splits, d, boxes, chosen)) {
      for (size_t i : open) names[i] = chosen[i] ? name_of_split(*chosen[i]) : "B";
      return joined_names();
    }
    size_t i = open.size();
    while (i > 0 && ++choice[i - 1] > splits.size()) choice[--i] = 0;
    if (i == 0) break;
  }
  std::string list = list_name(t, boxes);
  if (names.size() == 1) return list;
  for (size_t i : open) names[i] = list;
  return joined_names();
}

std::string to_string(const Bound& bound, const Derived& d) {
  std::vector<std::string> axes, operands, results, inner;
  for (const AxisStrategy& a : d.axes)
    axes.push_back(a.names.empty()       ? "-"
                   : a.names.size() == 1 ? a.names[0]
                                         : fmt::format("{{{}}}", fmt::join(a.names, " ")));
  for (int t = 0; t < bound.operand_count; ++t) operands.push_back(part_name(bound, d, t));
  for (int t : bound.results) results.push_back(part_name(bound, d, t));
  auto add = [&](std::string step) {
    if (std::find(inner.begin(), inner.end(), step) == inner.end()) inner.push_back(std::move(step));
  };
  for (const InnerStep& s : d.inner)
    if (!s.axes.empty()) add(fmt::format("{}:{}->B", bound.tensors[s.tensor].name, name_of(s.reducer)));
  for (const InnerStep& s : d.inner)
    if (!s.needed.empty()) add(fmt::format("{}:fetch", bound.tensors[s.tensor].name));
  std::string text =
      fmt::format("{}: {} -> {}", fmt::join(axes, ","), fmt::join(operands, ", "), fmt::join(results, ", "));
  if (!inner.empty()) text += fmt::format("   [inner {}]", fmt::join(inner, ", "));
  return text;
}

std::string closed_text(const Box& box) {
  if (box.empty()) return "[]";
  if (is_empty(box)) return "nothing";
  std::string text;
  for (const Interval& i : box) text += fmt::format("{}[{},{}]", text.empty() ? "" : "x", i.lo, i.hi - 1);
  return text;
}

}  // namespace partita::tdl

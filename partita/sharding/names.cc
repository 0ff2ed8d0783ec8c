// Makes the layout of a name, and finds the name of a layout.
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/radices.h"
#include "partita/sharding/check_mesh.h"

namespace partita {

namespace {

// The factored axis that the split on mesh axis `a` splits. Bad input if the tensor has no such axis.
int factored_axis_of(const NdSbp& sbp, size_t a, const std::vector<Shape>& radices) {
  const Sbp& split = sbp[a];
  if (split.axis < 0 || split.axis >= static_cast<int>(radices.size()))
    fail("{}: {} splits axis {} of a tensor of {} axes", to_string(sbp), to_string(split), split.axis, radices.size());
  if (split.sub_axis < 0 || split.sub_axis >= static_cast<int>(radices[split.axis].size()))
    fail("{}: {} splits sub-axis {} of an axis with {} factors", to_string(sbp), to_string(split), split.sub_axis,
         radices[split.axis].size());
  int first = 0;
  for (int axis = 0; axis < split.axis; ++axis) first += static_cast<int>(radices[axis].size());
  return first + split.sub_axis;
}

// Cuts an axis into `parts` along these mesh axes together, outermost most significant.
Along cut_along(int64_t extent, std::vector<int> axes, int parts) {
  Along along{std::move(axes), {}};
  for (int part = 0; part < parts; ++part) along.intervals.push_back(cut(extent, parts, part));
  return along;
}

// ---------------------------------------------------------------- search for a name

// A name's splits: per mesh axis a factored axis, or the number of factored axes for none.
using Choice = std::vector<int>;

// Lists, per mesh axis, the axes that it may split, in order, and last whether it may split none. If no box is empty,
// the boxes along a mesh axis that splits something differ along just that. A tensor without elements is whole
// everywhere.
std::vector<std::vector<int>> possible_splits(const Layout& layout, int factored_axes) {
  const Mesh& mesh = layout.mesh;
  std::vector<int> all(factored_axes + 1);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int>> possible(mesh.extents.size(), all);
  if (volume(layout.factored_shape()) == 0) possible.assign(mesh.extents.size(), {factored_axes});
  if (layout.boxes.any_empty()) return possible;
  for (size_t a = 0; a < mesh.extents.size(); ++a) {
    if (mesh.extents[a] == 1) continue;
    std::vector<int> differing;
    for (int f = 0; f < factored_axes; ++f) {
      const std::vector<int>& axes = layout.boxes.along(static_cast<size_t>(f)).axes;
      if (std::find(axes.begin(), axes.end(), static_cast<int>(a)) != axes.end()) differing.push_back(f);
    }
    if (differing.empty()) differing.push_back(factored_axes);
    if (differing.size() > 1) differing.clear();
    possible[a] = differing;
  }
  return possible;
}

// The number of shards of each factored axis.
std::vector<int> parts_of(const Layout& layout, const Choice& choice, size_t factored_axes) {
  std::vector<int> parts(factored_axes, 1);
  for (size_t a = 0; a < choice.size(); ++a)
    if (choice[a] < static_cast<int>(factored_axes)) parts[choice[a]] *= layout.mesh.extents[a];
  return parts;
}

// Tells whether a position's box fits a choice; empty boxes are equal.
bool fits_at(const Layout& layout, const Shape& shape, const Choice& choice, const std::vector<int>& parts, int p) {
  std::vector<int> part(shape.size(), 0);  // the shard of each axis at the position
  int stride = layout.mesh.positions();
  for (size_t a = 0; a < choice.size(); ++a) {
    const int extent = layout.mesh.extents[a];
    stride /= extent;
    if (choice[a] < static_cast<int>(shape.size())) part[choice[a]] = part[choice[a]] * extent + p / stride % extent;
  }
  const Box box = layout.boxes[p];
  bool same = true, empty = false;
  for (size_t f = 0; f < shape.size(); ++f) {
    const Interval want = cut(shape[f], parts[f], part[f]);
    same = same && want == box[f];
    empty = empty || want.empty();
  }
  return same || (empty && is_empty(box));
}

bool choice_fits(const Layout& layout, const Shape& shape, const Choice& choice) {
  const std::vector<int> parts = parts_of(layout, choice, shape.size());
  if (layout.boxes.any_empty()) {
    for (int p = 0; p < layout.mesh.positions(); ++p)
      if (!fits_at(layout, shape, choice, parts, p)) return false;
    return true;
  }
  for (size_t f = 0; f < shape.size(); ++f) {  // the shards of an axis depend on the mesh axes that split it
    const std::vector<Interval>& along = layout.boxes.along(f).intervals;
    if (static_cast<int>(along.size()) != parts[f] || along != cut_along(shape[f], {}, parts[f]).intervals)
      return false;
  }
  return true;
}

// The first choice that fits, the last mesh axis fastest. Mesh axes with partial values split nothing.
std::optional<Choice> first_that_fits(const Layout& layout, const Shape& shape) {
  const int none = static_cast<int>(shape.size()), axes = static_cast<int>(layout.mesh.extents.size());
  const std::vector<std::vector<int>> possible = possible_splits(layout, none);
  Choice choice(axes, none);
  std::vector<size_t> at(axes, 0);
  for (int a = 0; a < axes; ++a) {
    if (layout.kinds[a]) continue;
    if (possible[a].empty()) return std::nullopt;
    choice[a] = possible[a][0];
  }
  while (!choice_fits(layout, shape, choice)) {
    int a = axes - 1;
    for (; a >= 0; --a) {
      if (layout.kinds[a]) continue;
      const bool more = ++at[a] < possible[a].size();
      if (!more) at[a] = 0;
      choice[a] = possible[a][at[a]];
      if (more) break;
    }
    if (a < 0) return std::nullopt;
  }
  return choice;
}

}  // namespace

Layout make_layout(const Mesh& mesh, const NdSbp& sbp, const Shape& shape) {
  return make_layout(mesh, sbp, unfactored(shape));
}

Layout make_layout(const Mesh& mesh, const NdSbp& sbp, const std::vector<Shape>& radices) {
  check_mesh(mesh);
  if (sbp.size() != mesh.extents.size())
    fail("{} has {} parts, but the mesh {} has {} axes; give one part an axis", to_string(sbp), sbp.size(),
         to_string(mesh), mesh.extents.size());
  Layout layout{mesh, radices, {}, {}};
  layout.kinds.resize(sbp.size());
  std::vector<int> splits(sbp.size(), -1);  // per mesh axis: the factored axis that it splits
  for (size_t a = 0; a < sbp.size(); ++a) {
    if (sbp[a].kind == Sbp::Kind::kPartial) {
      if (layout.is_partial() && layout.reducer() != sbp[a].reducer)
        fail("{} holds partial values of two reducers; make one of them whole first", to_string(sbp));
      layout.kinds[a] = sbp[a].reducer;
    }
    if (sbp[a].kind == Sbp::Kind::kSplit) splits[a] = factored_axis_of(sbp, a, radices);
  }
  std::vector<Along> along;
  for (const int64_t extent : layout.factored_shape()) {
    std::vector<int> axes;
    int parts = 1;
    for (size_t a = 0; a < splits.size(); ++a)
      if (splits[a] == static_cast<int>(along.size())) axes.push_back(static_cast<int>(a)), parts *= mesh.extents[a];
    along.push_back(cut_along(extent, std::move(axes), parts));
  }
  layout.boxes = Boxes(mesh.extents, std::move(along));
  return layout;
}

std::optional<NdSbp> name_of(const Layout& layout) {
  const Shape shape = layout.factored_shape();
  const std::optional<Choice> choice = first_that_fits(layout, shape);
  if (!choice) return std::nullopt;
  std::vector<Sbp> split_of;  // per factored axis
  for (size_t a = 0; a < layout.radices.size(); ++a)
    for (size_t s = 0; s < layout.radices[a].size(); ++s)
      split_of.push_back(Sbp::split(static_cast<int>(a), static_cast<int>(s)));
  NdSbp sbp(choice->size());
  for (size_t a = 0; a < sbp.size(); ++a) {
    const auto axis = static_cast<size_t>((*choice)[a]);
    sbp[a] = layout.kinds[a]          ? Sbp::partial(*layout.kinds[a])
             : axis < split_of.size() ? split_of[axis]
                                      : Sbp::broadcast();
  }
  return sbp;
}

}  // namespace partita

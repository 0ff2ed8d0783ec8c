#include "partita/sharding/layout.h"

#include <charconv>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/radices.h"

namespace partita {

namespace {

constexpr tdl::Reducer kReducers[] = {tdl::Reducer::kSum, tdl::Reducer::kMax, tdl::Reducer::kMin, tdl::Reducer::kProd};

// Where each stored axis's radices begin among the factored axes.
std::vector<int> first_factored_axis(const std::vector<Shape>& radices) {
  std::vector<int> first;
  int at = 0;
  for (const Shape& r : radices) {
    first.push_back(at);
    at += static_cast<int>(r.size());
  }
  return first;
}

Shape joined(const std::vector<Shape>& radices) {
  Shape all;
  for (const Shape& r : radices) all.insert(all.end(), r.begin(), r.end());
  return all;
}

bool same_box(const Box& a, const Box& b) { return a == b || (is_empty(a) && is_empty(b)); }

// The digits, most significant first, of the numbers in `range` below the product of `radices`, as boxes.
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

// The reverse: the numbers whose digits lie in `digits`, as ranges in ascending order.
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

// Every choice of one part per axis, first axis outermost.
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

// An axis that mesh axes cut into so many parts together, outermost most significant.
Along cut_along(int64_t extent, std::vector<int> axes, int parts) {
  Along along{std::move(axes), {}};
  for (int part = 0; part < parts; ++part) along.intervals.push_back(cut(extent, parts, part));
  return along;
}

void check_mesh(const Mesh& mesh) {
  int64_t n = 1;
  for (int e : mesh.extents) n *= e;
  ensure(n == mesh.positions(), "mesh of extents {} with {} devices", fmt::join(mesh.extents, "x"), mesh.positions());
}

}  // namespace

std::string to_string(const Sbp& sbp) {
  if (sbp.kind == Sbp::Kind::kBroadcast) return "B";
  if (sbp.kind == Sbp::Kind::kPartial) return fmt::format("P({})", tdl::name_of(sbp.reducer));
  return sbp.sub_axis ? fmt::format("S({}.{})", sbp.axis, sbp.sub_axis) : fmt::format("S({})", sbp.axis);
}

Sbp parse_sbp(std::string_view text) {
  if (text == "B") return Sbp::broadcast();
  auto bad = [&]() {
    fail("'{}' is not a part; write S(axis), S(axis.sub), B, or P(sum), P(max), P(min), P(prod)", text);
  };
  if (text.size() < 4 || text[1] != '(' || text.back() != ')') bad();
  std::string_view inside = text.substr(2, text.size() - 3);
  if (text[0] == 'P') {
    for (tdl::Reducer r : kReducers)
      if (tdl::name_of(r) == inside) return Sbp::partial(r);
    bad();
  }
  if (text[0] != 'S') bad();
  auto number = [&](std::string_view digits) {
    int value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) bad();
    return value;
  };
  size_t dot = inside.find('.');
  return Sbp::split(number(inside.substr(0, dot)), dot == inside.npos ? 0 : number(inside.substr(dot + 1)));
}

std::string to_string(const NdSbp& sbp) {
  std::string text;
  for (const Sbp& s : sbp) text += (text.empty() ? "" : ", ") + to_string(s);
  return "[" + text + "]";
}

NdSbp parse_nd_sbp(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']')
    fail("'{}' is not a list of parts; write for example [S(0), B]", text);
  std::string_view rest = text.substr(1, text.size() - 2);
  NdSbp sbp;
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::string_view part = rest.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    sbp.push_back(parse_sbp(part));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
    if (rest.empty()) fail("'{}' ends in a comma; write for example [S(0), B]", text);
  }
  return sbp;
}

std::vector<int> Mesh::coordinates(int position) const {
  std::vector<int> c(extents.size());
  for (size_t a = extents.size(); a-- > 0; position /= extents[a]) c[a] = position % extents[a];
  return c;
}

int Mesh::position(const std::vector<int>& coordinates) const {
  int p = 0;
  for (size_t a = 0; a < extents.size(); ++a) p = p * extents[a] + coordinates[a];
  return p;
}

int Mesh::position_of(DeviceId device) const {
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i] == device) return static_cast<int>(i);
  return -1;
}

std::string to_string(const Mesh& mesh) {
  constexpr int kListed = 16;
  std::vector<std::string> ids;
  for (size_t first = 0, last = 0; first < mesh.devices.size(); first = ++last) {
    while (mesh.positions() > kListed && last + 1 < mesh.devices.size() &&
           mesh.devices[last + 1].value == mesh.devices[last].value + 1)
      ++last;
    ids.push_back(last > first ? fmt::format("{}..{}", mesh.devices[first].value, mesh.devices[last].value)
                               : std::to_string(mesh.devices[first].value));
  }
  return fmt::format("{} [{}]", mesh.extents.empty() ? "1" : fmt::format("{}", fmt::join(mesh.extents, "x")),
                     fmt::join(ids, ", "));
}

Shape Layout::shape() const {
  Shape s;
  for (const Shape& r : radices) s.push_back(volume(r));
  return s;
}

Shape Layout::factored_shape() const { return joined(radices); }

bool Layout::is_partial() const {
  for (const tdl::Kind& k : kinds)
    if (k) return true;
  return false;
}

tdl::Reducer Layout::reducer() const {
  for (const tdl::Kind& k : kinds)
    if (k) return *k;
  ensure(false, "the reducer of a layout without partial values: {}", to_string(*this));
  return tdl::Reducer::kSum;
}

std::vector<int> Layout::partial_group(int position) const {
  std::vector<int> group, axes;
  int own = position, stride = mesh.positions();  // own: where the coordinates on the partial axes are 0
  for (size_t a = 0; a < kinds.size(); ++a) {
    stride /= mesh.extents[a];
    if (!kinds[a]) continue;
    axes.push_back(static_cast<int>(a));
    own -= position / stride % mesh.extents[a] * stride;
  }
  for_each_on(mesh.extents, axes, [&](size_t member) { group.push_back(own + static_cast<int>(member)); });
  return group;
}

std::string to_string(const Layout& layout) {
  if (auto name = name_of(layout)) return to_string(layout.mesh) + " " + to_string(*name);
  std::string text;
  for (const Box& b : layout.boxes) text += (text.empty() ? "" : ", ") + to_string(b);
  std::string kinds;
  if (layout.is_partial())
    for (const tdl::Kind& k : layout.kinds)
      kinds += (kinds.empty() ? " " : ",") + (k ? fmt::format("P({})", tdl::name_of(*k)) : "-");
  return fmt::format("{} {{{}}}{}", to_string(layout.mesh), text, kinds);
}

Layout make_layout(const Mesh& mesh, const NdSbp& sbp, const Shape& shape) {
  return make_layout(mesh, sbp, unfactored(shape));
}

Layout make_layout(const Mesh& mesh, const NdSbp& sbp, const std::vector<Shape>& radices) {
  check_mesh(mesh);
  if (sbp.size() != mesh.extents.size())
    fail("{} has {} parts, but the mesh {} has {} axes; give one part an axis", to_string(sbp), sbp.size(),
         to_string(mesh), mesh.extents.size());
  std::vector<int> first = first_factored_axis(radices);
  Layout layout{mesh, radices, {}, {}};
  layout.kinds.resize(sbp.size());
  std::vector<int> splits(sbp.size(), -1);  // per mesh axis: the factored axis that it splits
  for (size_t a = 0; a < sbp.size(); ++a) {
    if (sbp[a].kind == Sbp::Kind::kPartial) {
      if (layout.is_partial() && layout.reducer() != sbp[a].reducer)
        fail("{} holds partial values of two reducers; make one of them whole first", to_string(sbp));
      layout.kinds[a] = sbp[a].reducer;
    }
    if (sbp[a].kind != Sbp::Kind::kSplit) continue;
    if (sbp[a].axis < 0 || sbp[a].axis >= static_cast<int>(radices.size()))
      fail("{}: {} splits axis {} of a tensor of {} axes", to_string(sbp), to_string(sbp[a]), sbp[a].axis,
           radices.size());
    if (sbp[a].sub_axis < 0 || sbp[a].sub_axis >= static_cast<int>(radices[sbp[a].axis].size()))
      fail("{}: {} splits sub-axis {} of an axis with {} factors", to_string(sbp), to_string(sbp[a]), sbp[a].sub_axis,
           radices[sbp[a].axis].size());
    splits[a] = first[sbp[a].axis] + sbp[a].sub_axis;
  }
  std::vector<Along> along;
  for (const int64_t extent : joined(radices)) {
    std::vector<int> axes;
    int parts = 1;
    for (size_t a = 0; a < splits.size(); ++a)
      if (splits[a] == static_cast<int>(along.size())) axes.push_back(static_cast<int>(a)), parts *= mesh.extents[a];
    along.push_back(cut_along(extent, std::move(axes), parts));
  }
  layout.boxes = Boxes(mesh.extents, std::move(along));
  return layout;
}

namespace {

// Per mesh axis, which factored axes it may split, in order, and then whether it may split none: where no box is empty,
// the boxes along a mesh axis that splits something differ on just that.
std::vector<std::vector<int>> possible_splits(const Layout& layout, int factored_axes) {
  const Mesh& mesh = layout.mesh;
  std::vector<int> all(factored_axes + 1);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int>> possible(mesh.extents.size(), all);
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

}  // namespace

std::optional<NdSbp> name_of(const Layout& layout) {
  int axes = static_cast<int>(layout.mesh.extents.size()), positions = layout.mesh.positions();
  Shape shape = layout.factored_shape();
  std::vector<Sbp> split_of;  // per factored axis
  for (size_t a = 0; a < layout.radices.size(); ++a)
    for (size_t s = 0; s < layout.radices[a].size(); ++s)
      split_of.push_back(Sbp::split(static_cast<int>(a), static_cast<int>(s)));
  const int choices = static_cast<int>(shape.size()) + 1;  // S on each axis, then B
  const std::vector<std::vector<int>> possible = possible_splits(layout, choices - 1);
  std::vector<int> at(axes, 0), choice(axes, choices), parts(shape.size()), part(shape.size());
  for (int a = 0; a < axes; ++a) {
    if (layout.kinds[a]) continue;
    if (possible[a].empty()) return std::nullopt;
    choice[a] = possible[a][0];
  }
  auto fits = [&]() {
    std::fill(parts.begin(), parts.end(), 1);
    for (int a = 0; a < axes; ++a)
      if (choice[a] < choices - 1) parts[choice[a]] *= layout.mesh.extents[a];
    if (!layout.boxes.any_empty()) {  // what splits an axis is what its parts depend on
      for (size_t f = 0; f < shape.size(); ++f) {
        const std::vector<Interval>& along = layout.boxes.along(f).intervals;
        if (static_cast<int>(along.size()) != parts[f] || along != cut_along(shape[f], {}, parts[f]).intervals)
          return false;
      }
      return true;
    }
    for (int p = 0; p < positions; ++p) {
      std::fill(part.begin(), part.end(), 0);
      int stride = positions;
      for (int a = 0; a < axes; ++a) {
        stride /= layout.mesh.extents[a];
        if (choice[a] < choices - 1)
          part[choice[a]] = part[choice[a]] * layout.mesh.extents[a] + p / stride % layout.mesh.extents[a];
      }
      bool same = true, empty = false;
      for (size_t f = 0; f < shape.size(); ++f) {
        Interval want = cut(shape[f], parts[f], part[f]);
        same = same && want == layout.boxes[p][f];
        empty = empty || want.empty();
      }
      if (!same && !(empty && is_empty(layout.boxes[p]))) return false;
    }
    return true;
  };
  for (;;) {
    if (fits()) break;
    int a = axes - 1;
    for (; a >= 0; --a) {  // the next choice, last mesh axis fastest
      if (layout.kinds[a]) continue;
      const bool more = ++at[a] < static_cast<int>(possible[a].size());
      if (!more) at[a] = 0;
      choice[a] = possible[a][at[a]];
      if (more) break;
    }
    if (a < 0) return std::nullopt;
  }
  NdSbp sbp(axes);
  for (int a = 0; a < axes; ++a)
    sbp[a] = layout.kinds[a]           ? Sbp::partial(*layout.kinds[a])
             : choice[a] < choices - 1 ? split_of[choice[a]]
                                       : Sbp::broadcast();
  return sbp;
}

bool same_placement(const Layout& a, const Layout& b) {
  if (a.mesh != b.mesh || a.kinds != b.kinds) return false;
  if (a.radices == b.radices) {
    if (!a.boxes.any_empty() || !b.boxes.any_empty() || a.boxes == b.boxes) return a.boxes == b.boxes;
    for (size_t p = 0; p < a.boxes.size(); ++p)
      if (!same_box(a.boxes[p], b.boxes[p])) return false;
    return true;
  }
  auto common = common_radices(a.radices, b.radices);
  if (!common) return false;
  auto fine_a = over_radices(a, *common), fine_b = over_radices(b, *common);
  return fine_a && fine_b && same_placement(*fine_a, *fine_b);
}

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
  return from == to ? box : regrouped(box, joined(from), joined(to));
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
    for_each_on(extents, axes, [&](size_t position) {
      const auto changed = one_box ? regrouped(from[position], layout.radices[stored], radices[stored]) : std::nullopt;
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

OpLayouts layouts_of(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh) {
  ensure(mesh.extents == derived.mesh, "layouts of '{}': derived for mesh {}, asked for {}", bound.name,
         fmt::join(derived.mesh, "x"), fmt::join(mesh.extents, "x"));
  check_mesh(mesh);
  auto layout = [&](int tensor, const std::vector<std::vector<tdl::Kind>>& kinds) {
    Layout l{mesh, bound.tensors[tensor].radices, derived.boxes[tensor], {}};
    for (size_t a = 0; a < mesh.extents.size(); ++a) l.kinds.push_back(kinds[a][tensor]);
    return l;
  };
  OpLayouts all;
  for (int t = 0; t < bound.operand_count; ++t) all.operands.push_back(layout(t, derived.kinds));
  for (int t : bound.results) all.results.push_back(layout(t, derived.final_kinds));
  return all;
}

std::optional<Signature> signature_of(const tdl::Bound& bound, const tdl::Derived& derived, const Mesh& mesh) {
  OpLayouts layouts = layouts_of(bound, derived, mesh);
  Signature signature;
  for (auto [from, to] :
       {std::pair(&layouts.operands, &signature.operands), std::pair(&layouts.results, &signature.results)})
    for (const Layout& l : *from) {
      auto name = name_of(l);
      if (!name) return std::nullopt;
      to->push_back(*name);
    }
  return signature;
}

std::string to_string(const Signature& signature) {
  auto list = [](const std::vector<NdSbp>& all) {
    std::string text;
    for (const NdSbp& sbp : all) {
      std::vector<std::string> parts;
      for (const Sbp& s : sbp) parts.push_back(to_string(s));
      text += text.empty() ? "" : ", ";
      text += parts.size() == 1 ? parts[0] : fmt::format("[{}]", fmt::join(parts, ","));
    }
    return text;
  };
  return list(signature.operands) + " -> " + list(signature.results);
}

}  // namespace partita

// Ops that move values and compute nothing. Lists are attributes NAME.0, NAME.1, ..
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

std::vector<DType> of_first(const OpInstance& op) { return {op.dtypes.at(0)}; }

std::string join(const std::vector<std::string>& items, const char* separator = ", ") {
  return fmt::format("{}", fmt::join(items, separator));
}

std::string where(const std::vector<std::string>& bounds) { return bounds.empty() ? "" : " where " + join(bounds); }

// One index an axis: i0, i1, ..
std::vector<std::string> index_names(std::size_t rank) {
  std::vector<std::string> names;
  for (std::size_t a = 0; a < rank; ++a) names.push_back(fmt::format("i{}", a));
  return names;
}

std::size_t axis_of(const OpInstance& op, const char* attribute, std::size_t rank) {
  const int64_t axis = op.integer(attribute), n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) fail("{} {} of {} axes", attribute, axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

// ---------------------------------------------------------------- reshape

struct Digit {
  std::string name;
  int64_t extent;
};

// c1*v1 + .. + vn with the place values of a mixed radix number; "0" without digits.
std::string mixed_radix(const std::vector<Digit>& digits) {
  std::vector<std::string> terms;
  int64_t place = 1;
  for (std::size_t i = digits.size(); i-- > 0;) {
    terms.insert(terms.begin(), place == 1 ? digits[i].name : fmt::format("{}*{}", digits[i].name, place));
    place *= digits[i].extent;
  }
  return terms.empty() ? "0" : join(terms, " + ");
}

// One side of a reshape while common factors are taken off its front and its back.
struct Side {
  Shape left;  // what is left of each axis
  std::vector<std::vector<Digit>> front, back;
  std::size_t first = 0, last = 0;  // the axes between which something may be left: [first, last)

  explicit Side(const Shape& shape) : left(shape), front(shape.size()), back(shape.size()), last(shape.size()) {}
  void skip_ones() {
    while (first < last && left[first] == 1) ++first;
    while (first < last && left[last - 1] == 1) --last;
  }
};

// The factors that both shapes have at the front, and at the back, become indices of their own, which can be split;
// what remains between them without a common factor is one row-major number, divided anew.
std::string reshape_text(const Shape& from, const Shape& to) {
  if (volume(from) != volume(to))
    fail("[{}] has {} elements, [{}] has {}", fmt::join(from, "x"), volume(from), fmt::join(to, "x"), volume(to));
  Side x(from), y(to);
  std::vector<std::string> bounds;
  int count = 0;
  auto digit = [&](int64_t extent) {
    Digit d{fmt::format("i{}", count++), extent};
    bounds.push_back(fmt::format("{} < {}", d.name, extent));
    return d;
  };
  if (volume(from) > 0) {
    for (x.skip_ones(), y.skip_ones(); x.first < x.last; x.skip_ones(), y.skip_ones()) {
      const int64_t common = std::gcd(x.left[x.first], y.left[y.first]);
      if (common == 1) break;
      const Digit d = digit(common);
      x.front[x.first].push_back(d), y.front[y.first].push_back(d);
      x.left[x.first] /= common, y.left[y.first] /= common;
    }
    for (x.skip_ones(), y.skip_ones(); x.first < x.last; x.skip_ones(), y.skip_ones()) {
      const int64_t common = std::gcd(x.left[x.last - 1], y.left[y.last - 1]);
      if (common == 1) break;
      const Digit d = digit(common);
      auto put = [&](Side& side) {
        auto& back = side.back[side.last - 1];
        back.insert(back.begin(), d);
        side.left[side.last - 1] /= common;
      };
      put(x), put(y);
    }
  }
  // What is left: y has an index an axis, and x reads the digits of their number.
  std::vector<std::vector<Digit>> y_axes = y.front, x_axes = x.front;
  std::vector<Digit> rest;
  for (std::size_t a = 0; a < to.size(); ++a) {
    if (y.left[a] != 1) {
      rest.push_back(digit(y.left[a]));
      y_axes[a].push_back(rest.back());
    }
    y_axes[a].insert(y_axes[a].end(), y.back[a].begin(), y.back[a].end());
  }
  const std::string number = mixed_radix(rest);
  int64_t place = 1;
  bool top = true;
  for (int64_t extent : x.left) place *= extent;
  for (std::size_t a = 0; a < from.size(); ++a) {
    if (x.left[a] != 1) {
      place = x.left[a] == 0 ? 1 : place / x.left[a];
      std::string value = place == 1 ? fmt::format("({})", number) : fmt::format("(({})//{})", number, place);
      if (!top) value = fmt::format("({} % {})", value, x.left[a]);
      top = false;
      x_axes[a].push_back({value, x.left[a]});
    }
    x_axes[a].insert(x_axes[a].end(), x.back[a].begin(), x.back[a].end());
  }
  std::vector<std::string> result, read;
  for (const auto& digits : y_axes) {
    if (digits.empty()) {  // an axis of extent 1
      result.push_back(digit(1).name);
    } else {
      result.push_back(mixed_radix(digits));
    }
  }
  for (const auto& digits : x_axes) read.push_back(mixed_radix(digits));
  return fmt::format("reshape(x)[{}]{} = x[{}]", join(result), where(bounds), join(read));
}

std::string reshape(const OpInstance& op) { return reshape_text(op.shapes.at(0), op.list("shape")); }

// To [product of the axes before `axis`, product of the others].
std::string flatten(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const int64_t rank = static_cast<int64_t>(x.size());
  int64_t axis = op.integer("axis");
  if (axis < -rank || axis > rank) fail("axis {} of {} axes", axis, rank);
  if (axis < 0) axis += rank;
  Shape to{1, 1};
  for (int64_t a = 0; a < rank; ++a) to[a < axis ? 0 : 1] *= x[static_cast<std::size_t>(a)];
  return reshape_text(x, to);
}

// Without the axes `axes` of extent 1; none given: without all of them.
std::string squeeze(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const int64_t rank = static_cast<int64_t>(x.size());
  std::vector<bool> gone(x.size());
  for (int64_t axis : op.list("axes")) {
    if (axis < -rank || axis >= rank) fail("axis {} of {} axes", axis, rank);
    const std::size_t a = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    if (x[a] != 1) fail("axis {} has extent {}, so it cannot be squeezed", axis, x[a]);
    gone[a] = true;
  }
  Shape to;
  for (std::size_t a = 0; a < x.size(); ++a)
    if (op.list("axes").empty() ? x[a] != 1 : !gone[a]) to.push_back(x[a]);
  return reshape_text(x, to);
}

// With axes of extent 1 at the positions `axes` of the result.
std::string unsqueeze(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const std::vector<int64_t> axes = op.list("axes");
  const int64_t rank = static_cast<int64_t>(x.size() + axes.size());
  std::vector<bool> fresh(static_cast<std::size_t>(rank));
  for (int64_t axis : axes) {
    if (axis < -rank || axis >= rank) fail("axis {} of {} axes", axis, rank);
    auto&& is_fresh = fresh[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
    if (is_fresh) fail("axis {} is given twice", axis);
    is_fresh = true;
  }
  Shape to;
  std::size_t next = 0;
  for (bool one : fresh) to.push_back(one ? 1 : x[next++]);
  return reshape_text(x, to);
}

// ---------------------------------------------------------------- others

// Axis k of the result is axis perm.k of x.
std::string transpose(const OpInstance& op) {
  const std::size_t rank = op.shapes.at(0).size();
  std::vector<int64_t> order = op.list("perm");
  if (order.empty())
    for (std::size_t a = rank; a-- > 0;) order.push_back(static_cast<int64_t>(a));
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t a = 0; a < sorted.size(); ++a)
    if (sorted.size() != rank || sorted[a] != static_cast<int64_t>(a))
      fail("perm [{}] is no order of {} axes", fmt::join(order, ", "), rank);
  const std::vector<std::string> names = index_names(rank);
  std::vector<std::string> result;
  for (int64_t axis : order) result.push_back(names[static_cast<std::size_t>(axis)]);
  return fmt::format("transpose(x)[{}] = x[{}]", join(result), join(names));
}

// To `shape`, as NumPy broadcasts.
std::string expand(const OpInstance& op) {
  const Shape &x = op.shapes.at(0), to = op.list("shape");
  if (to.size() < x.size()) fail("[{}] cannot be broadcast to [{}]", fmt::join(x, "x"), fmt::join(to, "x"));
  const std::vector<std::string> names = index_names(to.size());
  std::vector<std::string> read, bounds;
  for (std::size_t a = 0; a < to.size(); ++a) {
    bounds.push_back(fmt::format("{} < {}", names[a], to[a]));
    if (a + x.size() < to.size()) continue;
    const int64_t extent = x[a + x.size() - to.size()];
    if (extent != to[a] && extent != 1) fail("[{}] cannot be broadcast to [{}]", fmt::join(x, "x"), fmt::join(to, "x"));
    read.push_back(extent == to[a] ? names[a] : "0");
  }
  return fmt::format("expand(x)[{}]{} = x[{}]", join(names), where(bounds), join(read));
}

// before.k and after.k values around axis k; a negative number takes as many away.
std::string pad(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const std::vector<int64_t> before = op.list("before"), after = op.list("after");
  if (before.size() != x.size() || after.size() != x.size())
    fail("pad needs before.k and after.k for each of {} axes", x.size());
  const std::vector<std::string> names = index_names(x.size());
  std::vector<std::string> read, bounds;
  for (std::size_t a = 0; a < x.size(); ++a) {
    const int64_t extent = x[a] + before[a] + after[a];
    if (extent < 0) fail("axis {}: extent {} padded by {} and {}", a, x[a], before[a], after[a]);
    if (before[a] || after[a]) bounds.push_back(fmt::format("{} < {}", names[a], extent));
    read.push_back(before[a] == 0 ? names[a]
                                  : fmt::format("{} {} {}", names[a], before[a] < 0 ? "+" : "-", std::abs(before[a])));
  }
  const double value = op.attributes.at("value");
  const std::string otherwise = value == 0 ? "" : fmt::format(" else {}", value);
  return fmt::format("pad(x)[{}]{} = x[{}]{}", join(names), where(bounds), join(read), otherwise);
}

// sizes.k values of axis k from starts.k on, steps.k apart (1 if no steps are given; a negative step goes down).
std::string slice(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const std::vector<int64_t> starts = op.list("starts"), sizes = op.list("sizes");
  std::vector<int64_t> steps = op.list("steps");
  if (steps.empty()) steps.assign(x.size(), 1);
  if (starts.size() != x.size() || sizes.size() != x.size() || steps.size() != x.size())
    fail("slice needs starts.k and sizes.k for each of {} axes", x.size());
  const std::vector<std::string> names = index_names(x.size());
  std::vector<std::string> read, bounds;
  for (std::size_t a = 0; a < x.size(); ++a) {
    const int64_t end = starts[a] + (sizes[a] - 1) * steps[a];
    if (sizes[a] < 0 || (sizes[a] > 0 && (starts[a] < 0 || starts[a] >= x[a] || end < 0 || end >= x[a])))
      fail("axis {} of extent {}: {} values from {} on, {} apart, are not all inside", a, x[a], sizes[a], starts[a],
           steps[a]);
    if (starts[a] == 0 && steps[a] == 1 && sizes[a] == x[a]) {
      read.push_back(names[a]);
      continue;
    }
    bounds.push_back(fmt::format("{} < {}", names[a], sizes[a]));
    std::string position = steps[a] == 1 ? names[a] : fmt::format("{}*{}", names[a], steps[a]);
    if (steps[a] < 0)
      position = steps[a] == -1 ? fmt::format("{} - {}", starts[a], names[a])
                                : fmt::format("{} - {}*{}", starts[a], names[a], -steps[a]);
    else if (starts[a]) position += fmt::format(" + {}", starts[a]);
    read.push_back(position);
  }
  return fmt::format("slice(x)[{}]{} = x[{}]", join(names), where(bounds), join(read));
}

// Element `index` along `axis`, which goes.
std::string select(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const std::size_t axis = axis_of(op, "axis", x.size());
  const int64_t index = op.integer("index");
  if (index < 0 || index >= x[axis]) fail("element {} of axis {} of extent {}", index, axis, x[axis]);
  std::vector<std::string> read = index_names(x.size()), result = read;
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  read[axis] = std::to_string(index);
  return fmt::format("select(x)[{}] = x[{}]", join(result), join(read));
}

// Whether `together` is asked for; `sizes` must then be equal.
bool together(const OpInstance& op, const std::vector<int64_t>& sizes) {
  if (op.attributes.at("together") == 0) return false;
  for (int64_t size : sizes)
    if (size != sizes[0]) fail("together: parts of [{}] are not equal", fmt::join(sizes, ", "));
  return true;
}

// With `together`, the result's axis is (part c, place s), so that a cut of s cuts every part alike (TDL.md rule 4).
std::string concat(const OpInstance& op) {
  if (op.shapes.empty()) fail("concat needs operands");
  const std::size_t rank = op.shapes[0].size(), axis = axis_of(op, "axis", rank);
  std::vector<std::string> names = index_names(rank);
  std::vector<int64_t> sizes;
  std::vector<std::string> operands, terms;
  int64_t offset = 0;
  for (std::size_t k = 0; k < op.shapes.size(); ++k) {
    for (std::size_t a = 0; a < rank; ++a)
      if (op.shapes[k].size() != rank || (a != axis && op.shapes[k][a] != op.shapes[0][a]))
        fail("operand {} is [{}], the first is [{}]: all axes but axis {} must be equal", k,
             fmt::join(op.shapes[k], "x"), fmt::join(op.shapes[0], "x"), axis);
    operands.push_back(fmt::format("x{}", k));
    std::vector<std::string> read = names;
    if (offset) read[axis] += fmt::format(" - {}", offset);
    terms.push_back(fmt::format("x{}[{}]", k, join(read)));
    sizes.push_back(op.shapes[k][axis]);
    offset += op.shapes[k][axis];
  }
  if (together(op, sizes)) {
    names[axis] = "s";
    for (std::size_t k = 0; k < terms.size(); ++k) terms[k] = fmt::format("if(c == {}, x{}[{}], 0)", k, k, join(names));
    names[axis] = fmt::format("{}*c + s", sizes[0]);
    return fmt::format("concat({})[{}] where c < {}, s < {} = {}", join(operands), join(names), sizes.size(), sizes[0],
                       join(terms, " + "));
  }
  return fmt::format("concat({})[{}] where {} < {} = {}", join(operands), join(names), names[axis], offset,
                     join(terms, " + "));
}

// With `together`, the parts have one index s along the axis, so that a cut of s cuts all of them alike (TDL.md rule
// 4).
std::string split(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const std::size_t axis = axis_of(op, "axis", x.size());
  const std::vector<int64_t> sizes = op.list("sizes");
  const bool alike = together(op, sizes);
  int64_t total = 0;
  std::vector<std::string> results, bounds, stages;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    std::vector<std::string> names = index_names(x.size());
    names[axis] = alike ? "s" : fmt::format("s{}", k);
    std::vector<std::string> read = names;
    if (total) read[axis] += fmt::format(" + {}", total);
    results.push_back(fmt::format("y{}", k));
    if (!alike || k == 0) bounds.push_back(fmt::format("{} < {}", names[axis], sizes[k]));
    stages.push_back(fmt::format("y{}[{}] = x[{}]", k, join(names), join(read)));
    total += sizes[k];
  }
  if (sizes.empty() || total != x[axis]) fail("split into [{}]: axis {} has {}", fmt::join(sizes, ", "), axis, x[axis]);
  return fmt::format("split(x) -> {}{} =\n{}", join(results), where(bounds), join(stages, "\n"));
}

// x[.., ids[..], ..]: `ids` takes the place of axis `axis`.
std::string gather(const OpInstance& op) {
  const std::size_t rank = op.shapes.at(0).size(), axis = axis_of(op, "axis", rank);
  if (op.shapes.size() != 2) fail("gather takes x and ids");
  std::vector<std::string> result, read = index_names(rank), ids;
  for (std::size_t b = 0; b < op.shapes[1].size(); ++b) ids.push_back(fmt::format("b{}", b));
  for (std::size_t a = 0; a < rank; ++a) {
    if (a == axis) result.insert(result.end(), ids.begin(), ids.end());
    else result.push_back(read[a]);
  }
  read[axis] = fmt::format("v = ids[{}]", join(ids));
  return fmt::format("gather(x, ids)[{}] = x[{}]", join(result), join(read));
}

tdl::Attributes join(tdl::Attributes a, const tdl::Attributes& b) {
  a.insert(b.begin(), b.end());
  return a;
}

}  // namespace

void declare_shape(OpRegistry& registry) {
  declare(registry, "reshape", "the same elements, row-major, in `shape`")
      .formula(reshape)
      .list("shape")
      .dtypes(of_first)
      .match([](const tdl::Attributes&, const Shape& result) {
        return listed("shape", {result.begin(), result.end()});
      })
      .example({{3, 5, 4}}, listed("shape", {3, 20}))
      .example({{3, 20}}, listed("shape", {3, 5, 4}))
      .example({{4, 6}}, listed("shape", {8, 3}))
      .example({{6, 4}}, listed("shape", {4, 6}))
      .example({{4, 6}}, listed("shape", {3, 8}))
      .example({{5, 1, 4}}, listed("shape", {1, 5, 2, 2, 1}));
  declare(registry, "flatten", "[the axes before `axis`, the others]")
      .formula(flatten)
      .attribute("axis", 1)
      .dtypes(of_first)
      .example({{3, 2, 5}})
      .example({{3, 2, 5}}, {{"axis", 2}});
  declare(registry, "squeeze", "without the axes `axes` of extent 1; without all such axes if none are given")
      .formula(squeeze)
      .list("axes")
      .dtypes(of_first)
      .example({{3, 1, 5, 1}}, {{"axes.0", -1}});
  declare(registry, "unsqueeze", "with axes of extent 1 at the positions `axes` of the result")
      .formula(unsqueeze)
      .list("axes")
      .dtypes(of_first)
      .example({{3, 5}}, {{"axes.0", 1}, {"axes.1", -1}});
  declare(registry, "transpose", "axes in the order `perm`; reversed if there is none")
      .formula(transpose)
      .list("perm")
      .dtypes(of_first)
      .example({{3, 5, 4}}, listed("perm", {1, 0, 2}))
      .example({{3, 5}});
  declare(registry, "expand", "broadcast to `shape`")
      .formula(expand)
      .list("shape")
      .dtypes(of_first)
      .example({{3, 1}}, listed("shape", {2, 3, 5}));
  declare(registry, "pad", "`before` and `after` values of `value` around each axis")
      .formula(pad)
      .list("before")
      .list("after")
      .attribute("value", 0)
      .dtypes(of_first)
      .example({{7, 3}}, join(listed("before", {2, 0}), listed("after", {3, 0})))
      .example({{7, 3}}, join(join(listed("before", {2, 1}), listed("after", {3, 0})), {{"value", 1.5}}));
  declare(registry, "slice", "`sizes` values of each axis from `starts` on, `steps` apart")
      .formula(slice)
      .list("starts")
      .list("sizes")
      .list("steps")
      .dtypes(of_first)
      .example({{3, 11, 4}},
               join(join(listed("starts", {0, 1, 0}), listed("sizes", {3, 5, 4})), listed("steps", {1, 2, 1})))
      .example({{7, 3}}, join(join(listed("starts", {6, 0}), listed("sizes", {7, 2})), listed("steps", {-1, 1})));
  declare(registry, "select", "element `index` along `axis`, which goes")
      .formula(select)
      .required("axis")
      .required("index")
      .dtypes(of_first)
      .example({{5, 3, 7}}, {{"axis", 1}, {"index", 2}})
      .example({{5, 4}}, {{"axis", 0}, {"index", 0}}, {DType::kInt64});
  declare(registry, "concat", "operands one after another along `axis`")
      .formula(concat)
      .attribute("axis", 0)
      .attribute("together", 0)
      .example({{2, 3}, {5, 3}, {3, 3}})
      .example({{3, 2}, {3, 4}}, {{"axis", 1}})
      .example({{5, 3}, {5, 3}, {5, 3}}, {{"together", 1}});
  declare(registry, "split", "`sizes` values of `axis` each")
      .formula(split)
      .attribute("axis", 0)
      .attribute("together", 0)
      .list("sizes")
      .dtypes([](const OpInstance& op) { return std::vector<DType>(op.list("sizes").size(), op.dtypes.at(0)); })
      .example({{7, 3}}, listed("sizes", {3, 4}))
      .example({{3, 6}}, join(listed("sizes", {1, 3, 2}), {{"axis", 1}}))
      .example({{3, 15}}, join(listed("sizes", {5, 5, 5}), {{"axis", 1}, {"together", 1}}));
  declare(registry, "gather", "x at the numbers in ids along `axis`")
      .formula(gather)
      .attribute("axis", 0)
      .dtypes(of_first)
      .example({{7, 5}, {3, 2}}, {}, {DType::kFloat32, DType::kInt64})
      .integers_below(7)
      .example({{3, 7}, {4}}, {{"axis", 1}}, {DType::kFloat32, DType::kInt64})
      .integers_below(7);
}

}  // namespace partita

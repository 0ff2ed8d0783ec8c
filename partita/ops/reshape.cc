// Declares ops that give the same elements another shape: reshape, flatten, squeeze and unsqueeze.
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/ops/declare.h"
#include "partita/ops/text.h"

namespace partita {
namespace {

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
  return terms.empty() ? "0" : join_texts(terms, " + ");
}

// One side of a reshape while common factors are taken off its front and its back.
struct Side {
  Shape left;  // the undivided rest of each axis
  std::vector<std::vector<Digit>> front, back;
  std::size_t first = 0, last = 0;  // the axes that may have a rest: [first, last)

  explicit Side(const Shape& shape) : left(shape), front(shape.size()), back(shape.size()), last(shape.size()) {}
  void skip_ones() {
    while (first < last && left[first] == 1) ++first;
    while (first < last && left[last - 1] == 1) --last;
  }
};

// Takes common factors of both sides off their front and their back: each becomes an index of its own.
template <typename NewDigit>
void take_common_factors(Side& x, Side& y, NewDigit digit) {
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

// Common factors at the front, and at the back, of both shapes become indices of their own, which can be split. The
// rest between them, without a common factor, is one row-major number, divided anew.
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
  if (volume(from) > 0) take_common_factors(x, y, digit);
  // For the rest, y has an index an axis, and x reads the digits of their number.
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
      place = x.left[a] == 0 ? 1 : std::max<int64_t>(1, place / x.left[a]);  // without elements nothing is read
      std::string value = place == 1 ? fmt::format("({})", number) : fmt::format("(({})//{})", number, place);
      if (!top && x.left[a] != 0) value = fmt::format("({} % {})", value, x.left[a]);
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
  return fmt::format("reshape(x)[{}]{} = x[{}]", join_texts(result), where_clause(bounds), join_texts(read));
}

std::string reshape(const OpInstance& op) { return reshape_text(op.shapes.at(0), op.list("shape")); }

// Reshapes to [product of the axes before `axis`, product of the others].
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

// Drops the axes `axes` of extent 1; if none are given, all of them.
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

// Adds axes of extent 1 at the positions `axes` of the result.
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

}  // namespace

void declare_reshape(OpRegistry& registry) {
  declare(registry, "reshape", "the same elements, row-major, in `shape`")
      .formula(reshape)
      .list("shape")
      .dtypes(dtype_of_first)
      .match([](const tdl::Attributes&, const Shape& result) {
        return list_attributes("shape", {result.begin(), result.end()});
      })
      .example({{3, 5, 4}}, list_attributes("shape", {3, 20}))
      .example({{3, 20}}, list_attributes("shape", {3, 5, 4}))
      .example({{4, 6}}, list_attributes("shape", {8, 3}))
      .example({{6, 4}}, list_attributes("shape", {4, 6}))
      .example({{4, 6}}, list_attributes("shape", {3, 8}))
      .example({{5, 1, 4}}, list_attributes("shape", {1, 5, 2, 2, 1}));
  declare(registry, "flatten", "[the axes before `axis`, the others]")
      .formula(flatten)
      .attribute("axis", 1)
      .dtypes(dtype_of_first)
      .example({{3, 2, 5}})
      .example({{3, 2, 5}}, {{"axis", 2}});
  declare(registry, "squeeze", "without the axes `axes` of extent 1; without all such axes if none are given")
      .formula(squeeze)
      .list("axes")
      .dtypes(dtype_of_first)
      .example({{3, 1, 5, 1}}, {{"axes.0", -1}});
  declare(registry, "unsqueeze", "with axes of extent 1 at the positions `axes` of the result")
      .formula(unsqueeze)
      .list("axes")
      .dtypes(dtype_of_first)
      .example({{3, 5}}, {{"axes.0", 1}, {"axes.1", -1}});
}

}  // namespace partita

// Declares ops that move values and compute nothing. Lists are attributes NAME.0, NAME.1, ..
#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/graph/attributes.h"
#include "partita/ops/declare.h"
#include "partita/ops/text.h"

namespace partita {
namespace {

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
  return fmt::format("transpose(x)[{}] = x[{}]", join_texts(result), join_texts(names));
}

// Takes each `step`th value of the last axis, from `start` on.
std::string every(const OpInstance& op) {
  const int64_t start = op.integer("start"), step = op.integer("step"),
                all = op.shapes.at(0).empty() ? 0 : op.shapes[0].back();
  if (start < 0 || start >= all || step < 1) fail("every: start={} and step={} of {} values", start, step, all);
  return fmt::format("every(x)[..n, i] where i < {} = x[..n, i*{} + {}]", (all - start + step - 1) / step, step, start);
}

// Broadcasts to `shape`, as NumPy does.
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
  return fmt::format("expand(x)[{}]{} = x[{}]", join_texts(names), where_clause(bounds), join_texts(read));
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
  return fmt::format("pad(x)[{}]{} = x[{}]{}", join_texts(names), where_clause(bounds), join_texts(read), otherwise);
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
  return fmt::format("slice(x)[{}]{} = x[{}]", join_texts(names), where_clause(bounds), join_texts(read));
}

// Takes element `index` along `axis`, which goes.
std::string select(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const std::size_t axis = axis_of(op, "axis", x.size());
  const int64_t index = op.integer("index");
  if (index < 0 || index >= x[axis]) fail("element {} of axis {} of extent {}", index, axis, x[axis]);
  std::vector<std::string> read = index_names(x.size()), result = read;
  result.erase(result.begin() + static_cast<std::ptrdiff_t>(axis));
  read[axis] = std::to_string(index);
  return fmt::format("select(x)[{}] = x[{}]", join_texts(result), join_texts(read));
}

// Tells whether `together` is asked for; `sizes` must then be equal.
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
    terms.push_back(fmt::format("x{}[{}]", k, join_texts(read)));
    sizes.push_back(op.shapes[k][axis]);
    offset += op.shapes[k][axis];
  }
  if (together(op, sizes)) {
    names[axis] = "s";
    for (std::size_t k = 0; k < terms.size(); ++k)
      terms[k] = fmt::format("if(c == {}, x{}[{}], 0)", k, k, join_texts(names));
    names[axis] = fmt::format("{}*c + s", sizes[0]);
    return fmt::format("concat({})[{}] where c < {}, s < {} = {}", join_texts(operands), join_texts(names),
                       sizes.size(), sizes[0], join_texts(terms, " + "));
  }
  return fmt::format("concat({})[{}] where {} < {} = {}", join_texts(operands), join_texts(names), names[axis], offset,
                     join_texts(terms, " + "));
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
    stages.push_back(fmt::format("y{}[{}] = x[{}]", k, join_texts(names), join_texts(read)));
    total += sizes[k];
  }
  if (sizes.empty() || total != x[axis]) fail("split into [{}]: axis {} has {}", fmt::join(sizes, ", "), axis, x[axis]);
  return fmt::format("split(x) -> {}{} =\n{}", join_texts(results), where_clause(bounds), join_texts(stages, "\n"));
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
  read[axis] = fmt::format("v = ids[{}]", join_texts(ids));
  return fmt::format("gather(x, ids)[{}] = x[{}]", join_texts(result), join_texts(read));
}

tdl::Attributes merge_attributes(tdl::Attributes a, const tdl::Attributes& b) {
  a.insert(b.begin(), b.end());
  return a;
}

void declare_views(OpRegistry& registry) {
  declare(registry, "transpose", "axes in the order `perm`; reversed if there is none")
      .formula(transpose)
      .list("perm")
      .dtypes(dtype_of_first)
      .example({{3, 5, 4}}, list_attributes("perm", {1, 0, 2}))
      .example({{3, 5}});
  declare(registry, "expand", "broadcast to `shape`")
      .formula(expand)
      .list("shape")
      .dtypes(dtype_of_first)
      .example({{3, 1}}, list_attributes("shape", {2, 3, 5}));
  declare(registry, "pad", "`before` and `after` values of `value` around each axis")
      .formula(pad)
      .list("before")
      .list("after")
      .attribute("value", 0)
      .dtypes(dtype_of_first)
      .example({{7, 3}}, merge_attributes(list_attributes("before", {2, 0}), list_attributes("after", {3, 0})))
      .example({{7, 3}},
               merge_attributes(merge_attributes(list_attributes("before", {2, 1}), list_attributes("after", {3, 0})),
                                {{"value", 1.5}}));
  declare(registry, "every", "each `step`th value of the last axis, from `start` on")
      .formula(every)
      .attribute("start", 0)
      .required("step")
      .dtypes(dtype_of_first)
      .example({{3, 5, 8}}, {{"step", 2}})
      .example({{4, 7}}, {{"start", 1}, {"step", 2}});
  declare(registry, "slice", "`sizes` values of each axis from `starts` on, `steps` apart")
      .formula(slice)
      .list("starts")
      .list("sizes")
      .list("steps")
      .dtypes(dtype_of_first)
      .example({{3, 11, 4}}, merge_attributes(merge_attributes(list_attributes("starts", {0, 1, 0}),
                                                               list_attributes("sizes", {3, 5, 4})),
                                              list_attributes("steps", {1, 2, 1})))
      .example({{7, 3}},
               merge_attributes(merge_attributes(list_attributes("starts", {6, 0}), list_attributes("sizes", {7, 2})),
                                list_attributes("steps", {-1, 1})));
  declare(registry, "select", "element `index` along `axis`, which goes")
      .formula(select)
      .required("axis")
      .required("index")
      .dtypes(dtype_of_first)
      .example({{5, 3, 7}}, {{"axis", 1}, {"index", 2}})
      .example({{5, 4}}, {{"axis", 0}, {"index", 0}}, {DType::kInt64});
}

void declare_joins(OpRegistry& registry) {
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
      .example({{7, 3}}, list_attributes("sizes", {3, 4}))
      .example({{3, 6}}, merge_attributes(list_attributes("sizes", {1, 3, 2}), {{"axis", 1}}))
      .example({{3, 15}}, merge_attributes(list_attributes("sizes", {5, 5, 5}), {{"axis", 1}, {"together", 1}}));
  declare(registry, "gather", "x at the numbers in ids along `axis`")
      .formula(gather)
      .attribute("axis", 0)
      .dtypes(dtype_of_first)
      .example({{7, 5}, {3, 2}}, {}, {DType::kFloat32, DType::kInt64})
      .integers_below(7)
      .example({{3, 7}, {4}}, {{"axis", 1}}, {DType::kFloat32, DType::kInt64})
      .integers_below(7);
}

}  // namespace

void declare_shape(OpRegistry& registry) {
  declare_views(registry);
  declare_joins(registry);
}

}  // namespace partita

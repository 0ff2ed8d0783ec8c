// Declares ops along one axis, by numbers read from data or by the order of the axis: gather and scatter of elements,
// running sums, the largest k. All have an attribute `axis`.
#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/graph/infer.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

// The result has the wider dtype of x and u; the ids between them do not count.
std::vector<DType> widest_value(const OpInstance& op) {
  const DType x = op.dtypes.at(0), u = op.dtypes.at(2);
  return {x == u ? x : promoted_dtype({x, u}, {op.shapes[0], op.shapes[2]})};
}

// Subscripts of operand 0 with `name` at the axis: "i0, j, i2".
struct Axis {
  std::size_t number;
  int64_t extent;
  std::vector<std::string> names;

  std::string with(const std::string& name) const {
    std::vector<std::string> all = names;
    all[number] = name;
    return fmt::format("{}", fmt::join(all, ", "));
  }
};

Axis axis_of(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const int64_t rank = static_cast<int64_t>(x.size()), axis = op.integer("axis");
  if (axis < -rank || axis >= rank) fail("axis {} of {} axes", axis, rank);
  Axis result;
  result.number = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  result.extent = x[result.number];
  for (std::size_t a = 0; a < x.size(); ++a) result.names.push_back(fmt::format("i{}", a));
  return result;
}

// ids has x's shape but for the axis.
void validate_ids(const OpInstance& op, const Axis& axis, const char* name) {
  const Shape &x = op.shapes[0], &ids = op.shapes.at(1);
  for (std::size_t a = 0; a < std::max(x.size(), ids.size()); ++a)
    if (ids.size() != x.size() || (a != axis.number && ids[a] != x[a]))
      fail("{}: x is [{}], ids are [{}]: all axes but axis {} must be equal", name, fmt::join(x, "x"),
           fmt::join(ids, "x"), axis.number);
}

// One extent for all, or one for each element along the last axis.
std::string places(const OpInstance& op) {
  const std::vector<int64_t> extents = op.list("extents");
  const Shape& ids = op.shapes.at(0);
  if (extents.empty() || (extents.size() > 1 && (ids.empty() || ids.back() != static_cast<int64_t>(extents.size()))))
    fail("places: {} extents for numbers [{}]", extents.size(), fmt::join(ids, "x"));
  if (extents.size() == 1) return fmt::format("places(i)[..b] = if(i[..b] < 0, i[..b] + {}, i[..b])", extents[0]);
  std::string extent = fmt::format("{}", extents.back());
  for (std::size_t k = extents.size() - 1; k-- > 0;) extent = fmt::format("if(c == {}, {}, {})", k, extents[k], extent);
  return fmt::format("places(i)[..b, c] = if(i[..b, c] < 0, i[..b, c] + {}, i[..b, c])", extent);
}

std::string gather_elements(const OpInstance& op) {
  const Axis axis = axis_of(op);
  if (op.shapes.size() != 2) fail("gather_elements takes x and ids");
  validate_ids(op, axis, "gather_elements");
  return fmt::format("gather_elements(x, ids)[{0}] = x[{1}]", axis.with("j"),
                     axis.with(fmt::format("v = ids[{}]", axis.with("j"))));
}

std::string scatter_add_elements(const OpInstance& op) {
  const Axis axis = axis_of(op);
  if (op.shapes.size() != 3) fail("scatter_add_elements takes x, ids and u");
  validate_ids(op, axis, "scatter_add_elements");
  return fmt::format("scatter_add_elements(x, ids, u)[{0}] = x[{0}] + sum(j) if(ids[{1}] == v, u[{1}], 0)",
                     axis.with("v"), axis.with("j"));
}

// If several values meet in a place, the last counts.
std::string scatter_elements(const OpInstance& op) {
  const Axis axis = axis_of(op);
  if (op.shapes.size() != 3) fail("scatter_elements takes x, ids and u");
  validate_ids(op, axis, "scatter_elements");
  return fmt::format(
      "scatter_elements(x, ids, u)[{0}] =\n"
      "k[{0}] = max(j) if(ids[{1}] == v, j, -1)\n"
      "s[{0}] = sum(j) if(j == k[{0}], u[{1}], 0)\n"
      "if(k[{0}] < 0, x[{0}], s[{0}])",
      axis.with("v"), axis.with("j"));
}

std::string cumsum(const OpInstance& op) {
  const Axis axis = axis_of(op);
  const std::string compare =
      fmt::format("k {}{} i", op.integer("reverse") ? ">" : "<", op.integer("exclusive") ? "" : "=");
  return fmt::format("cumsum(x)[{0}] where i < {1} = sum(k) if({2}, x[{3}], 0)", axis.with("i"), axis.extent, compare,
                     axis.with("k"));
}

// Finds each value's rank along the axis by counting those before it; among equals the first comes first.
std::string top_k(const OpInstance& op) {
  const Axis axis = axis_of(op);
  const int64_t k = op.integer("k");
  if (k < 1 || k > axis.extent) fail("k={} of {} values", k, axis.extent);
  const std::string j = axis.with("j"), l = axis.with("l"), r = axis.with("r");
  return fmt::format(
      "top_k(x) -> v, ix where l < {0}, r < {1} =\n"
      "n[{2}] = sum(l) if(x[{3}] {5} x[{2}] or x[{3}] == x[{2}] and l < j, 1, 0)\n"
      "v[{4}] = sum(j) if(n[{2}] == r, x[{2}], 0)\n"
      "ix[{4}] = sum(j) if(n[{2}] == r, j, 0)",
      axis.extent, k, j, l, r, op.integer("largest") ? ">" : "<");
}

std::string top_k_grad(const OpInstance& op) {
  const Axis axis = axis_of(op);
  return fmt::format("top_k_grad(ix, g)[{0}] where j < extent = sum(r) if(ix[{1}] == j, g[{1}], 0)", axis.with("j"),
                     axis.with("r"));
}

std::vector<TensorId> top_k_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  if (!g[0].valid()) return {{}};
  const Shape& x = build.shape(forward.operands[0]);
  const double axis = forward.attributes.at("axis");
  const double extent =
      static_cast<double>(x[static_cast<std::size_t>(axis < 0 ? axis + static_cast<double>(x.size()) : axis)]);
  return {build.op("top_k_grad", {forward.results[1], g[0]}, {{"axis", axis}, {"extent", extent}},
                   forward.name + ".grad.x")};
}

constexpr DType kReal = DType::kFloat32, kInteger = DType::kInt64;

void declare_elements(OpRegistry& registry) {
  declare(registry, "gather_elements", "x at the numbers in ids along `axis`, ids of x's shape but for the axis")
      .formula(gather_elements)
      .attribute("axis", 0)
      .dtypes(dtype_of_first)
      .example({{5, 3}, {4, 3}}, {}, {kReal, kInteger})
      .integers_below(5)
      .example({{5, 7}, {5, 4}}, {{"axis", -1}}, {kReal, kInteger})
      .integers_below(7);
  declare(registry, "places",
          "numbers of places along axes of `extents`, those below 0 counted from the end; one outside ends the run")
      .formula(places)
      .list("extents")
      .dtypes(dtype_of_first)
      .not_differentiable()
      .example({{5, 7}}, {{"extents.0", 7}}, {kInteger})
      .integers_below(7)
      .example({{5, 3}}, {{"extents.0", 3}, {"extents.1", 4}, {"extents.2", 5}}, {kInteger})
      .integers_below(3);
  declare(registry, "scatter_elements", "x with u at the numbers in ids along `axis`; of several the last")
      .formula(scatter_elements)
      .attribute("axis", 0)
      .dtypes(widest_value)
      .example({{5, 3}, {4, 3}, {4, 3}}, {}, {kReal, kInteger, kReal})
      .integers_below(5)
      .example({{3, 7}, {3, 4}, {3, 4}}, {{"axis", 1}}, {kReal, kInteger, kReal})
      .integers_below(7);
  declare(registry, "scatter_add_elements", "x with u added at the numbers in ids along `axis`")
      .formula(scatter_add_elements)
      .attribute("axis", 0)
      .dtypes(widest_value)
      .example({{5, 3}, {4, 3}, {4, 3}}, {}, {kReal, kInteger, kReal})
      .integers_below(5)
      .example({{3, 7}, {3, 4}, {3, 4}}, {{"axis", 1}}, {kReal, kInteger, kReal})
      .integers_below(7);
}

void declare_along_an_axis(OpRegistry& registry) {
  declare(registry, "cumsum",
          "running sum along `axis`; `exclusive`: without the value itself; `reverse`: from the end")
      .full_precision()
      .formula(cumsum)
      .attribute("axis", 0)
      .attribute("exclusive", 0)
      .attribute("reverse", 0)
      .dtypes(dtype_of_first)
      .example({{7, 3}})
      .example({{3, 5, 2}}, {{"axis", 1}, {"exclusive", 1}, {"reverse", 1}})
      .example({{3, 5}}, {{"axis", -1}}, {kInteger})
      .integers_below(9);
  declare(registry, "top_k",
          "the k largest along `axis` in falling order, and their numbers; the first of equals first")
      .formula(top_k)
      .required("k")
      .attribute("axis", -1)
      .attribute("largest", 1)
      .dtypes([](const OpInstance& op) {
        return std::vector<DType>{op.dtypes.at(0), DType::kInt64};
      })
      .gradient(top_k_gradient)
      .example({{5, 7}}, {{"k", 3}})
      .example({{4, 3, 2}}, {{"k", 2}, {"axis", 0}, {"largest", 0}});
  declare(registry, "top_k_grad", "gradient of top_k from its numbers")
      .formula(top_k_grad)
      .required("extent")
      .attribute("axis", -1)
      .dtypes([](const OpInstance& op) { return std::vector<DType>{op.dtypes.at(1)}; })
      .not_differentiable()
      .example({{5, 3}, {5, 3}}, {{"extent", 7}}, {kInteger, kReal})
      .integers_below(7)
      .example({{2, 3, 2}, {2, 3, 2}}, {{"axis", 0}, {"extent", 4}}, {kInteger, kReal})
      .integers_below(4);
}

}  // namespace

void declare_indexing(OpRegistry& registry) {
  declare_elements(registry);
  declare_along_an_axis(registry);
}

}  // namespace partita

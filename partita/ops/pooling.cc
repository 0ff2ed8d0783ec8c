// Declares pooling over windows of kh x kw, NCHW. Attributes: kh, kw; stride sh, sw; dilation dh, dw; padding pt, pl,
// pb, pr; `ceil`: a last window that begins inside the input or its padding but runs over the edge counts, as in
// PyTorch.
#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

struct Windows {
  int64_t rows, columns;  // how many
  bool cut;               // whether some run over the padded edge
};

Windows windows(const OpInstance& op, int64_t height, int64_t width) {
  auto count = [&](int64_t extent, const char* kernel, const char* stride, const char* dilation, const char* before,
                   const char* after, bool& cut) {
    const int64_t s = op.integer(stride), p = op.integer(before), padded = extent + p + op.integer(after);
    if (op.integer(kernel) < 1 || s < 1 || op.integer(dilation) < 1)
      fail("{}, {} and {} must be at least 1", kernel, stride, dilation);
    const int64_t span = op.integer(dilation) * (op.integer(kernel) - 1) + 1;
    if (padded < span)
      fail("the window ({} = {}) is larger than the padded input ({})", kernel, op.integer(kernel), padded);
    if (2 * p > span || 2 * op.integer(after) > span)
      fail("padding {} is more than half the window ({} = {})", std::max(p, op.integer(after)), kernel,
           op.integer(kernel));
    int64_t n = (padded - span) / s + 1;
    if (op.integer("ceil") && (padded - span) % s && n * s < extent + p) ++n;
    cut = cut || (n - 1) * s + span > padded;
    return n;
  };
  Windows w{0, 0, false};
  w.rows = count(height, "kh", "sh", "dh", "pt", "pb", w.cut);
  w.columns = count(width, "kw", "sw", "dw", "pl", "pr", w.cut);
  return w;
}

void check(const OpInstance& op, std::size_t operands) {
  if (op.shapes.size() != operands || op.shapes[0].size() != 4) fail("pooling takes x [n, c, h, w]");
}

constexpr const char* kRow = "y*sh + r*dh - pt";
constexpr const char* kColumn = "z*sw + t*dw - pl";

// The winner is the first of equals in the window's row-major order, as in PyTorch. The gradient reads `ix`, its number
// in that order.
std::string max_pool(const OpInstance& op) {
  check(op, 1);
  const Windows w = windows(op, op.shapes[0][2], op.shapes[0][3]);
  return fmt::format(
      "max_pool(x) -> m, ix where y < {0}, z < {1}, r < kh, t < kw =\n"
      "m[n, c, y, z] = max(r, t) x[n, c, {2}, {3}] else -inf\n"
      "ix[n, c, y, z] = min(r, t) if((x[n, c, {2}, {3}] else -inf) == m[n, c, y, z], r*{4} + t, inf)",
      w.rows, w.columns, kRow, kColumn, op.integer("kw"));
}

// Row u of x lies under row r of window (u + pt - r dh) / sh, if that divides.
struct Under {
  std::string window, guard;  // guard: "" if it always divides
};
Under under(const char* row, const char* stride, int64_t s) {
  if (s == 1) return {row, ""};
  return {fmt::format("({})//{}", row, stride), fmt::format("({}) % {} == 0 and ", row, stride)};
}

std::string max_pool_grad(const OpInstance& op) {
  check(op, 2);
  const Under u = under("u + pt - r*dh", "sh", op.integer("sh")), v = under("v + pl - t*dw", "sw", op.integer("sw"));
  return fmt::format(
      "max_pool_grad(ix, g)[n, c, u, v] where u < height, v < width, r < kh, t < kw = "
      "sum(r, t) if({0}{1}(ix[n, c, {2}, {3}] else -1) == r*{4} + t, g[n, c, {2}, {3}], 0)",
      u.guard, v.guard, u.window, v.window, op.integer("kw"));
}

std::vector<TensorId> max_pool_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  if (!g[0].valid()) return {{}};
  tdl::Attributes attributes = forward.attributes;
  attributes["height"] = static_cast<double>(build.shape(forward.operands[0])[2]);
  attributes["width"] = static_cast<double>(build.shape(forward.operands[0])[3]);
  return {build.op("max_pool_grad", {forward.results[1], g[0]}, attributes, forward.name + ".grad.x")};
}

// The divisor is the window's size; without `count_padding`, or if a window runs over the edge, the number of its
// elements that count.
std::string average_pool(const OpInstance& op) {
  check(op, 1);
  const int64_t height = op.shapes[0][2], width = op.shapes[0][3];
  const Windows w = windows(op, height, width);
  const bool padded = op.integer("pt") || op.integer("pl") || op.integer("pb") || op.integer("pr");
  const std::string head =
      fmt::format("average_pool(x)[n, c, y, z] where y < {}, z < {}, r < kh, t < kw =", w.rows, w.columns);
  const std::string sum = fmt::format("(sum(r, t) x[n, c, {}, {}])", kRow, kColumn);
  const bool count_padding = op.integer("count_padding") != 0;
  if (!w.cut && (count_padding || !padded))
    return fmt::format("{} {} / {}", head, sum, op.integer("kh") * op.integer("kw"));
  const int64_t top = count_padding ? op.integer("pt") : 0, left = count_padding ? op.integer("pl") : 0;
  const int64_t bottom = count_padding ? op.integer("pb") : 0, right = count_padding ? op.integer("pr") : 0;
  return fmt::format(
      "{0}\n"
      "k[y, z] = sum(r, t) if({1} >= {2} and {1} < {3} and {4} >= {5} and {4} < {6}, 1, 0)\n"
      "{7} / k[y, z]",
      head, kRow, -top, height + bottom, kColumn, -left, width + right, sum);
}

Declaration& with_attributes(Declaration&& declaration) {
  declaration.required("kh").required("kw");
  for (const char* name : {"sh", "sw", "dh", "dw"}) declaration.attribute(name, 1);
  for (const char* name : {"pt", "pl", "pb", "pr", "ceil"}) declaration.attribute(name, 0);
  return declaration;
}

tdl::Attributes with(tdl::Attributes attributes, const tdl::Attributes& more) {
  attributes.insert(more.begin(), more.end());
  return attributes;
}

void declare_windows(OpRegistry& registry) {
  const tdl::Attributes odd{{"kh", 3}, {"kw", 3}, {"sh", 2}, {"sw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}};
  const tdl::Attributes even{{"kh", 2}, {"kw", 2}, {"sh", 2}, {"sw", 2}};
  const tdl::Attributes dense{{"kh", 2}, {"kw", 3}, {"pl", 1}};
  with_attributes(declare(registry, "max_pool", "largest value of each window, and which it is"))
      .formula(max_pool)
      .dtypes([](const OpInstance& op) {
        return std::vector<DType>{op.dtypes.at(0), DType::kInt64};
      })
      .gradient(max_pool_gradient)
      .example({{2, 3, 9, 6}}, odd)
      .example({{3, 2, 6, 8}}, even)
      .example({{2, 2, 5, 6}}, dense);
  const std::vector<DType> dtypes{DType::kInt64, DType::kFloat32};
  with_attributes(declare(registry, "max_pool_grad", "gradient of max_pool: each window's gradient goes to its winner"))
      .formula(max_pool_grad)
      .required("height")
      .required("width")
      .dtypes([](const OpInstance& op) { return std::vector<DType>{op.dtypes.at(1)}; })
      .not_differentiable()
      .example({{2, 3, 5, 3}, {2, 3, 5, 3}}, with(odd, {{"height", 9}, {"width", 6}}), dtypes)
      .integers_below(9)
      .example({{3, 2, 3, 4}, {3, 2, 3, 4}}, with(even, {{"height", 6}, {"width", 8}}), dtypes)
      .integers_below(4)
      .example({{2, 2, 4, 5}, {2, 2, 4, 5}}, with(dense, {{"height", 5}, {"width", 6}}), dtypes)
      .integers_below(6);
  with_attributes(declare(registry, "average_pool", "mean of each window; `count_padding`: padding counts as zeros"))
      .formula(average_pool)
      .attribute("count_padding", 1)
      .example({{2, 3, 9, 6}}, odd)
      .example({{2, 3, 9, 6}}, with(odd, {{"count_padding", 0}}))
      .example({{3, 2, 6, 8}}, even)
      .example({{3, 2, 5, 8}}, with(even, {{"ceil", 1}}));
}

void declare_global(OpRegistry& registry) {
  declare(registry, "global_average_pool", "mean over the last two axes, kept with extent 1")
      .formula("global_average_pool(x)[n, c, y, z] where y < 1, z < 1 = (sum(r, t) x[n, c, r, t]) / (ext(r) * ext(t))")
      .example({{3, 4, 5, 2}});
  declare(registry, "global_average_pool_grad", "gradient of global_average_pool for x [.., height, width]")
      .formula([](const OpInstance& op) {
        return fmt::format(
            "global_average_pool_grad(g) -> dx where r < height, t < width =\n"
            "d[n, c] = g[n, c, 0, 0] / {}\n"
            "dx[n, c, r, t] = d[n, c]",
            op.integer("height") * op.integer("width"));
      })
      .required("height")
      .required("width")
      .match([](const tdl::Attributes&, const Shape& result) {
        if (result.size() != 4) return tdl::Attributes();
        return tdl::Attributes{{"height", static_cast<double>(result[2])}, {"width", static_cast<double>(result[3])}};
      })
      .example({{3, 4, 1, 1}}, {{"height", 5}, {"width", 2}});
}

}  // namespace

void declare_pooling(OpRegistry& registry) {
  declare_windows(registry);
  declare_global(registry);
}

}  // namespace partita

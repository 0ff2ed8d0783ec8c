// Declares two-dimensional convolution, NCHW, and its two gradients, which have kernels of their own.
//
// Attributes: stride sh, sw; dilation dh, dw; padding with zeros pt, pl, pb, pr at the top, left, bottom, right;
// groups.
#include "partita/base/error.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

const std::vector<std::pair<const char*, double>> kAttributes{{"sh", 1}, {"sw", 1}, {"dh", 1}, {"dw", 1},    {"pt", 0},
                                                              {"pl", 0}, {"pb", 0}, {"pr", 0}, {"groups", 1}};

void check(const OpInstance& op) {
  for (const char* name : {"sh", "sw", "dh", "dw", "groups"})
    if (op.integer(name) < 1) fail("{}={} must be at least 1", name, op.integer(name));
  for (const char* name : {"pt", "pl", "pb", "pr"})
    if (op.integer(name) < 0) fail("{}={} must not be negative", name, op.integer(name));
}

// The subscript of a channel: `c`, or `g*16 + c` in group g of 16 channels.
std::string channel(int64_t groups, int64_t per_group, const char* name) {
  return groups == 1 ? name : fmt::format("q*{} + {}", per_group, name);
}

// The rows of x under row y of the result and row r of the kernel, and the columns likewise.
constexpr const char* kRow = "y*sh + r*dh - pt";
constexpr const char* kColumn = "z*sw + t*dw - pl";

std::string conv2d(const OpInstance& op) {
  check(op);
  if ((op.shapes.size() != 2 && op.shapes.size() != 3) || op.shapes[0].size() != 4 || op.shapes[1].size() != 4)
    fail("conv2d takes x [n, c, h, w], a weight [o, c/groups, r, t], and perhaps a bias [o]");
  const Shape &x = op.shapes[0], &w = op.shapes[1];
  const int64_t groups = op.integer("groups");
  if (x[1] != w[1] * groups) fail("the input has {} channels, the weight expects {}", x[1], w[1] * groups);
  if (w[0] % groups) fail("{} output channels are not {} groups", w[0], groups);
  const int64_t y =
      (x[2] + op.integer("pt") + op.integer("pb") - op.integer("dh") * (w[2] - 1) - 1) / op.integer("sh") + 1;
  const int64_t z =
      (x[3] + op.integer("pl") + op.integer("pr") - op.integer("dw") * (w[3] - 1) - 1) / op.integer("sw") + 1;
  if (x[2] + op.integer("pt") + op.integer("pb") < op.integer("dh") * (w[2] - 1) + 1 ||
      x[3] + op.integer("pl") + op.integer("pr") < op.integer("dw") * (w[3] - 1) + 1)
    fail("the kernel [{}x{}] is larger than the padded input [{}x{}]", w[2], w[3], x[2], x[3]);
  const std::string o = channel(groups, w[0] / groups, "o");
  const bool bias = op.shapes.size() == 3;
  const std::string where = groups == 1 ? "" : fmt::format(", q < {}, o < {}", groups, w[0] / groups);
  const std::string sum =
      fmt::format("x[n, {}, {}, {}] * w[{}, c, r, t]", channel(groups, w[1], "c"), kRow, kColumn, o);
  return fmt::format("conv2d(x, w{})[n, {}, y, z] where y < {}, z < {}{} = sum(c, r, t) {}", bias ? ", b" : "", o, y, z,
                     where, bias ? fmt::format("({}) + b[{}]", sum, o) : sum);
}

// The result's row u comes from the rows (u + pt - r dh) / sh of g if that divides.
std::string conv2d_data_grad(const OpInstance& op) {
  check(op);
  if (op.shapes.size() != 2 || op.shapes[0].size() != 4 || op.shapes[1].size() != 4)
    fail("conv2d_data_grad takes g [n, o, y, z] and the weight [o, c/groups, r, t]");
  const Shape& w = op.shapes[1];
  const int64_t groups = op.integer("groups"), sh = op.integer("sh"), sw = op.integer("sw");
  const std::string row = "u + pt - r*dh", column = "v + pl - t*dw";
  const std::string o = channel(groups, w[0] / groups, "o");
  std::string product =
      fmt::format("g[n, {0}, {1}, {2}] * w[{0}, c, r, t]", o, sh == 1 ? row : fmt::format("({})//sh", row),
                  sw == 1 ? column : fmt::format("({})//sw", column));
  std::vector<std::string> guards;  // the others are 0
  if (sh > 1) guards.push_back(fmt::format("({}) % sh == 0", row));
  if (sw > 1) guards.push_back(fmt::format("({}) % sw == 0", column));
  if (!guards.empty()) product = fmt::format("if({}, {}, 0)", fmt::join(guards, " and "), product);
  const std::string where = groups == 1 ? "" : fmt::format(", q < {}, o < {}", groups, w[0] / groups);
  return fmt::format("conv2d_data_grad(g, w)[n, {}, u, v] where u < height, v < width{} = sum(o, r, t) {}",
                     channel(groups, w[1], "c"), where, product);
}

std::string conv2d_weight_grad(const OpInstance& op) {
  check(op);
  if (op.shapes.size() != 2 || op.shapes[0].size() != 4 || op.shapes[1].size() != 4)
    fail("conv2d_weight_grad takes g [n, o, y, z] and x [n, c, h, w]");
  const int64_t groups = op.integer("groups"), outputs = op.shapes[0][1] / groups, inputs = op.shapes[1][1] / groups;
  const std::string o = channel(groups, outputs, "o");
  const std::string where = groups == 1 ? "" : fmt::format(", q < {}, o < {}, c < {}", groups, outputs, inputs);
  return fmt::format(
      "conv2d_weight_grad(g, x)[{0}, c, r, t] where r < kh, t < kw{1} = "
      "sum(n, y, z) g[n, {0}, y, z] * x[n, {2}, {3}, {4}]",
      o, where, channel(groups, inputs, "c"), kRow, kColumn);
}

// The gradient's attributes from the forward convolution's; `names` are those that the gradient's shape gives.
std::function<tdl::Attributes(const tdl::Attributes&, const Shape&)> from_conv2d(const char* rows,
                                                                                 const char* columns) {
  return [=](const tdl::Attributes& forward, const Shape& result) {
    tdl::Attributes attributes;
    for (const auto& [name, value] : kAttributes)
      if (auto found = forward.find(name); found != forward.end()) attributes[name] = found->second;
    if (result.size() != 4) return attributes;
    attributes[rows] = static_cast<double>(result[2]);
    attributes[columns] = static_cast<double>(result[3]);
    return attributes;
  };
}

Declaration& with_attributes(Declaration&& declaration) {
  for (const auto& [name, value] : kAttributes) declaration.attribute(name, value);
  return declaration;
}

void declare_conv2d(OpRegistry& registry) {
  with_attributes(
      declare(registry, "conv2d",
              "convolution of x [n, c, h, w] with w [o, c/groups, r, t], plus a bias [o] where there is one"))
      .low_precision()
      .formula(conv2d)
      .example({{3, 3, 9, 5}, {4, 3, 3, 3}}, {{"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}})
      .example({{2, 3, 11, 9}, {3, 3, 3, 3}},
               {{"sh", 2}, {"sw", 2}, {"dh", 2}, {"dw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}})
      .example({{3, 2, 6, 7}, {3, 2, 2, 3}, {3}}, {{"sh", 2}, {"pt", 1}, {"pr", 2}})
      .example({{2, 6, 5, 4}, {6, 2, 3, 3}}, {{"groups", 3}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}})
      .example({{2, 4, 7, 6}, {8, 1, 3, 3}, {8}},
               {{"groups", 4}, {"sh", 2}, {"sw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}});
}

void declare_gradients(OpRegistry& registry) {
  with_attributes(declare(registry, "conv2d_data_grad", "gradient of conv2d with respect to x [.., height, width]"))
      .low_precision()
      .formula(conv2d_data_grad)
      .required("height")
      .required("width")
      .match(from_conv2d("height", "width"))
      .example({{3, 4, 9, 5}, {4, 3, 3, 3}}, {{"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}, {"height", 9}, {"width", 5}})
      .example({{2, 3, 5, 4}, {3, 3, 3, 3}}, {{"sh", 2},
                                              {"sw", 2},
                                              {"dh", 2},
                                              {"dw", 2},
                                              {"pt", 1},
                                              {"pl", 1},
                                              {"pb", 1},
                                              {"pr", 1},
                                              {"height", 11},
                                              {"width", 9}})
      .example({{2, 6, 5, 4}, {6, 2, 3, 3}},
               {{"groups", 3}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}, {"height", 5}, {"width", 4}})
      .example({{2, 8, 4, 3}, {8, 1, 3, 3}}, {{"groups", 4},
                                              {"sh", 2},
                                              {"sw", 2},
                                              {"pt", 1},
                                              {"pl", 1},
                                              {"pb", 1},
                                              {"pr", 1},
                                              {"height", 7},
                                              {"width", 6}});
  with_attributes(declare(registry, "conv2d_weight_grad", "gradient of conv2d with respect to w [.., kh, kw]"))
      .formula(conv2d_weight_grad)
      .required("kh")
      .required("kw")
      .match(from_conv2d("kh", "kw"))
      .example({{3, 4, 9, 5}, {3, 3, 9, 5}}, {{"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}, {"kh", 3}, {"kw", 3}})
      .example({{2, 3, 5, 4}, {2, 3, 11, 9}}, {{"sh", 2},
                                               {"sw", 2},
                                               {"dh", 2},
                                               {"dw", 2},
                                               {"pt", 1},
                                               {"pl", 1},
                                               {"pb", 1},
                                               {"pr", 1},
                                               {"kh", 3},
                                               {"kw", 3}})
      .example({{2, 6, 5, 4}, {2, 6, 5, 4}},
               {{"groups", 3}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}, {"kh", 3}, {"kw", 3}})
      .example({{2, 8, 4, 3}, {2, 4, 7, 6}},
               {{"groups", 4}, {"sh", 2}, {"sw", 2}, {"pt", 1}, {"pl", 1}, {"pb", 1}, {"pr", 1}, {"kh", 3}, {"kw", 3}});
}

}  // namespace

void declare_conv(OpRegistry& registry) {
  declare_conv2d(registry);
  declare_gradients(registry);
  declare(registry, "channel_sum", "sum over all axes but the second")
      .formula("channel_sum(g)[c] = sum(n, ..s) g[n, c, ..s]")
      .match()
      .example({{3, 4, 5, 2}});
}

}  // namespace partita

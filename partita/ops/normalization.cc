// Declares layer, RMS and group norm, each within one sample. Their gradients are declared: they read the saved mean
// `mu` and reciprocal deviation `rd`, which derived ones would compute again. (Batch norm: batch_norm.cc.)
#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/graph/infer.h"
#include "partita/ops/declare.h"
#include "partita/ops/ops.h"
#include "partita/ops/text.h"

namespace partita {
namespace {

// ---------------------------------------------------------------- within a sample

// The normalised axes and the others, as subscripts: all of x; those of the statistics; those of scale and bias; the
// indices summed for the statistics, and for the gradients of scale and bias.
struct Normalized {
  std::string all, statistics, scale, inside, outside;
  std::string where;  // " where ..", or nothing
  std::string count;  // the number of values with one mean
};

// Normalises the last `axes` axes.
Normalized last_axes(const OpInstance& op) {
  const int64_t axes = op.integer("axes"), rank = static_cast<int64_t>(op.shapes.at(0).size());
  if (axes < 1 || axes > rank)
    fail("axes={}: x [{}] has no such number of last axes", axes, fmt::join(op.shapes[0], "x"));
  std::vector<std::string> inside, extents;
  for (int64_t a = 0; a < axes; ++a) {
    inside.push_back(axes == 1 ? "j" : fmt::format("j{}", a));
    extents.push_back(fmt::format("ext({})", inside.back()));
  }
  const bool others = rank > axes;
  return {(others ? "..b, " : "") + join_texts(inside),
          others ? "..b" : "",
          join_texts(inside),
          join_texts(inside),
          others ? "..b" : "",
          "",
          "(" + fmt::format("{}", fmt::join(extents, " * ")) + ")"};
}

// Normalises `groups` groups of the channels of x [n, c, ..s].
Normalized channel_groups(const OpInstance& op) {
  const Shape& x = op.shapes.at(0);
  const int64_t groups = op.integer("groups");
  if (x.size() < 2) fail("group_norm takes x [n, c, ..], not [{}]", fmt::join(x, "x"));
  if (groups < 1 || x[1] % groups) fail("{} channels are not {} groups", x[1], groups);
  const int64_t channels = x[1] / groups;
  const bool spatial = x.size() > 2;
  if (channels == 1 && spatial) return {"n, c, ..s", "n, c", "c", "..s", "n, ..s", "", "ext(..s)"};
  const std::string channel = fmt::format("u*{} + c", channels), s = spatial ? ", ..s" : "";
  return {"n, " + channel + s,
          "n, u",
          channel,
          "c" + s,
          "n" + s,
          fmt::format(" where u < {}, c < {}", groups, channels),
          spatial ? "(ext(c) * ext(..s))" : "ext(c)"};
}

// sum(NAMES) BODY in parentheses, or the body if there is nothing to sum over.
std::string sum(const std::string& names, const std::string& body) {
  return names.empty() ? body : fmt::format("sum({}) {}", names, body);
}

std::string forward_operands(const char* name, const OpInstance& op, std::size_t largest) {
  static const char* const kOperands[] = {"x", "x, w", "x, w, b"};
  if (op.shapes.empty() || op.shapes.size() > largest)
    fail("{} takes x, perhaps a scale{}, not {} operands", name, largest > 2 ? " and a bias" : "", op.shapes.size());
  return fmt::format("{}({})", name, kOperands[op.shapes.size() - 1]);
}

// (x - mean) / deviation * w + b, and the statistics.
std::string centred_norm(const char* name, const OpInstance& op, const Normalized& n) {
  return fmt::format(
      "{0} -> y, mu, rd{1} =\n"
      "mu[{3}] = (sum({4}) x[{2}]) / {5}\n"
      "rd[{3}] = 1 / sqrt((sum({4}) (x[{2}] - mu[{3}])^2) / {5} + eps)\n"
      "y[{2}] = (x[{2}] - mu[{3}]) * rd[{3}]{6}{7}",
      forward_operands(name, op, 3), n.where, n.all, n.statistics, n.inside, n.count,
      op.shapes.size() > 1 ? fmt::format(" * w[{}]", n.scale) : "",
      op.shapes.size() > 2 ? fmt::format(" + b[{}]", n.scale) : "");
}

// Operands x, mu, rd, g or x, w, mu, rd, g; `bias`: there was one.
std::string centred_norm_grad(const char* name, const OpInstance& op, const Normalized& n) {
  const bool scale = op.shapes.size() == 5, bias = op.integer("bias") != 0;
  if (!scale && op.shapes.size() != 4) fail("{} takes x, perhaps a scale, mu, rd and g", name);
  const std::string g = fmt::format("g[{}]", n.all) + (scale ? fmt::format(" * w[{}]", n.scale) : "");
  std::string text = fmt::format("{}(x, {}mu, rd, g) -> dx{}{}{} =\n", name, scale ? "w, " : "", scale ? ", dw" : "",
                                 bias ? ", db" : "", n.where);
  text += fmt::format("z[{0}] = (x[{0}] - mu[{1}]) * rd[{1}]\n", n.all, n.statistics);
  if (scale) text += fmt::format("dw[{}] = {}\n", n.scale, sum(n.outside, fmt::format("g[{0}] * z[{0}]", n.all)));
  if (bias) text += fmt::format("db[{}] = {}\n", n.scale, sum(n.outside, fmt::format("g[{}]", n.all)));
  text += fmt::format("p[{}] = (sum({}) {}) / {}\n", n.statistics, n.inside, g, n.count);
  text += fmt::format("q[{}] = (sum({}) {} * z[{}]) / {}\n", n.statistics, n.inside, g, n.all, n.count);
  return text + fmt::format("dx[{0}] = ({1} - p[{2}] - z[{0}] * q[{2}]) * rd[{2}]", n.all, g, n.statistics);
}

// x over the root of its mean square.
std::string rms_norm(const OpInstance& op) {
  const Normalized n = last_axes(op);
  return fmt::format(
      "{0} -> y, rd =\n"
      "rd[{2}] = 1 / sqrt((sum({3}) x[{1}]^2) / {4} + eps)\n"
      "y[{1}] = x[{1}] * rd[{2}]{5}",
      forward_operands("rms_norm", op, 2), n.all, n.statistics, n.inside, n.count,
      op.shapes.size() > 1 ? fmt::format(" * w[{}]", n.scale) : "");
}

std::string rms_norm_grad(const OpInstance& op) {
  const Normalized n = last_axes(op);
  const bool scale = op.shapes.size() == 4;
  if (!scale && op.shapes.size() != 3) fail("rms_norm_grad takes x, perhaps a scale, rd and g");
  const std::string g = fmt::format("g[{}]", n.all) + (scale ? fmt::format(" * w[{}]", n.scale) : "");
  std::string text = fmt::format("rms_norm_grad(x, {}rd, g) -> dx{} =\n", scale ? "w, " : "", scale ? ", dw" : "");
  text += fmt::format("z[{0}] = x[{0}] * rd[{1}]\n", n.all, n.statistics);
  if (scale) text += fmt::format("dw[{}] = {}\n", n.scale, sum(n.outside, fmt::format("g[{0}] * z[{0}]", n.all)));
  text += fmt::format("q[{}] = (sum({}) {} * z[{}]) / {}\n", n.statistics, n.inside, g, n.all, n.count);
  return text + fmt::format("dx[{0}] = ({1} - z[{0}] * q[{2}]) * rd[{2}]", n.all, g, n.statistics);
}

// A gradient from the statistics, which are all results but the first.
DeclaredGradient from_statistics(const std::string& definition) {
  return [definition](GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
    for (std::size_t r = 1; r < g.size(); ++r)
      if (g[r].valid())
        fail("{} '{}': no gradient flows through the saved statistics", forward.definition, forward.name);
    std::vector<TensorId> operands{forward.operands[0]};
    if (forward.operands.size() > 1) operands.push_back(forward.operands[1]);
    operands.insert(operands.end(), forward.results.begin() + 1, forward.results.end());
    operands.push_back(g[0]);
    tdl::Attributes attributes = forward.attributes;
    attributes.erase("eps");
    if (forward.operands.size() > 2) attributes["bias"] = 1;
    return build.ops(definition, operands, attributes, forward.name + ".grad");
  };
}

void declare_within_samples(OpRegistry& registry) {
  declare(registry, "layer_norm",
          "(x - mean) / sqrt(variance + eps) * w + b over the last `axes` axes, w and b where there are; mean and "
          "reciprocal deviation are results too")
      .full_precision()
      .formula([](const OpInstance& op) { return centred_norm("layer_norm", op, last_axes(op)); })
      .attribute("eps", 1e-5)
      .attribute("axes", 1)
      .gradient(from_statistics("layer_norm_grad"))
      .example({{5, 7}, {7}, {7}})
      .example({{3, 2, 7}, {7}})
      .example({{5, 3, 4}, {3, 4}, {3, 4}}, {{"axes", 2}})
      .example({{5, 7}});
  declare(registry, "layer_norm_grad", "gradients of layer_norm from its saved statistics")
      .formula([](const OpInstance& op) { return centred_norm_grad("layer_norm_grad", op, last_axes(op)); })
      .attribute("axes", 1)
      .attribute("bias", 0)
      .not_differentiable()
      .example({{5, 7}, {7}, {5}, {5}, {5, 7}}, {{"bias", 1}})
      .example({{3, 2, 7}, {7}, {3, 2}, {3, 2}, {3, 2, 7}})
      .example({{5, 3, 4}, {3, 4}, {5}, {5}, {5, 3, 4}}, {{"axes", 2}, {"bias", 1}})
      .example({{5, 7}, {5}, {5}, {5, 7}});
  declare(registry, "rms_norm",
          "x / sqrt(mean of x^2 + eps) * w over the last `axes` axes, w where there is one; the reciprocal root is a "
          "result too")
      .full_precision()
      .formula(rms_norm)
      .attribute("eps", 1e-5)
      .attribute("axes", 1)
      .gradient(from_statistics("rms_norm_grad"))
      .example({{5, 7}, {7}})
      .example({{3, 2, 7}})
      .example({{5, 3, 4}, {3, 4}}, {{"axes", 2}});
  declare(registry, "rms_norm_grad", "gradients of rms_norm from its saved reciprocal root")
      .formula(rms_norm_grad)
      .attribute("axes", 1)
      .not_differentiable()
      .example({{5, 7}, {7}, {5}, {5, 7}})
      .example({{3, 2, 7}, {3, 2}, {3, 2, 7}})
      .example({{5, 3, 4}, {3, 4}, {5}, {5, 3, 4}}, {{"axes", 2}});
}

void declare_group_norm(OpRegistry& registry) {
  declare(
      registry, "group_norm",
      "layer norm over each of `groups` groups of channels of x [n, c, ..], scale and bias by channel; as many groups "
      "as channels is instance norm")
      .full_precision()
      .formula([](const OpInstance& op) { return centred_norm("group_norm", op, channel_groups(op)); })
      .required("groups")
      .attribute("eps", 1e-5)
      .gradient(from_statistics("group_norm_grad"))
      .example({{3, 6, 2, 5}, {6}, {6}}, {{"groups", 3}})
      .example({{3, 5, 7}, {5}, {5}}, {{"groups", 5}})
      .example({{5, 6}}, {{"groups", 2}});
  declare(registry, "group_norm_grad", "gradients of group_norm from its saved statistics")
      .formula([](const OpInstance& op) { return centred_norm_grad("group_norm_grad", op, channel_groups(op)); })
      .required("groups")
      .attribute("bias", 0)
      .not_differentiable()
      .example({{3, 6, 2, 5}, {6}, {3, 3}, {3, 3}, {3, 6, 2, 5}}, {{"groups", 3}, {"bias", 1}})
      .example({{3, 5, 7}, {5}, {3, 5}, {3, 5}, {3, 5, 7}}, {{"groups", 5}, {"bias", 1}})
      .example({{5, 6}, {5, 2}, {5, 2}, {5, 6}}, {{"groups", 2}});
}

}  // namespace

void declare_normalization(OpRegistry& registry) {
  declare_batch_norm(registry);
  declare_within_samples(registry);
  declare_group_norm(registry);
}

}  // namespace partita

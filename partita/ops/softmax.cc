// Declares softmax and ops built on it. Their gradients are declared: the derived ones are correct, but compute the
// exponentials again.
#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/builder.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

// The operand's subscripts with `j` at the attribute `axis`, and those without it: "..b, j" and "..b" for the last
// axis, else "i0, j, i2" and "i0, i2".
struct Along {
  std::string all, others;
};

Along along(const OpInstance& op) {
  const int64_t rank = static_cast<int64_t>(op.shapes.at(0).size());
  int64_t axis = op.integer("axis");
  if (axis < -rank || axis >= rank) fail("axis {} of {} axes", axis, rank);
  if (axis < 0) axis += rank;
  if (axis == rank - 1) return {"..b, j", "..b"};
  std::vector<std::string> all, others;
  for (int64_t a = 0; a < rank; ++a) {
    all.push_back(a == axis ? "j" : fmt::format("i{}", a));
    if (a != axis) others.push_back(all.back());
  }
  return {fmt::format("{}", fmt::join(all, ", ")), fmt::format("{}", fmt::join(others, ", "))};
}

// `masked`: e^-inf is 0 even if a whole row is masked, which then is 0 and not NaN.
std::string softmax(const OpInstance& op) {
  const auto [x, b] = along(op);
  if (op.integer("masked"))
    return fmt::format(
        "softmax(x)[{0}] =\n"
        "m[{1}] = max(j) x[{0}]\n"
        "e[{0}] = if(x[{0}] == -inf, 0, exp(x[{0}] - m[{1}]))\n"
        "s[{1}] = sum(j) e[{0}]\n"
        "if(s[{1}] == 0, 0, e[{0}] / s[{1}])",
        x, b);
  return fmt::format(
      "softmax(x)[{0}] =\n"
      "m[{1}] = max(j) x[{0}]\n"
      "e[{0}] = exp(x[{0}] - m[{1}])\n"
      "s[{1}] = sum(j) e[{0}]\n"
      "e[{0}] / s[{1}]",
      x, b);
}

std::string softmax_grad(const OpInstance& op) {
  const auto [x, b] = along(op);
  return fmt::format(
      "softmax_grad(y, g)[{0}] =\n"
      "d[{1}] = sum(j) g[{0}] * y[{0}]\n"
      "y[{0}] * (g[{0}] - d[{1}])",
      x, b);
}

std::string log_softmax(const OpInstance& op) {
  const auto [x, b] = along(op);
  return fmt::format(
      "log_softmax(x)[{0}] =\n"
      "m[{1}] = max(j) x[{0}]\n"
      "s[{1}] = sum(j) exp(x[{0}] - m[{1}])\n"
      "x[{0}] - m[{1}] - log(s[{1}])",
      x, b);
}

std::string log_softmax_grad(const OpInstance& op) {
  const auto [x, b] = along(op);
  return fmt::format(
      "log_softmax_grad(y, g)[{0}] =\n"
      "s[{1}] = sum(j) g[{0}]\n"
      "g[{0}] - exp(y[{0}]) * s[{1}]",
      x, b);
}

// The gradient of an op with one operand, as an op that reads the result and its gradient.
DeclaredGradient from_result(const std::string& definition) {
  return [definition](GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
    return std::vector<TensorId>{build.op(definition, {forward.results[0], g[0]},
                                          {{"axis", forward.attributes.at("axis")}}, forward.name + ".grad.x")};
  };
}

void refuse_gradient_of_lse(const Op& forward, TensorId gradient) {
  if (gradient.valid())
    fail("{} '{}': no gradient flows through lse, which is kept for the backward pass", forward.definition,
         forward.name);
}

std::vector<TensorId> cross_entropy_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  refuse_gradient_of_lse(forward, g[1]);
  return {build.op("cross_entropy_grad", {forward.operands[0], forward.operands[1], forward.results[1], g[0]}, {},
                   forward.name + ".grad.x"),
          {}};
}

std::vector<TensorId> masked_cross_entropy_gradient(GraphBuilder& build, const Op& forward,
                                                    const std::vector<TensorId>& g) {
  refuse_gradient_of_lse(forward, g[1]);
  const std::vector<TensorId>& o = forward.operands;
  return {build.op("masked_cross_entropy_grad", {o[0], o[1], o[2], forward.results[1], g[0]},
                   {{"ignore", forward.attributes.at("ignore")}}, forward.name + ".grad.x"),
          {},
          {}};
}

// Declares cross-entropy of the labels that are not `ignore`. Their number is an operand, counted by an op of its own.
// The loss is then a sum over the labels, and each micro-batch makes its share of it.
void declare_masked_cross_entropy(OpRegistry& registry) {
  const DType real = DType::kFloat32, integer = DType::kInt64;
  const tdl::Attributes third{{"ignore", 2}};  // labels in the examples are drawn from 0 on
  declare(registry, "label_count", "how many labels are not `ignore`")
      .formula("label_count(t)[] = sum(..b) if(t[..b] != ignore, 1, 0)")
      .attribute("ignore", static_cast<double>(kIgnoredLabel))
      .not_differentiable()
      .example({{7}}, third, {integer})
      .integers_below(4)
      .example({{3, 2}}, third, {integer})
      .integers_below(4);
  declare(registry, "masked_cross_entropy",
          "sum of -log softmax(x)[t] over the labels t that are not `ignore`, divided by their number n, or by 1")
      .full_precision()
      .formula(
          "masked_cross_entropy(x, t, n) -> loss, lse =\n"
          "m[..b] = max(j) x[..b, j]\n"
          "s[..b] = sum(j) exp(x[..b, j] - m[..b])\n"
          "lse[..b] = log(s[..b]) + m[..b]\n"
          "p[..b] = sum(j) if(t[..b] == j, x[..b, j], 0)\n"
          "loss[] = (sum(..b) if(t[..b] != ignore, lse[..b] - p[..b], 0)) / max(n[], 1)")
      .attribute("ignore", static_cast<double>(kIgnoredLabel))
      .dtypes([](const OpInstance& op) {
        return std::vector<DType>{op.dtypes.at(0), op.dtypes.at(0)};
      })
      .gradient(masked_cross_entropy_gradient)
      .example({{5, 7}, {5}, {}}, third, {real, integer, integer})
      .integers_below(7)
      .example({{3, 2, 5}, {3, 2}, {}}, third, {real, integer, integer})
      .integers_below(5);
  declare(registry, "masked_cross_entropy_grad", "gradient of masked_cross_entropy with respect to x")
      .formula(
          "masked_cross_entropy_grad(x, t, n, lse, g)[..b, j] = "
          "(exp(x[..b, j] - lse[..b]) - if(t[..b] == j, 1, 0)) * (if(t[..b] != ignore, g[], 0) / max(n[], 1))")
      .attribute("ignore", static_cast<double>(kIgnoredLabel))
      .dtypes(dtype_of_first)
      .not_differentiable()
      .example({{5, 7}, {5}, {}, {5}, {}}, third, {real, integer, integer, real, real})
      .integers_below(7)
      .example({{3, 2, 5}, {3, 2}, {}, {3, 2}, {}}, third, {real, integer, integer, real, real})
      .integers_below(5);
}

}  // namespace

void declare_softmax(OpRegistry& registry) {
  declare(registry, "softmax", "e^x over its sum along `axis`; `masked`: 0 where all of a row is -inf")
      .full_precision()
      .formula(softmax)
      .attribute("axis", -1)
      .attribute("masked", 0)
      .gradient(from_result("softmax_grad"))
      .example({{5, 7}})
      .example({{5, 7}}, {{"masked", 1}})
      .example({{3, 5, 4}}, {{"axis", 1}});
  declare(registry, "softmax_grad", "gradient of softmax from its result")
      .formula(softmax_grad)
      .attribute("axis", -1)
      .example({{5, 7}, {5, 7}})
      .example({{3, 5, 4}, {3, 5, 4}}, {{"axis", 1}});
  declare(registry, "log_softmax", "logarithm of softmax along `axis`")
      .full_precision()
      .formula(log_softmax)
      .attribute("axis", -1)
      .gradient(from_result("log_softmax_grad"))
      .example({{5, 7}})
      .example({{3, 5, 4}}, {{"axis", 1}});
  declare(registry, "log_softmax_grad", "gradient of log_softmax from its result")
      .formula(log_softmax_grad)
      .attribute("axis", -1)
      .example({{5, 7}, {5, 7}})
      .example({{3, 5, 4}, {3, 5, 4}}, {{"axis", 1}});
  // loss is one number; lse, the logarithm of the sum of e^x for each label, is kept for the gradient.
  declare(registry, "cross_entropy", "mean over all labels t of -log softmax(x)[t], classes along the last axis of x")
      .full_precision()
      .formula(
          "cross_entropy(x, t) -> loss, lse =\n"
          "m[..b] = max(j) x[..b, j]\n"
          "s[..b] = sum(j) exp(x[..b, j] - m[..b])\n"
          "lse[..b] = log(s[..b]) + m[..b]\n"
          "p[..b] = sum(j) if(t[..b] == j, x[..b, j], 0)\n"
          "loss[] = (sum(..b) (lse[..b] - p[..b])) / ext(..b)")
      .dtypes([](const OpInstance& op) {
        return std::vector<DType>{op.dtypes.at(0), op.dtypes.at(0)};
      })
      .gradient(cross_entropy_gradient)
      .example({{5, 7}, {5}}, {}, {DType::kFloat32, DType::kInt64})
      .integers_below(7)
      .example({{3, 2, 5}, {3, 2}}, {}, {DType::kFloat32, DType::kInt64})
      .integers_below(5);
  declare(registry, "cross_entropy_grad", "gradient of cross_entropy with respect to x")
      .formula(
          "cross_entropy_grad(x, t, lse, g)[..b, j] = "
          "(exp(x[..b, j] - lse[..b]) - if(t[..b] == j, 1, 0)) * g[] / ext(..b)")
      .dtypes(dtype_of_first)
      .not_differentiable()
      .example({{5, 7}, {5}, {5}, {}}, {}, {DType::kFloat32, DType::kInt64, DType::kFloat32, DType::kFloat32})
      .integers_below(7)
      .example({{3, 2, 5}, {3, 2}, {3, 2}, {}}, {}, {DType::kFloat32, DType::kInt64, DType::kFloat32, DType::kFloat32})
      .integers_below(5);
  declare_masked_cross_entropy(registry);
}

}  // namespace partita

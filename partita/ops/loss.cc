// Declares losses other than cross-entropy (softmax.cc). Each is one number.
#include "partita/graph/builder.h"
#include "partita/ops/declare.h"

namespace partita {

namespace {

// PyTorch's gradient, whose denominator is not below the float32 next to 1e-12: at y = 0 and y = 1 the logarithms' own
// slopes are infinite. The target's gradient has these logarithms without their bound.
std::vector<TensorId> bce_gradient(GraphBuilder& build, const Op& forward, const std::vector<TensorId>& g) {
  const TensorId y = forward.operands[0], t = forward.operands[1];
  return {build.op("bce_grad", {y, t, g[0]}, {}, forward.name + ".grad.y"),
          build.op("bce_grad_of_target", {y, g[0]}, {}, forward.name + ".grad.t")};
}

void declare_bce(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "bce", "-t log y - (1 - t) log(1 - y), logarithms not below -100")
      .full_precision()
      .formula(
          "bce(y, t)[..i] = "
          "(t[..i] - 1) * max(log(1 - y[..i]), -100) - t[..i] * max(log(y[..i]), -100)")
      .gradient(bce_gradient)
      .domain(0.1, 0.9)
      .example({shape, shape});
  declare(registry, "bce_grad", "gradient of bce: g (y - t) / (y (1 - y)), the denominator not below 1e-12")
      .full_precision()
      .formula(
          "bce_grad(y, t, g)[..i] = "
          "g[..i] * (y[..i] - t[..i]) / max((1 - y[..i]) * y[..i], 0.000000000000999999996004197)")
      .not_differentiable()
      .domain(0.1, 0.9)
      .example({shape, shape, shape});
  declare(registry, "bce_grad_of_target", "gradient of bce with respect to t: g (log(1 - y) - log y)")
      .full_precision()
      .formula("bce_grad_of_target(y, g)[..i] = g[..i] * (log(1 - y[..i]) - log(y[..i]))")
      .not_differentiable()
      .domain(0.1, 0.9)
      .example({shape, shape});
}

}  // namespace

void declare_loss(OpRegistry& registry) {
  declare(registry, "mse", "mean of (y - t)^2")
      .full_precision()
      .formula("mse(y, t)[] = (sum(..i) (y[..i] - t[..i])^2) / ext(..i)")
      .example({{5, 7}, {5, 7}});
  declare(registry, "l1", "mean of |y - t|")
      .full_precision()
      .formula("l1(y, t)[] = (sum(..i) abs(y[..i] - t[..i])) / ext(..i)")
      .example({{5, 7}, {5, 7}});
  declare(registry, "huber", "mean of (y - t)^2 / 2 where |y - t| <= delta, else delta (|y - t| - delta/2)")
      .full_precision()
      .formula(
          "huber(y, t)[] =\n"
          "d[..i] = y[..i] - t[..i]\n"
          "(sum(..i) if(abs(d[..i]) <= delta, 0.5 * d[..i]^2, delta * (abs(d[..i]) - 0.5 * delta))) / ext(..i)")
      .attribute("delta", 1)
      .example({{5, 7}, {5, 7}});
  declare(registry, "kl_divergence", "mean over all but the last axis of the sum of t (log t - y), y logarithms")
      .full_precision()
      .formula(
          "kl_divergence(y, t)[] = "
          "(sum(..b, j) if(t[..b, j] > 0, t[..b, j] * (log(t[..b, j]) - y[..b, j]), 0)) / ext(..b)")
      .domain(0.4, 1.9)
      .example({{5, 7}, {5, 7}});
  // log(1 + e^x) - t x, with sigmoid(|x|) so that nothing overflows.
  declare(registry, "bce_with_logits", "mean of -t log s - (1 - t) log(1 - s) with s = sigmoid(x)")
      .full_precision()
      .formula(
          "bce_with_logits(x, t)[] = (sum(..i) "
          "(if(x[..i] > 0, x[..i] - log(sigmoid(x[..i])), -log(sigmoid(-x[..i]))) - t[..i] * x[..i])) / ext(..i)")
      .example({{5, 7}, {5, 7}});
  declare(registry, "half_mean_square", "half the mean of y^2")
      .full_precision()
      .formula("half_mean_square(y)[] = 0.5 * (sum(..i) y[..i]^2) / ext(..i)")
      .example({{5, 7}});
  declare_bce(registry);
}

}  // namespace partita

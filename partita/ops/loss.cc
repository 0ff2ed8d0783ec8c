// Losses other than cross-entropy (softmax.cc). Each is one number.
#include "partita/ops/declare.h"

namespace partita {

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
}

}  // namespace partita

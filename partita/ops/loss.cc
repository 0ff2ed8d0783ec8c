// Losses other than cross-entropy (softmax.cc). Each is one number.
#include "partita/ops/declare.h"

namespace partita {

void declare_loss(OpRegistry& registry) {
  declare(registry, "mse", "mean of (y - t)^2")
      .formula("mse(y, t)[] = (sum(..i) (y[..i] - t[..i])^2) / ext(..i)")
      .example({{5, 7}, {5, 7}});
  declare(registry, "half_mean_square", "half the mean of y^2")
      .formula("half_mean_square(y)[] = 0.5 * (sum(..i) y[..i]^2) / ext(..i)")
      .example({{5, 7}});
}

}  // namespace partita

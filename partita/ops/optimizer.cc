// Weight updates. A result that replaces an operand is written into its buffer and read by the next step.
#include "partita/ops/declare.h"

namespace partita {

void declare_optimizer(OpRegistry& registry) {
  declare(registry, "sgd", "w' = w - lr (g + weight_decay w)")
      .formula([](const OpInstance& op) {
        const bool decay = op.attributes.at("weight_decay") != 0;
        return std::string(decay ? "sgd(w, g, lr)[..i] = w[..i] - lr[] * (g[..i] + weight_decay * w[..i])"
                                 : "sgd(w, g, lr)[..i] = w[..i] - lr[] * g[..i]");
      })
      .attribute("weight_decay", 0)
      .not_differentiable()
      .replaces({0})
      .example({{5, 3}, {5, 3}, {}})
      .example({{5, 3}, {5, 3}, {}}, {{"weight_decay", 0.01}});
  // PyTorch's rule: the momentum is not damped, and the weight decay goes into it.
  declare(registry, "sgd_momentum", "m' = momentum m + g + weight_decay w; w' = w - lr m'")
      .formula([](const OpInstance& op) {
        const bool decay = op.attributes.at("weight_decay") != 0;
        return std::string("sgd_momentum(w, g, m, lr) -> wn, mn =\n") +
               (decay ? "mn[..i] = momentum * m[..i] + (g[..i] + weight_decay * w[..i])\n"
                      : "mn[..i] = momentum * m[..i] + g[..i]\n") +
               "wn[..i] = w[..i] - lr[] * mn[..i]";
      })
      .required("momentum")
      .attribute("weight_decay", 0)
      .not_differentiable()
      .replaces({0, 2})
      .example({{5, 3}, {5, 3}, {5, 3}, {}}, {{"momentum", 0.9}})
      .example({{5, 3}, {5, 3}, {5, 3}, {}}, {{"momentum", 0.9}, {"weight_decay", 0.01}});
}

}  // namespace partita

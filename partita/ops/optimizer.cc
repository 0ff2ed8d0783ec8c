// Declares weight updates, and the treatment of gradients and learning rate before them. A result that replaces an
// operand is written into its buffer and read by the next step. The formulas are PyTorch's.
#include <cmath>

#include "partita/base/error.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

// The gradient plus the weight decay, if there is some.
std::string decayed(const OpInstance& op) {
  return op.attributes.at("weight_decay") != 0 ? "(g[..i] + weight_decay * w[..i])" : "g[..i]";
}

// 1 - beta^(t + 1). In float32 the power rounds beta first, and the difference loses the remaining digits. With y = -(t
// + 1) log(beta) / 2 it is 1 - e^(-2y) = 2 tanh(y) / (1 + tanh(y)), which rounds once. PyTorch computes it in float64.
std::string without_bias(double beta) {
  if (beta == 0) return "1";
  const std::string tanh = fmt::format("tanh((t[] + 1) * {:.30f})", -std::log(beta) / 2);
  return fmt::format("(2 * {0} / (1 + {0}))", tanh);
}

// m' and v' are running means of g and of g^2, each divided by its bias towards 0; `decayed`: the gradient, `kept`: the
// value from which the update is taken.
std::string adam_formula(const OpInstance& op, const std::string& name, const std::string& decayed,
                         const std::string& kept) {
  return fmt::format(
      "{}(w, g, m, v, lr, t) -> wn, mn, vn =\n"
      "mn[..i] = beta1 * m[..i] + (1 - beta1) * {}\n"
      "vn[..i] = beta2 * v[..i] + (1 - beta2) * {}^2\n"
      "wn[..i] = {} - lr[] / {} * mn[..i] / (sqrt(vn[..i]) / sqrt({}) + eps)",
      name, decayed, decayed, kept, without_bias(op.attributes.at("beta1")), without_bias(op.attributes.at("beta2")));
}

void declare_sgd(OpRegistry& registry) {
  declare(registry, "sgd", "w' = w - lr (g + weight_decay w)")
      .formula([](const OpInstance& op) { return fmt::format("sgd(w, g, lr)[..i] = w[..i] - lr[] * {}", decayed(op)); })
      .attribute("weight_decay", 0)
      .updates("sgd")
      .example({{5, 3}, {5, 3}, {}})
      .example({{5, 3}, {5, 3}, {}}, {{"weight_decay", 0.01}});
  // The momentum is not damped, and the weight decay goes into it.
  declare(registry, "sgd_momentum",
          "m' = momentum m + g + weight_decay w; w' = w - lr m', nesterov: g + .. + momentum m'")
      .formula([](const OpInstance& op) {
        const std::string step =
            op.integer("nesterov") ? fmt::format("({} + momentum * mn[..i])", decayed(op)) : "mn[..i]";
        return fmt::format(
            "sgd_momentum(w, g, m, lr) -> wn, mn =\n"
            "mn[..i] = momentum * m[..i] + {}\n"
            "wn[..i] = w[..i] - lr[] * {}",
            decayed(op), step);
      })
      .required("momentum")
      .attribute("nesterov", 0)
      .attribute("weight_decay", 0)
      .updates("sgd", {"momentum"})
      .example({{5, 3}, {5, 3}, {5, 3}, {}}, {{"momentum", 0.9}})
      .example({{5, 3}, {5, 3}, {5, 3}, {}}, {{"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", 1}});
}

void declare_adam(OpRegistry& registry) {
  const std::vector<Shape> adam{{5, 3}, {5, 3}, {5, 3}, {5, 3}, {}, {}};
  const DType real = DType::kFloat32;
  const std::vector<DType> dtypes{real, real, real, real, real, DType::kInt64};
  declare(registry, "adam", "Adam (Kingma and Ba, 2015); the weight decay is added to the gradient")
      .formula([](const OpInstance& op) { return adam_formula(op, "adam", decayed(op), "w[..i]"); })
      .attribute("beta1", 0.9)
      .attribute("beta2", 0.999)
      .attribute("eps", 1e-8)
      .attribute("weight_decay", 0)
      .updates("adam", {"exp_avg", "exp_avg_sq"}, true)
      .domain(0.4, 1.9)
      .example(adam, {}, dtypes)
      .integers_below(9)
      .example(adam, {{"weight_decay", 0.01}, {"beta2", 0.95}}, dtypes)
      .integers_below(9);
  declare(registry, "adamw",
          "Adam with the weight decay apart from it (Loshchilov and Hutter, 2019): w - lr weight_decay w")
      .formula([](const OpInstance& op) {
        const bool decay = op.attributes.at("weight_decay") != 0;
        return adam_formula(op, "adamw", "g[..i]", decay ? "w[..i] * (1 - lr[] * weight_decay)" : "w[..i]");
      })
      .attribute("beta1", 0.9)
      .attribute("beta2", 0.999)
      .attribute("eps", 1e-8)
      .attribute("weight_decay", 0)
      .updates("adamw", {"exp_avg", "exp_avg_sq"}, true)
      .domain(0.4, 1.9)
      .example(adam, {{"weight_decay", 0.01}}, dtypes)
      .integers_below(9);
}

void declare_adagrad(OpRegistry& registry) {
  declare(registry, "adagrad", "s' = s + g^2; w' = w - lr g / (sqrt(s') + eps) (Duchi et al., 2011)")
      .formula([](const OpInstance& op) {
        return fmt::format(
            "adagrad(w, g, s, lr) -> wn, sn =\n"
            "sn[..i] = s[..i] + {0}^2\n"
            "wn[..i] = w[..i] - lr[] * {0} / (sqrt(sn[..i]) + eps)",
            decayed(op));
      })
      .attribute("eps", 1e-10)
      .attribute("weight_decay", 0)
      .updates("adagrad", {"sum"})
      .domain(0.4, 1.9)
      .example({{5, 3}, {5, 3}, {5, 3}, {}})
      .example({{5, 3}, {5, 3}, {5, 3}, {}}, {{"weight_decay", 0.01}});
}

// Declares the last ops of updates of elementary operations.
void declare_assignments(OpRegistry& registry) {
  struct Assignment {
    const char *name, *summary, *value;
  };
  for (const auto& [name, summary, value] : {Assignment{"assign", "x in w's place", "x[..i]"},
                                             {"assign_add", "w + x in w's place", "w[..i] + x[..i]"},
                                             {"assign_sub", "w - x in w's place", "w[..i] - x[..i]"}})
    declare(registry, name, summary)
        .formula(fmt::format("{}(w, x)[..i] = {}", name, value))
        .dtypes(dtype_of_first)
        .not_differentiable()
        .replaces({0})
        .example({{5, 3}, {5, 3}});
}

// Declares clipping by the global norm: every gradient times min(1, max_norm / (norm + 1e-6)).
void declare_clipping(OpRegistry& registry) {
  declare(registry, "square_sum", "sum of x^2").formula("square_sum(x)[] = sum(..i) x[..i]^2").example({{5, 7}});
  declare(registry, "clip_scale", "min(1, max_norm / (sqrt(s) + 1e-6)), s the sum of squares of all gradients")
      .formula("clip_scale(s)[] = min(1, max_norm / (sqrt(s[]) + 0.000001))")
      .required("max_norm")
      .not_differentiable()
      .domain(0.4, 1.9)
      .example({{}}, {{"max_norm", 0.5}});
}

// In the first `warmup` steps the rate rises from 0 by equal parts, as in the transformers package.
std::string schedule(const char* name, const char* factor) {
  return fmt::format("{}(lr, t)[] = lr[] * if(t[] < warmup, t[] / {}, {})", name, "max(warmup, 1)", factor);
}

void declare_schedules(OpRegistry& registry) {
  const std::vector<Shape> shapes{{}, {}};
  const std::vector<DType> dtypes{DType::kFloat32, DType::kInt64};
  declare(registry, "lr_constant", "lr after the warm-up")
      .formula(schedule("lr_constant", "1"))
      .attribute("warmup", 0)
      .schedule("constant")
      .example(shapes, {{"warmup", 4}}, dtypes)
      .integers_below(9);
  declare(registry, "lr_linear", "lr after the warm-up, falling to 0 at step `steps` by equal parts")
      .formula(schedule("lr_linear", "max(0, (steps - t[]) / max(steps - warmup, 1))"))
      .attribute("warmup", 0)
      .required("steps")
      .schedule("linear")
      .example(shapes, {{"warmup", 4}, {"steps", 7}}, dtypes)
      .integers_below(9);
  declare(registry, "lr_cosine", "lr after the warm-up, falling to 0 at step `steps` as half a cosine")
      .formula(schedule(
          "lr_cosine",
          "0.5 + 0.5 * cos(3.141592653589793 * min(t[] - warmup, max(steps - warmup, 1)) / max(steps - warmup, 1))"))
      .attribute("warmup", 0)
      .required("steps")
      .schedule("cosine")
      .example(shapes, {{"warmup", 4}, {"steps", 7}}, dtypes)
      .integers_below(9);
}

}  // namespace

void declare_optimizer(OpRegistry& registry) {
  declare_sgd(registry);
  declare_adam(registry);
  declare_adagrad(registry);
  declare(registry, "count_step", "t' = t + 1, in place")
      .formula("count_step(t)[] = t[] + 1")
      .not_differentiable()
      .replaces({0})
      .example({{}}, {}, {DType::kInt64});
  declare_assignments(registry);
  declare_clipping(registry);
  declare_schedules(registry);
}

}  // namespace partita

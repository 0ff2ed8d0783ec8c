// Declares element-wise operations: one value of the result from one value of each operand; two operands broadcast as
// in NumPy.
#include "partita/base/error.h"
#include "partita/graph/builder.h"
#include "partita/graph/infer.h"
#include "partita/ops/declare.h"

namespace partita {
namespace {

std::vector<DType> boolean(const OpInstance&) { return {DType::kBool}; }
// Whether the quotient of two integers, rounded towards zero, is above the one rounded down: it is negative, and no
// integer.
constexpr std::string_view kRoundsUp =
    "(a[..i] < 0 and b[..i] > 0 or a[..i] > 0 and b[..i] < 0) and a[..i] % b[..i] != 0";

// The value of a cast: towards zero to integers, different from zero to booleans.
std::string cast_formula(const OpInstance& op) {
  switch (static_cast<DType>(op.integer("to"))) {
    case DType::kInt64:
      if (is_float(op.dtypes.at(0))) return "cast(x)[..i] = if(x[..i] < 0, -floor(-x[..i]), floor(x[..i]))";
      break;
    case DType::kBool:
      return "cast(x)[..i] = if(x[..i] != 0, 1, 0)";
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
    default:
      fail("cast: `to` is {}, no dtype", op.integer("to"));
  }
  return "cast(x)[..i] = x[..i]";
}

// A power of integers is a product of b factors, as int64 multiplies them. Above 65 factors, 64 or 65 of b's parity
// give the same for -1, 0, 1 and even numbers.
std::string power_formula(const OpInstance& op) {
  if (is_float(op.dtypes.at(0)) || is_float(op.dtypes.at(1))) return "pow(a, b)[..i] = a[..i]^b[..i]";
  return "pow(a, b)[..i] where k < 66 = prod(k) if(k < min(b[..i], 64 + b[..i] % 2), a[..i], 1)";
}

// The remainder of the division by 2^bits; of signed integers the half above 2^(bits-1) is negative.
std::string wrap_formula(const OpInstance& op) {
  const int64_t bits = op.integer("bits");
  if (bits < 1 || bits > 32) fail("wrap: {} bits", bits);
  const int64_t range = int64_t{1} << bits, half = range / 2;
  if (!op.integer("signed")) return fmt::format("wrap(x)[..i] = x[..i] % {}", range);
  return fmt::format("wrap(x)[..i] = (x[..i] + {}) % {} - {}", half, range, half);
}

void declare_rounding_and_roots(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "ceil", "the smallest integer not below x")
      .formula("ceil_(x)[..i] = -floor(-x[..i])")
      .not_differentiable()
      .example({shape});
  declare(registry, "round", "the nearest integer, of two the even one")
      .formula(
          "round_(x)[..i] =\n"
          "r[..i] = floor(x[..i] + 0.5)\n"
          "if(r[..i] - x[..i] == 0.5 and 2 * floor(r[..i] / 2) != r[..i], r[..i] - 1, r[..i])")
      .not_differentiable()
      .example({shape});
  declare(registry, "is_nan", "1 where x is no number")
      .formula("is_nan(x)[..i] = if(x[..i] == x[..i], 0, 1)")
      .dtypes(boolean)
      .not_differentiable()
      .example({shape});
  declare(registry, "is_inf", "1 where x is infinite")
      .formula("is_inf(x)[..i] = if(x[..i] == inf or x[..i] == -inf, 1, 0)")
      .dtypes(boolean)
      .not_differentiable()
      .example({shape});
  declare(registry, "rsqrt", "1/sqrt(x)")
      .full_precision()
      .formula("rsqrt(x)[..i] = 1 / sqrt(x[..i])")
      .domain(0.4, 1.9)
      .example({shape});
  declare(registry, "tan", "tangent")
      .full_precision()
      .formula("tan_(x)[..i] = sin(x[..i]) / cos(x[..i])")
      .domain(-1, 1)
      .example({shape});
}

// The last step of a norm or a deviation. At 0 its slope is 0, as in PyTorch's norm and std. Infinity times the 0 of
// the powers below would be no number.
std::string norm_root(const OpInstance& op) {
  const double exponent = op.attributes.at("exponent");
  if (!(exponent > 0 && exponent < 1)) fail("exponent={} is none of a root", exponent);
  return fmt::format("norm_root(s)[..i] = if(s[..i] == 0, 0, {})",
                     exponent == 0.5 ? "sqrt(s[..i])" : "s[..i]^exponent");
}

void declare_norms(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "norm_power", "|x|^p, a term of a norm, with the slope 0 at 0")
      .full_precision()
      .formula("norm_power(x)[..i] = if(x[..i] == 0, 0, abs(x[..i])^p)")
      .required("p")
      .domain(0.4, 1.9)
      .example({shape}, {{"p", 3}})
      .example({shape}, {{"p", 0.5}});
  declare(registry, "norm_root", "s^exponent, s a sum of powers or squares, with the slope 0 at 0")
      .full_precision()
      .formula(norm_root)
      .attribute("exponent", 0.5)
      .domain(0.4, 1.9)
      .example({shape})
      .example({shape}, {{"exponent", 0.25}});
  declare(registry, "xlogy", "x log(y), 0 where x is 0")
      .full_precision()
      .formula("xlogy(x, y)[..i] = if(x[..i] == 0 and (y[..i] <= 0 or y[..i] == inf), 0, x[..i] * log(y[..i]))")
      .domain(0.4, 1.9)
      .example({shape, shape})
      .example({{4, 1, 5}, {3, 1}});
}

void declare_trigonometric(OpRegistry& registry) {
  const Shape shape{5, 7};
  struct Inverse {
    const char *name, *summary;
    bool full_precision;
    double lo, hi;  // away from points with infinite derivatives
  };
  for (const auto& [name, summary, full, lo, hi] : {Inverse{"asin", "arc sine", true, -0.9, 0.9},
                                                    {"acos", "arc cosine", true, -0.9, 0.9},
                                                    {"atan", "arc tangent", false, -1.5, 1.5},
                                                    {"sinh", "hyperbolic sine", true, -1.5, 1.5},
                                                    {"cosh", "hyperbolic cosine", true, -1.5, 1.5},
                                                    {"asinh", "inverse hyperbolic sine", false, -1.5, 1.5},
                                                    {"acosh", "inverse hyperbolic cosine", false, 1.2, 2.5},
                                                    {"atanh", "inverse hyperbolic tangent", false, -0.9, 0.9}}) {
    Declaration one = declare(registry, name, summary);
    one.formula(fmt::format("{0}_(x)[..i] = {0}(x[..i])", name)).domain(lo, hi).example({shape});
    if (full) one.full_precision();
  }
}

// `if` selects, so that e^x of a large x does no harm: a bound on x would have a slope of its own at 0.
void declare_activations_of_onnx(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "elu", "x where positive, else alpha (e^x - 1)")
      .formula("elu(x)[..i] = if(x[..i] > 0, x[..i], alpha * (exp(x[..i]) - 1))")
      .attribute("alpha", 1)
      .example({shape}, {{"alpha", 1.5}});
  declare(registry, "selu", "gamma x where positive, else gamma alpha (e^x - 1)")
      .formula("selu(x)[..i] = if(x[..i] > 0, gamma * x[..i], gamma * alpha * (exp(x[..i]) - 1))")
      .attribute("alpha", 1.6732632423543772848170429916717)
      .attribute("gamma", 1.0507009873554804934193349852946)
      .example({shape});
  declare(registry, "hard_sigmoid", "alpha x + beta, not below 0 and not above 1")
      .formula(
          "hard_sigmoid(x)[..i] = "
          "if(alpha * x[..i] + beta <= 0, 0, if(alpha * x[..i] + beta >= 1, 1, alpha * x[..i] + beta))")
      .attribute("alpha", 0.2)
      .attribute("beta", 0.5)
      .example({shape}, {{"alpha", 0.5}});
  declare(registry, "hard_swish", "x min(max(x/6 + 1/2, 0), 1)")
      .formula("hard_swish(x)[..i] = if(x[..i] <= -3, 0, if(x[..i] >= 3, x[..i], x[..i] * (x[..i] / 6 + 0.5)))")
      .domain(-4, 4)
      .example({shape});
  // With sigmoid(|x|), so that nothing overflows.
  declare(registry, "softplus", "log(1 + e^x)")
      .full_precision()
      .formula("softplus(x)[..i] = if(x[..i] > 0, x[..i] - log(sigmoid(x[..i])), -log(sigmoid(-x[..i])))")
      .example({shape});
  declare(registry, "softsign", "x/(1 + |x|)")
      .formula("softsign(x)[..i] = x[..i] / (1 + abs(x[..i]))")
      .example({shape});
  declare(registry, "mish", "x tanh(softplus(x))")
      .formula("mish(x)[..i] = x[..i] * tanh(if(x[..i] > 0, x[..i] - log(sigmoid(x[..i])), -log(sigmoid(-x[..i]))))")
      .example({shape});
}

// x scaled by 1/(1 - p), or 0 with probability p. A random number for each element's global number decides, under the
// op's key. So the gradient draws the same again and nothing is stored.
std::string dropout_formula(const OpInstance& op) {
  const double p = op.attributes.at("p");
  if (!(p >= 0 && p < 1)) fail("p={} is no probability below 1", p);
  return fmt::format("dropout(x)[..i] = if(rng(0, lin(..i)) < p, 0, x[..i] * {})", 1 / (1 - p));
}

void declare_dropout(OpRegistry& registry) {
  declare(registry, "dropout", "in training 0 with probability p, else x/(1 - p); in evaluation x")
      .formula(dropout_formula)
      .attribute("p", 0.5)
      .match([](const tdl::Attributes& forward, const Shape&) {
        auto p = forward.find("p");
        return p == forward.end() ? tdl::Attributes() : tdl::Attributes{{"p", p->second}};
      })
      .evaluation([](GraphBuilder&, const Graph&, const Op&, const std::vector<TensorId>& operands) {
        return std::vector<TensorId>{operands[0]};
      })
      .example({{5, 7}})
      .example({{2, 3, 4}}, {{"p", 0.25}});
}

void declare_unary(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "identity", "x")
      .formula("identity(x)[..i] = x[..i]")
      .dtypes(dtype_of_first)
      .match()
      .example({shape});
  declare(registry, "neg", "-x").formula("neg(x)[..i] = -x[..i]").match().example({shape});
  declare(registry, "abs", "|x|").formula("abs_(x)[..i] = abs(x[..i])").example({shape});
  declare(registry, "sign", "-1, 0 or 1").formula("sign_(x)[..i] = sign(x[..i])").not_differentiable().example({shape});
  declare(registry, "floor", "the largest integer not above x")
      .formula("floor_(x)[..i] = floor(x[..i])")
      .not_differentiable()
      .example({shape});
  declare(registry, "exp", "e^x").full_precision().formula("exp_(x)[..i] = exp(x[..i])").example({shape});
  declare(registry, "log", "natural logarithm")
      .full_precision()
      .formula("log_(x)[..i] = log(x[..i])")
      .domain(0.4, 1.9)
      .example({shape});
  declare(registry, "sqrt", "square root").formula("sqrt_(x)[..i] = sqrt(x[..i])").domain(0.4, 1.9).example({shape});
  declare(registry, "square", "x^2").full_precision().formula("square(x)[..i] = x[..i]^2").example({shape});
  declare(registry, "reciprocal", "1/x")
      .full_precision()
      .formula("reciprocal(x)[..i] = 1 / x[..i]")
      .domain(0.4, 1.9)
      .example({shape});
  declare(registry, "sin", "sine").formula("sin_(x)[..i] = sin(x[..i])").example({shape});
  declare(registry, "cos", "cosine").formula("cos_(x)[..i] = cos(x[..i])").example({shape});
  declare(registry, "tanh", "hyperbolic tangent").formula("tanh_(x)[..i] = tanh(x[..i])").example({shape});
  declare(registry, "sigmoid", "1/(1 + e^-x)").formula("sigmoid_(x)[..i] = sigmoid(x[..i])").example({shape});
  declare(registry, "relu", "x where positive, else 0").formula("relu(x)[..i] = max(x[..i], 0)").example({shape});
}

void declare_gradients(OpRegistry& registry) {
  const Shape shape{5, 7};
  // These gradients have kernels of their own; the derived formulas equal them.
  declare(registry, "relu_grad", "gradient of relu: g where x is positive")
      .formula("relu_grad(x, g)[..i] = if(x[..i] > 0, g[..i], 0)")
      .match()
      .example({shape, shape});
  declare(registry, "tanh_grad", "gradient of tanh: g (1 - tanh(x)^2)")
      .formula("tanh_grad(x, g)[..i] = g[..i] * (1 - tanh(x[..i]) * tanh(x[..i]))")
      .match()
      .example({shape, shape});
  declare(registry, "sigmoid_grad", "gradient of sigmoid: g s (1 - s) with s = sigmoid(x)")
      .formula("sigmoid_grad(x, g)[..i] = g[..i] * (sigmoid(x[..i]) * (1 - sigmoid(x[..i])))")
      .match()
      .example({shape, shape});
}

void declare_activations(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "leaky_relu", "x where positive, else alpha x")
      .formula("leaky_relu(x)[..i] = if(x[..i] > 0, x[..i], alpha * x[..i])")
      .attribute("alpha", 0.01)
      .example({shape});
  declare(registry, "erf", "error function").formula("erf_(x)[..i] = erf(x[..i])").example({shape});
  declare(registry, "gelu", "x times the normal distribution function of x")
      .formula("gelu(x)[..i] = 0.5 * x[..i] * (1 + erf(x[..i] * 0.7071067811865476))")
      .example({shape});
  declare(registry, "gelu_tanh", "gelu with the tanh approximation")
      .formula("gelu_tanh(x)[..i] = 0.5 * x[..i] * (1 + tanh(0.7978845608028654 * (x[..i] + 0.044715 * x[..i]^3)))")
      .example({shape});
  declare(registry, "silu", "x sigmoid(x)").formula("silu(x)[..i] = x[..i] * sigmoid(x[..i])").example({shape});
  declare(registry, "clip", "x, not below lo and not above hi; at a bound the slope is 1, with `open` 0")
      .formula([](const OpInstance& op) {
        return fmt::format("clip(x)[..i] = if(x[..i] {0} lo, lo, if(x[..i] {1} hi, hi, x[..i]))",
                           op.integer("open") ? "<=" : "<", op.integer("open") ? ">=" : ">");
      })
      .attribute("lo", -std::numeric_limits<double>::infinity())
      .attribute("hi", std::numeric_limits<double>::infinity())
      .attribute("open", 0)
      .example({shape}, {{"lo", -0.5}, {"hi", 0.75}});
}

void declare_conversions(OpRegistry& registry) {
  const Shape shape{5, 7};
  declare(registry, "cast",
          "x as dtype `to` (0 float32, 1 float64, 2 int64, 3 bool, 4 float16, 5 bfloat16); to integers towards zero")
      .formula(cast_formula)
      .required("to")
      .dtypes([](const OpInstance& op) { return std::vector<DType>{static_cast<DType>(op.integer("to"))}; })
      .example({shape}, {{"to", static_cast<double>(DType::kInt64)}})
      .example({shape}, {{"to", static_cast<double>(DType::kFloat64)}})
      .example({shape}, {{"to", static_cast<double>(DType::kBool)}});
  declare(registry, "wrap", "the integer x as one of `bits` bits, signed or not: what is beyond wraps around")
      .formula(wrap_formula)
      .required("bits")
      .attribute("signed", 1)
      .dtypes(dtype_of_first)
      .not_differentiable()
      .example({shape}, {{"bits", 3}}, {DType::kInt64})
      .integers_below(99)
      .example({shape}, {{"bits", 8}, {"signed", 0}}, {DType::kInt64})
      .integers_below(999);
  declare(registry, "logical_not", "1 where x is 0")
      .formula("logical_not(x)[..i] = if(x[..i] == 0, 1, 0)")
      .dtypes(boolean)
      .not_differentiable()
      .example({shape}, {}, {DType::kBool});
}

void declare_binary(OpRegistry& registry) {
  const std::vector<Shape> same{{5, 7}, {5, 7}}, broadcast{{4, 1, 5}, {3, 1}};
  declare(registry, "add", "a + b")
      .formula("add(a, b)[..i] = a[..i] + b[..i]")
      .match()
      .example(same)
      .example(broadcast);
  declare(registry, "sub", "a - b")
      .formula("sub(a, b)[..i] = a[..i] - b[..i]")
      .match()
      .example(same)
      .example(broadcast);
  declare(registry, "mul", "a b").formula("mul(a, b)[..i] = a[..i] * b[..i]").match().example(same).example(broadcast);
  declare(registry, "div", "a / b; of integers rounded down")
      .formula([](const OpInstance& op) {
        const bool floats = is_float(op.dtypes.at(0)) || is_float(op.dtypes.at(1));
        return std::string(floats ? "div(a, b)[..i] = a[..i] / b[..i]" : "div(a, b)[..i] = a[..i] // b[..i]");
      })
      .match()
      .domain(0.4, 1.9)
      .example(same)
      .example(broadcast);
  declare(registry, "div_trunc", "a / b of integers, rounded towards 0")
      .formula(fmt::format("div_trunc(a, b)[..i] = if({}, a[..i] // b[..i] + 1, a[..i] // b[..i])", kRoundsUp))
      .not_differentiable()
      .domain(0.4, 1.9)
      .example(same)
      .example(broadcast);
  declare(registry, "pow", "a^b; of integers a product, b not below 0")
      .full_precision()
      .formula(power_formula)
      .domain(0.4, 1.9)
      .example(same)
      .example(broadcast)
      .example(broadcast, {}, {DType::kInt64, DType::kInt64})
      .integers_below(4);
  declare(registry, "maximum", "the larger of a and b")
      .formula("maximum(a, b)[..i] = max(a[..i], b[..i])")
      .example(same)
      .example(broadcast);
  declare(registry, "minimum", "the smaller of a and b")
      .formula("minimum(a, b)[..i] = min(a[..i], b[..i])")
      .example(same)
      .example(broadcast);

  declare(registry, "prelu", "x where positive, else slope x")
      .low_precision()
      .formula("prelu(x, s)[..i] = if(x[..i] > 0, x[..i], s[..i] * x[..i])")
      .example(same)
      .example({{4, 3, 5}, {3, 1}});
}

void declare_remainders(OpRegistry& registry) {
  const std::vector<Shape> same{{5, 7}, {5, 7}}, broadcast{{4, 1, 5}, {3, 1}};
  declare(registry, "mod", "a - b floor(a/b): the remainder, with the sign of b")
      .formula("mod(a, b)[..i] = a[..i] % b[..i]")
      .domain(0.4, 1.9)
      .example(same)
      .example(broadcast);

  declare(registry, "fmod", "the remainder of a / b, with the sign of a")
      .formula([](const OpInstance& op) {
        // Integers avoid |a|, which the least int64 does not have.
        if (!is_float(op.dtypes.at(0)) && !is_float(op.dtypes.at(1)))
          return fmt::format("fmod_(a, b)[..i] = if({}, a[..i] % b[..i] - b[..i], a[..i] % b[..i])", kRoundsUp);
        return std::string("fmod_(a, b)[..i] = if(a[..i] < 0, -(-a[..i] % abs(b[..i])), a[..i] % abs(b[..i]))");
      })
      .domain(0.4, 1.9)
      .example(same)
      .example(broadcast);
}

void declare_bits(OpRegistry& registry) {
  const std::vector<Shape> same{{5, 7}, {5, 7}}, broadcast{{4, 1, 5}, {3, 1}};
  struct Bitwise {
    const char *name, *summary;
  };
  for (const auto& [name, summary] : {Bitwise{"bit_and", "the bits that are 1 in both integers"},
                                      {"bit_or", "the bits that are 1 in one of two integers"},
                                      {"bit_xor", "the bits that differ"},
                                      {"shift_left", "a 2^b"},
                                      {"shift_right", "a / 2^b, rounded down"}})
    declare(registry, name, summary)
        .formula(fmt::format("{0}_(a, b)[..i] = {0}(a[..i], b[..i])", name))
        .dtypes(dtype_of_first)
        .not_differentiable()
        .example(same, {}, {DType::kInt64, DType::kInt64})
        .integers_below(60)
        .example(broadcast, {}, {DType::kInt64, DType::kInt64})
        .integers_below(9);
}

void declare_comparisons(OpRegistry& registry) {
  const std::vector<Shape> same{{5, 7}, {5, 7}}, broadcast{{4, 1, 5}, {3, 1}};
  struct Comparison {
    const char *name, *sign, *summary;
  };
  for (const auto& [name, sign, summary] : {Comparison{"equal", "==", "1 where a = b"},
                                            {"not_equal", "!=", "1 where a and b differ"},
                                            {"less", "<", "1 where a < b"},
                                            {"less_equal", "<=", "1 where a <= b"},
                                            {"greater", ">", "1 where a > b"},
                                            {"greater_equal", ">=", "1 where a >= b"}})
    declare(registry, name, summary)
        .formula(fmt::format("{}(a, b)[..i] = if(a[..i] {} b[..i], 1, 0)", name, sign))
        .dtypes(boolean)
        .not_differentiable()
        .example(same)
        .example(broadcast);
  declare(registry, "logical_xor", "1 where one of the two is 0")
      .formula("logical_xor(a, b)[..i] = if(a[..i] != 0 and b[..i] == 0 or a[..i] == 0 and b[..i] != 0, 1, 0)")
      .dtypes(boolean)
      .not_differentiable()
      .example(same, {}, {DType::kBool, DType::kBool});
  for (const auto& [name, sign, summary] :
       {Comparison{"logical_and", "and", "1 where neither is 0"}, {"logical_or", "or", "1 where not both are 0"}})
    declare(registry, name, summary)
        .formula(fmt::format("{}(a, b)[..i] = if(a[..i] != 0 {} b[..i] != 0, 1, 0)", name, sign))
        .dtypes(boolean)
        .not_differentiable()
        .example(same, {}, {DType::kBool, DType::kBool});
}

void declare_where(OpRegistry& registry) {
  declare(registry, "where", "a where c is not 0, else b")
      .formula("select(c, a, b)[..i] = if(c[..i] != 0, a[..i], b[..i])")
      .dtypes([](const OpInstance& op) {
        const DType a = op.dtypes.at(1), b = op.dtypes.at(2);
        return std::vector<DType>{a == b ? a : promoted_dtype({a, b}, {op.shapes[1], op.shapes[2]})};
      })
      .example({{5, 7}, {5, 7}, {5, 7}}, {}, {DType::kBool, DType::kFloat32, DType::kFloat32})
      .example({{4, 3, 1}, {1, 5}, {3, 1}}, {}, {DType::kBool, DType::kFloat32, DType::kFloat32});
}

}  // namespace

void declare_elementwise(OpRegistry& registry) {
  declare_unary(registry);
  declare_gradients(registry);
  declare_activations(registry);
  declare_conversions(registry);
  declare_rounding_and_roots(registry);
  declare_norms(registry);
  declare_trigonometric(registry);
  declare_activations_of_onnx(registry);
  declare_dropout(registry);
  declare_binary(registry);
  declare_remainders(registry);
  declare_bits(registry);
  declare_comparisons(registry);
  declare_where(registry);
}

}  // namespace partita

// Converts operators that compute one value of the result from one value of each operand.
#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/graph/infer.h"
#include "partita/onnx/converter.h"
#include "partita/onnx/pieces.h"

namespace partita::onnx_model {
namespace {

Converter unary(const char* definition) {
  return [definition](NodeContext& n) -> Results { return {n.op(definition, {n.tensor(0)})}; };
}

// With attributes that are numbers under the same names here and there.
Converter unary_with(const char* definition, std::map<const char*, double> defaults) {
  return [definition, defaults = std::move(defaults)](NodeContext& n) -> Results {
    tdl::Attributes attributes;
    for (const auto& [name, otherwise] : defaults) attributes[name] = n.real(name, otherwise);
    return {n.op(definition, {n.tensor(0)}, std::move(attributes))};
  };
}

Results two(NodeContext& n, const char* definition) {
  if (n.dtype(0) != n.dtype(1)) fail("operands of {} and {}", name_of(n.dtype(0)), name_of(n.dtype(1)));
  broadcast(n.shape(0), n.shape(1));
  return {n.op(definition, {n.tensor(0), n.tensor(1)})};
}
Converter binary(const char* definition) {
  return [definition](NodeContext& n) { return two(n, definition); };
}

// Any number of operands, combined one by one.
Converter chain(const char* definition) {
  return [definition](NodeContext& n) -> Results {
    if (n.count() == 0) fail("no operands");
    if (n.count() == 1) return {n.same(0)};
    TensorId sum = n.tensor(0);
    for (std::size_t i = 1; i + 1 < n.count(); ++i) sum = n.before(definition, {sum, n.tensor(i)});
    return {n.op(definition, {sum, n.tensor(n.count() - 1)})};
  };
}

Converter extremum(const char* definition) {
  return [definition](NodeContext& n) -> Results {
    const bool from_below = definition == std::string_view("maximum");
    for (std::size_t x = 0; x < 2 && n.count() == 2; ++x)
      if (std::optional<Value> one = clamp_of_bound(n, from_below, x, 1 - x)) return {*one};
    return chain(definition)(n);
  };
}

Results logarithm(NodeContext& n) {
  if (std::optional<Value> of_sigmoid = logarithm_of_sigmoid(n)) return {*of_sigmoid};
  return {n.op("log", {n.tensor(0)})};
}

Results mean(NodeContext& n) {
  if (n.count() == 0) fail("no operands");
  if (n.count() == 1) return {n.same(0)};
  TensorId total = n.tensor(0);
  for (std::size_t i = 1; i < n.count(); ++i) total = n.before("add", {total, n.tensor(i)});
  return {n.op("div", {total, n.scalar(static_cast<double>(n.count()), n.dtype_of(total))})};
}

// x + 0, x - 0, x * 1, x / 1 are x: exporters leave them behind.
Converter binary_with_neutral(const char* definition, double neutral, bool either) {
  return [=](NodeContext& n) -> Results {
    if (n.dtype(0) == n.dtype(1)) {
      const Shape both = broadcast(n.shape(0), n.shape(1));
      if (n.is_filled_with(1, neutral) && both == n.shape(0)) return {n.same(0)};
      if (either && n.is_filled_with(0, neutral) && both == n.shape(1)) return {n.same(1)};
    }
    return two(n, definition);
  };
}

Results subtraction(NodeContext& n) {
  if (std::optional<Value> loss = binary_cross_entropy(n)) return {*loss};
  return binary_with_neutral("sub", 0, false)(n);
}

Results division(NodeContext& n) {
  if (is_float(n.dtype(0)) || n.is_filled_with(1, 1)) return binary_with_neutral("div", 1, false)(n);
  if (n.dtype(0) != n.dtype(1)) fail("operands of {} and {}", name_of(n.dtype(0)), name_of(n.dtype(1)));
  return two(n, "div_trunc");
}

Results is_infinite(NodeContext& n) {
  const bool positive = n.integer("detect_positive", 1) != 0, negative = n.integer("detect_negative", 1) != 0;
  if (positive && negative) return {n.op("is_inf", {n.tensor(0)})};
  const double infinity = std::numeric_limits<double>::infinity();
  if (!positive && !negative) return {n.op("not_equal", {n.tensor(0), n.tensor(0)})};
  return {n.op("equal", {n.tensor(0), n.scalar(positive ? infinity : -infinity, n.dtype(0))})};
}

// 0 within [-lambd, lambd], else nearer to 0 by bias.
Results shrink(NodeContext& n) {
  const DType dtype = n.dtype(0);
  const double lambda = n.real("lambd", 0.5), bias = n.real("bias", 0);
  const TensorId x = n.tensor(0), zero = n.scalar(0, dtype);
  const TensorId low = n.before(
      "where", {n.before("less", {x, n.scalar(-lambda, dtype)}), n.before("add", {x, n.scalar(bias, dtype)}), zero});
  return {n.op("where",
               {n.before("greater", {x, n.scalar(lambda, dtype)}), n.before("sub", {x, n.scalar(bias, dtype)}), low})};
}

Results modulo(NodeContext& n) { return two(n, n.integer("fmod", 0) ? "fmod" : "mod"); }

Results power(NodeContext& n) {
  const Values* exponent = n.value(1).constant.get();
  if (exponent && volume(exponent->shape) == 1 && exponent->shape.size() <= n.rank(0) && is_float(n.dtype(0))) {
    const double e = *n.number(1, "exponent");
    if (e == 1) return {n.same(0)};
    if (std::optional<Value> norm = norm_of_powers(n, e)) return {*norm};
    if (e == 2) return {n.op("square", {n.tensor(0)})};
    if (e == 0.5) return {square_root(n)};
    if (e == -1) return {n.op("reciprocal", {n.tensor(0)})};
    if (e == 3) return {n.op("mul", {n.before("square", {n.tensor(0)}), n.tensor(0)})};
    return {n.op("pow", {n.tensor(0), n.scalar(e, n.dtype(0))})};
  }
  if (n.dtype(0) == n.dtype(1)) return two(n, "pow");
  if (exponent && n.dtype(0) == DType::kInt64 && volume(exponent->shape) == 1 && exponent->shape.size() <= n.rank(0))
    if (const double e = *n.number(1, "exponent"); e >= 0 && e == std::floor(e) && e < 1e6)
      return {n.op("pow", {n.tensor(0), n.scalar(e, DType::kInt64)})};
  // Operands of different types are computed in the floating one; the result has the base's type.
  const DType in = is_float(n.dtype(0)) ? n.dtype(0) : n.dtype(1);
  auto as = [&](TensorId x, DType to) {
    return n.dtype_of(x) == to ? x : n.before("cast", {x}, {{"to", static_cast<double>(to)}});
  };
  const TensorId y = n.before("pow", {as(n.tensor(0), in), as(n.tensor(1), in)});
  return {n.made(as(y, n.dtype(0)))};
}

// Where(IsNaN(s), 0, s) with s = Softmax(x) is the exporter's form of attention: rows that are masked as a whole are 0.
// The op softmax does that itself.
bool is_masked_softmax(NodeContext& n) {
  const auto& producer = n.state.producer;
  const auto nan = producer.find(n.name(0)), softmax = producer.find(n.name(2));
  if (nan == producer.end() || softmax == producer.end() || nan->second->operation != "IsNaN" ||
      softmax->second->operation != "Softmax")
    return false;
  if (nan->second->inputs != std::vector<std::string>{n.name(2)} || !n.is_filled_with(1, 0) ||
      n.state.readers[n.name(2)] != 2)
    return false;
  const TensorId tensor = n.value(2).tensor;
  return tensor.valid() && n.build.graph().tensor(tensor).producer.valid() &&
         n.build.graph().op(n.build.graph().tensor(tensor).producer).definition == "softmax" &&
         broadcast(n.shape(1), n.shape(2)) == n.shape(2);
}

Results where(NodeContext& n) {
  if (n.dtype(1) != n.dtype(2)) fail("choices of {} and {}", name_of(n.dtype(1)), name_of(n.dtype(2)));
  if (is_masked_softmax(n)) {
    Op& softmax = n.build.graph().op(n.build.graph().tensor(n.value(2).tensor).producer);
    softmax.attributes["masked"] = 1;
    softmax.bound = bind_op(n.build.graph(), softmax);
    return {n.same(2)};
  }
  if (std::optional<Value> xlogy = product_with_logarithm(n)) return {*xlogy};
  // A condition that is equal everywhere, in a constant without other elements.
  const Shape all = broadcast(broadcast(n.shape(0), n.shape(1)), n.shape(2));
  if (n.is_filled_with(0, 1) && n.shape(1) == all) return {n.same(1)};
  if (n.is_filled_with(0, 0) && n.shape(2) == all) return {n.same(2)};
  return {n.op("where", {n.tensor(0), n.tensor(1), n.tensor(2)})};
}

Results clip(NodeContext& n) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (!is_float(n.dtype(0))) {
    TensorId x = n.tensor(0);
    if (n.present(1)) x = n.before("maximum", {x, n.tensor(1)});
    if (n.present(2)) x = n.before("minimum", {x, n.tensor(2)});
    return {n.made(x)};
  }
  const double hi = n.number(2, "max").value_or(infinity), lo = std::min(n.number(1, "min").value_or(-infinity), hi);
  // relu6 if a file does not say; others are clamp.
  const bool open = n.node.target.empty()
                        ? lo == 0 && hi == 6
                        : n.node.target.starts_with("aten.hardtanh") || n.node.target.starts_with("aten.relu6");
  return {n.op("clip", {n.tensor(0)}, {{"lo", lo}, {"hi", hi}, {"open", open ? 1.0 : 0.0}})};
}

Results gelu(NodeContext& n) {
  return {n.op(n.text("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu", {n.tensor(0)})};
}

// x sigmoid(alpha x).
Results swish(NodeContext& n) {
  const double alpha = n.real("alpha", 1);
  if (alpha == 1) return {n.op("silu", {n.tensor(0)})};
  const TensorId x = n.tensor(0), scaled = n.before("mul", {x, n.scalar(alpha, n.dtype(0))});
  return {n.op("mul", {x, n.before("sigmoid", {scaled})})};
}

// A slope a channel [c, 1, 1], or of a shape that broadcasts to x.
Results prelu(NodeContext& n) { return {n.op("prelu", {n.tensor(0), n.tensor(1)})}; }

// max(0, x) + min(0, alpha (e^(x/alpha) - 1)) is elu for x/alpha, times alpha.
Results celu(NodeContext& n) {
  const double alpha = n.real("alpha", 1);
  const DType dtype = n.dtype(0);
  const TensorId scaled = n.before("div", {n.tensor(0), n.scalar(alpha, dtype)}),
                 y = n.before("elu", {scaled}, {{"alpha", 1}});
  return {n.op("mul", {y, n.scalar(alpha, dtype)})};
}

Results thresholded_relu(NodeContext& n) {
  const DType dtype = n.dtype(0);
  const TensorId above = n.before("greater", {n.tensor(0), n.scalar(n.real("alpha", 1), dtype)});
  return {n.op("where", {above, n.tensor(0), n.scalar(0, dtype)})};
}

Results cast_to(NodeContext& n, DType to) {
  if (n.dtype(0) == to) return {n.same(0)};
  return {n.op("cast", {n.tensor(0)}, {{"to", static_cast<double>(to)}})};
}
Results cast(NodeContext& n) {
  const auto to = onnx_model::dtype_of(n.integer("to", 0));
  if (!to) fail("a cast to {}, which is not supported", type_name(n.integer("to", 0)));
  if (const auto low = low_dtype_of(n.integer("to", 0)); low && n.count() > 0 && is_float(n.dtype(0)))
    return {n.op("cast", {n.before("cast", {n.tensor(0)}, {{"to", static_cast<double>(*low)}})},
                 {{"to", static_cast<double>(*to)}})};
  return cast_to(n, *to);
}

// -x - 1: every bit changes.
Results bitwise_not(NodeContext& n) {
  if (is_float(n.dtype(0))) fail("an operand of {}", name_of(n.dtype(0)));
  return {n.op("sub", {n.before("neg", {n.tensor(0)}), n.scalar(1, n.dtype(0))})};
}

Results bitwise(NodeContext& n, const char* definition) {
  if (is_float(n.dtype(0))) fail("operands of {}", name_of(n.dtype(0)));
  return two(n, definition);
}

Results bit_shift(NodeContext& n) {
  const std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") fail("direction '{}'", direction);
  return bitwise(n, direction == "LEFT" ? "shift_left" : "shift_right");
}

void add_unary(Converters& table) {
  for (const auto& [operation, definition] : {std::pair{"Relu", "relu"},
                                              {"Tanh", "tanh"},
                                              {"Sigmoid", "sigmoid"},
                                              {"Erf", "erf"},
                                              {"Exp", "exp"},
                                              {"Neg", "neg"},
                                              {"Abs", "abs"},
                                              {"Sign", "sign"},
                                              {"Floor", "floor"},
                                              {"Ceil", "ceil"},
                                              {"Round", "round"},
                                              {"Reciprocal", "reciprocal"},
                                              {"Sin", "sin"},
                                              {"Cos", "cos"},
                                              {"Tan", "tan"},
                                              {"Asin", "asin"},
                                              {"Acos", "acos"},
                                              {"Atan", "atan"},
                                              {"Sinh", "sinh"},
                                              {"Cosh", "cosh"},
                                              {"Asinh", "asinh"},
                                              {"Acosh", "acosh"},
                                              {"Atanh", "atanh"},
                                              {"Not", "logical_not"},
                                              {"IsNaN", "is_nan"},
                                              {"Softplus", "softplus"},
                                              {"Softsign", "softsign"},
                                              {"HardSwish", "hard_swish"},
                                              {"Mish", "mish"}})
    table[operation] = unary(definition);
  table["LeakyRelu"] = unary_with("leaky_relu", {{"alpha", 0.01}});
  table["Elu"] = unary_with("elu", {{"alpha", 1}});
  table["Selu"] = unary_with("selu", {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}});
  table["HardSigmoid"] = unary_with("hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}});
}

void add_binary(Converters& table) {
  for (const auto& [operation, definition] : {std::pair{"Equal", "equal"},
                                              {"Less", "less"},
                                              {"LessOrEqual", "less_equal"},
                                              {"Greater", "greater"},
                                              {"GreaterOrEqual", "greater_equal"},
                                              {"And", "logical_and"},
                                              {"Or", "logical_or"},
                                              {"Xor", "logical_xor"}})
    table[operation] = binary(definition);
  table["Add"] = binary_with_neutral("add", 0, true);
  table["Sub"] = subtraction;
  table["Mul"] = binary_with_neutral("mul", 1, true);
  table["Div"] = division;
  table["Mod"] = modulo;
  table["Pow"] = power;
  table["Sum"] = chain("add");
  table["Max"] = extremum("maximum");
  table["Min"] = extremum("minimum");
  table["Mean"] = mean;
  table["BitwiseNot"] = bitwise_not;
  table["BitwiseAnd"] = [](NodeContext& n) { return bitwise(n, "bit_and"); };
  table["BitwiseOr"] = [](NodeContext& n) { return bitwise(n, "bit_or"); };
  table["BitwiseXor"] = [](NodeContext& n) { return bitwise(n, "bit_xor"); };
  table["BitShift"] = bit_shift;
}

}  // namespace

void add_elementwise_converters(Converters& table) {
  add_unary(table);
  add_binary(table);
  table["Where"] = where;
  table["Log"] = logarithm;
  table["Sqrt"] = [](NodeContext& n) -> Results { return {square_root(n)}; };
  table["Clip"] = clip;
  table["Gelu"] = gelu;
  table["Swish"] = swish;
  table["IsInf"] = is_infinite;
  table["Shrink"] = shrink;
  table["PRelu"] = prelu;
  table["Celu"] = celu;
  table["ThresholdedRelu"] = thresholded_relu;
  table["Cast"] = cast;
  table["CastLike"] = [](NodeContext& n) { return cast_to(n, n.dtype(1)); };
}

}  // namespace partita::onnx_model

// Finds PyTorch's functions in the pieces that exporters write.
#include "partita/onnx/pieces.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/graph/infer.h"

namespace partita::onnx_model {

namespace {

const Op* producer_of(const Graph& graph, TensorId tensor) {
  const OpId op = graph.tensor(tensor).producer;
  return op.valid() ? &graph.op(op) : nullptr;
}

bool is_one_of(const Op* op, std::initializer_list<std::string_view> definitions) {
  return op && std::find(definitions.begin(), definitions.end(), op->definition) != definitions.end();
}

std::optional<double> only(const Values& values) {
  if (volume(values.shape) != 1) return std::nullopt;
  return is_float(values.dtype) ? values.real[0] : static_cast<double>(values.integer[0]);
}

// A constant of one number, perhaps cast.
std::optional<double> number_of(const Graph& graph, TensorId tensor) {
  const Op* op = producer_of(graph, tensor);
  const Tensor& t = graph.tensor(is_one_of(op, {"cast"}) ? op->operands[0] : tensor);
  return t.role == Role::kConstant && t.values ? only(*t.values) : std::nullopt;
}

// So many ops back is looked: what exporters write for one function is no longer.
constexpr int kOpsBack = 8;

// A number, whatever it is, also where ops compute it from constants.
bool is_number(const Graph& graph, TensorId tensor, int left = kOpsBack) {
  const Tensor& t = graph.tensor(tensor);
  const Op* op = producer_of(graph, tensor);
  if (left == 0 || volume(t.shape) != 1 || (!op && t.role != Role::kConstant)) return false;
  return !op || std::ranges::all_of(op->operands, [&](TensorId each) { return is_number(graph, each, left - 1); });
}

bool is_square(const Graph& graph, TensorId tensor) {
  const Op* op = producer_of(graph, tensor);
  return is_one_of(op, {"square"}) || (is_one_of(op, {"mul"}) && op->operands[0] == op->operands[1]);
}

// Squares that are added up, perhaps moved, scaled (a deviation's mean of squares is multiplied by n / (n - 1)), or
// multiplied with others (a cosine's).
bool is_sum_of_squares(const Graph& graph, TensorId tensor, int left = kOpsBack) {
  const Op* op = producer_of(graph, tensor);
  if (!op || left == 0) return false;
  const auto is_one = [&](TensorId each) { return is_sum_of_squares(graph, each, left - 1); };
  const TensorId x = op->operands[0];
  if (is_one_of(op, {"reduce_sum", "reduce_mean", "global_average_pool"})) return is_square(graph, x) || is_one(x);
  if (is_one_of(op, {"reshape", "transpose", "expand", "identity", "cast"})) return is_one(x);
  if (is_one_of(op, {"div"})) return is_number(graph, op->operands[1]) && is_one(x);
  if (!is_one_of(op, {"mul"})) return false;
  if (is_number(graph, x)) return is_one(op->operands[1]);
  return is_one(x) && (is_number(graph, op->operands[1]) || is_one(op->operands[1]));
}

struct PowerOfSize {
  TensorId x;
  double p;
};

// |x|^p: a cube is a square times |x| (the converter of Pow).
std::optional<PowerOfSize> power_of_size(const Graph& graph, TensorId tensor) {
  const Op* op = producer_of(graph, tensor);
  double p = 1;
  if (is_one_of(op, {"mul"})) {
    const Op* square = producer_of(graph, op->operands[0]);
    if (!is_one_of(square, {"square"}) || square->operands[0] != op->operands[1]) return std::nullopt;
    p = 3, op = producer_of(graph, op->operands[1]);
  } else if (is_one_of(op, {"pow", "sqrt"})) {
    const std::optional<double> number = op->definition == "pow" ? number_of(graph, op->operands[1]) : 0.5;
    if (!number) return std::nullopt;
    p = *number, op = producer_of(graph, op->operands[0]);
  }
  if (!is_one_of(op, {"abs"})) return std::nullopt;
  return PowerOfSize{op->operands[0], p};
}

}  // namespace

Value square_root(NodeContext& n) {
  const TensorId x = n.tensor(0);
  return n.op(is_sum_of_squares(n.build.graph(), x) ? "norm_root" : "sqrt", {x});
}

std::optional<Value> norm_of_powers(NodeContext& n, double exponent) {
  const Graph& graph = n.build.graph();
  const Op* found = producer_of(graph, n.tensor(0));
  if (!is_one_of(found, {"reduce_sum"})) return std::nullopt;
  constexpr double kRounded = 1e-6;  // the older exporter has 1 / (p + 1e-6) for 1 / p
  if (is_square(graph, found->operands[0]) && std::abs(2 * exponent - 1) < kRounded)
    return n.op("norm_root", {n.tensor(0)}, {{"exponent", exponent}});
  const std::optional<PowerOfSize> power = power_of_size(graph, found->operands[0]);
  if (!power || std::abs(power->p * exponent - 1) > kRounded) return std::nullopt;
  const tdl::Attributes axes = found->attributes;
  const TensorId terms = n.before("norm_power", {power->x}, {{"p", power->p}});
  const TensorId sum = n.before("reduce_sum", {terms}, axes);
  if (exponent == 2) return n.op("square", {sum});
  if (exponent >= 1) return n.op("pow", {sum, n.scalar(exponent, n.dtype(0))});
  return n.op("norm_root", {sum}, {{"exponent", exponent}});
}

std::optional<Value> logarithm_of_sigmoid(NodeContext& n) {
  const Op* sigmoid = producer_of(n.build.graph(), n.tensor(0));
  if (!is_one_of(sigmoid, {"sigmoid"})) return std::nullopt;
  const TensorId x = sigmoid->operands[0];
  return n.op("neg", {n.before("softplus", {n.before("neg", {x})})});
}

std::optional<Value> product_with_logarithm(NodeContext& n) {
  const auto made_by = [&](const std::string& name, const char* operation) -> const Node* {
    const auto found = n.state.producer.find(name);
    return found != n.state.producer.end() && found->second->operation == operation ? found->second : nullptr;
  };
  const Node *zero = made_by(n.name(0), "Equal"), *other = made_by(n.name(2), "Where");
  if (!zero || !other || zero->inputs.size() != 2 || other->inputs.size() != 3 || zero->inputs[0] != n.name(1))
    return std::nullopt;
  const auto is_zero = [&](const std::string& name) {
    const auto found = n.state.values.find(name);
    if (found == n.state.values.end()) return false;
    const Value& value = found->second;
    return (value.constant ? only(*value.constant) : number_of(n.build.graph(), value.tensor)) == 0.0;
  };
  const Node *nan = made_by(other->inputs[0], "IsNaN"), *product = made_by(other->inputs[2], "Mul");
  if (!nan || !product || !is_zero(zero->inputs[1]) || nan->inputs.at(0) != other->inputs[1] ||
      product->inputs.at(0) != n.name(1))
    return std::nullopt;
  const Node* log = made_by(product->inputs.at(1), "Log");
  if (!log || log->inputs.at(0) != other->inputs[1]) return std::nullopt;
  const auto y = n.state.values.find(log->inputs[0]);
  if (y == n.state.values.end() || !y->second.tensor.valid()) return std::nullopt;
  return n.op("xlogy", {n.tensor(1), y->second.tensor});
}

std::optional<Value> bounded(NodeContext& n, bool from_below, std::size_t x, std::size_t bound) {
  if (!is_float(n.dtype(x)) || n.dtype(x) != n.dtype(bound) || n.value(x).constant || !n.value(bound).constant ||
      n.node.target.starts_with("aten.maximum") || n.node.target.starts_with("aten.minimum"))
    return std::nullopt;
  const TensorId value = n.tensor(x);
  const Values& limits = *n.value(bound).constant;
  if (limits.real.empty()) return std::nullopt;
  const bool one = std::ranges::all_of(limits.real, [&](double limit) { return limit == limits.real[0]; });
  if (!one || broadcast(n.shape(x), limits.shape) != n.shape(x)) {
    const TensorId limit = n.tensor(bound);
    const TensorId outside = n.before(from_below ? "less" : "greater", {value, limit});
    return n.op("where", {outside, limit, value});
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const bool relu6 = !from_below && is_one_of(producer_of(n.build.graph(), value), {"relu"});
  return n.op("clip", {value},
              {{"lo", from_below ? limits.real[0] : -infinity},
               {"hi", from_below ? infinity : limits.real[0]},
               {"open", relu6 ? 1.0 : 0.0}});
}

}  // namespace partita::onnx_model

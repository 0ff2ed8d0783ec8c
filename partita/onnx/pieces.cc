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

// So many ops back it looks: the pieces of one function are no longer.
constexpr int kOpsBack = 8;

// Tells whether it is a number, of any kind, also one that ops compute from constants.
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

namespace {

// Looks at nodes of the file by the names of their results.
class Pieces {
 public:
  explicit Pieces(const NodeContext& n) : state_(n.state), graph_(n.build.graph()) {}

  // Null: another operation makes it, or it has another number of operands.
  const Node* made_by(const std::string& name, const char* operation, std::size_t operands) const {
    const auto found = state_.producer.find(name);
    const bool is = found != state_.producer.end() && found->second->operation == operation &&
                    found->second->inputs.size() == operands;
    return is ? found->second : nullptr;
  }
  bool is_number(const std::string& name, double number) const {
    const auto found = state_.values.find(name);
    if (found == state_.values.end()) return false;
    const Value& value = found->second;
    return (value.constant ? only(*value.constant) : number_of(graph_, value.tensor)) == number;
  }
  const Value* value(const std::string& name) const {
    const auto found = state_.values.find(name);
    return found == state_.values.end() ? nullptr : &found->second;
  }
  TensorId tensor(const std::string& name) const {  // invalid: there is none
    const Value* found = value(name);
    return found ? found->tensor : TensorId();
  }
  // Tells whether `name` is `t` - 1. For a constant the exporter may have it as another constant.
  bool is_one_less(const std::string& name, const std::string& t) const {
    const Value *less = value(name), *from = value(t);
    if (less && from && less->constant && from->constant)
      return std::ranges::equal(less->constant->real, from->constant->real, [](double a, double b) {
        return std::abs(a - (b - 1)) < 1e-6;  // rounded to the file's type
      });
    const Node* sub = made_by(name, "Sub", 2);
    return sub && sub->inputs[0] == t && is_number(sub->inputs[1], 1);
  }
  // y of max(log y, -100); empty: it is none.
  std::string in_bounded_logarithm(const std::string& name) const {
    const Node *bounded = made_by(name, "Max", 2), *log = bounded ? made_by(bounded->inputs[0], "Log", 1) : nullptr;
    return log && is_number(bounded->inputs[1], -100) ? log->inputs[0] : std::string();
  }

 private:
  const ImportState& state_;
  const Graph& graph_;
};

}  // namespace

std::optional<Value> product_with_logarithm(NodeContext& n) {
  const Pieces pieces(n);
  const Node *zero = pieces.made_by(n.name(0), "Equal", 2), *other = pieces.made_by(n.name(2), "Where", 3);
  if (!zero || !other || zero->inputs[0] != n.name(1)) return std::nullopt;
  const Node *nan = pieces.made_by(other->inputs[0], "IsNaN", 1), *product = pieces.made_by(other->inputs[2], "Mul", 2);
  if (!nan || !product || !pieces.is_number(zero->inputs[1], 0) || nan->inputs[0] != other->inputs[1] ||
      product->inputs[0] != n.name(1))
    return std::nullopt;
  const Node* log = pieces.made_by(product->inputs[1], "Log", 1);
  if (!log || log->inputs[0] != other->inputs[1]) return std::nullopt;
  const TensorId y = pieces.tensor(log->inputs[0]);
  if (!y.valid()) return std::nullopt;
  return n.op("xlogy", {n.tensor(1), y});
}

std::optional<Value> binary_cross_entropy(NodeContext& n) {
  const Pieces pieces(n);
  const Node *without = pieces.made_by(n.name(0), "Mul", 2), *with = pieces.made_by(n.name(1), "Mul", 2);
  if (!without || !with) return std::nullopt;
  const std::string y = pieces.in_bounded_logarithm(with->inputs[1]), t = with->inputs[0];
  const Node* rest = pieces.made_by(pieces.in_bounded_logarithm(without->inputs[1]), "Add", 2);
  const Node* minus = rest ? pieces.made_by(rest->inputs[0], "Neg", 1) : nullptr;
  const Value* target = pieces.value(t);
  if (!minus || minus->inputs[0] != y || !pieces.is_number(rest->inputs[1], 1) || !target ||
      !pieces.is_one_less(without->inputs[0], t))
    return std::nullopt;
  const TensorId of = pieces.tensor(y);
  if (!of.valid() || target->shape != n.build.shape(of) || target->dtype != n.dtype_of(of)) return std::nullopt;
  const TensorId to = target->constant ? n.constant_tensor(*target->constant, "target") : target->tensor;
  return n.op("bce", {of, to});
}

std::optional<Value> clamp_of_bound(NodeContext& n, bool from_below, std::size_t x, std::size_t bound) {
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

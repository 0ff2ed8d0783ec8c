// Walks the expressions of a weight update, and adds an operation for each function in them.
#include "partita/graph/elementary.h"

#include <cmath>

#include "partita/base/error.h"

namespace partita {

struct ElementaryUpdates::Formula {
  const tdl::Bound& bound;
  std::string name;
  DType dtype;                    // of the weight
  std::vector<TensorId> tensors;  // by the formula's tensors, as far as they are made
};

TensorId ElementaryUpdates::op(const std::string& definition, const std::vector<TensorId>& operands,
                               const std::string& name) {
  TensorId& made = made_[{definition, operands}];
  if (!made.valid()) made = build_.op(definition, operands, {}, fmt::format("{}.{}", name, definition));
  return made;
}

TensorId ElementaryUpdates::tensor(Value value, DType dtype) {
  if (value.tensor.valid()) return value.tensor;
  TensorId& made = numbers_[{value.number, dtype}];
  if (!made.valid()) made = build_.scalar(fmt::format("optimizer.{}", value.number), value.number, dtype);
  return made;
}

ElementaryUpdates::Value ElementaryUpdates::unary(const Formula& formula, const std::string& function, Value x) {
  ensure(function == "sqrt" || function == "tanh", "{}: no elementary operation for {}", formula.name, function);
  if (!x.tensor.valid()) return {function == "sqrt" ? std::sqrt(x.number) : std::tanh(x.number), {}};
  return {0, op(function, {x.tensor}, formula.name)};
}

ElementaryUpdates::Value ElementaryUpdates::binary(const Formula& formula, const std::string& function, Value x,
                                                   Value y) {
  static const std::map<std::string, std::string> kOps{
      {"+", "add"}, {"-", "sub"}, {"*", "mul"}, {"/", "div"}, {"^", "pow"}};
  const auto found = kOps.find(function);
  ensure(found != kOps.end(), "{}: no elementary operation for {}", formula.name, function);
  if (!x.tensor.valid() && !y.tensor.valid()) {
    const double a = x.number, b = y.number;
    switch (function[0]) {
      case '+':
        return {a + b, {}};
      case '-':
        return {a - b, {}};
      case '*':
        return {a * b, {}};
      case '/':
        return {a / b, {}};
      default:
        return {std::pow(a, b), {}};
    }
  }
  if (function == "^" && !y.tensor.valid() && y.number == 2) return {0, op("square", {x.tensor}, formula.name)};
  return {0, op(found->second, {tensor(x, formula.dtype), tensor(y, formula.dtype)}, formula.name)};
}

ElementaryUpdates::Value ElementaryUpdates::value(const Formula& formula, const tdl::Expr& e) {
  switch (e.kind) {
    case tdl::ExprKind::kNumber:
      return {e.number, {}};
    case tdl::ExprKind::kRead:
      return {0, formula.tensors[static_cast<std::size_t>(e.tensor)]};
    case tdl::ExprKind::kUnary:
      return unary(formula, e.function, value(formula, e.args[0]));
    case tdl::ExprKind::kBinary: {
      const Value x = value(formula, e.args[0]), y = value(formula, e.args[1]);
      return binary(formula, e.function, x, y);
    }
    default:
      ensure(false, "{}: an expression that no elementary operation computes", formula.name);
      return {};
  }
}

TensorId ElementaryUpdates::replaced(const Formula& formula, const tdl::Expr& e, int operand) {
  const TensorId old = formula.tensors[static_cast<std::size_t>(operand)];
  const bool in_place = e.kind == tdl::ExprKind::kBinary && (e.function == "-" || e.function == "+") &&
                        e.args[0].kind == tdl::ExprKind::kRead && e.args[0].tensor == operand;
  const Value other = value(formula, in_place ? e.args[1] : e);
  const std::string definition = !in_place ? "assign" : e.function == "-" ? "assign_sub" : "assign_add";
  return op(definition, {old, tensor(other, formula.dtype)}, formula.name);
}

void ElementaryUpdates::add(const OpDefinition& definition, const std::vector<TensorId>& operands,
                            tdl::Attributes attributes, const std::string& name) {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (TensorId id : operands) {
    shapes.push_back(build_.shape(id));
    dtypes.push_back(build_.graph().tensor(id).dtype);
  }
  const auto bound = bind_instance(definition, attributes, shapes, dtypes);
  Formula formula{*bound, name, dtypes[0], operands};
  formula.tensors.resize(bound->tensors.size());
  for (const tdl::Stage& stage : bound->stages) {
    int operand = -1;
    for (std::size_t r = 0; r < bound->results.size(); ++r)
      if (bound->results[r] == stage.tensor) operand = definition.replaces.at(r);
    formula.tensors[static_cast<std::size_t>(stage.tensor)] =
        operand < 0 ? tensor(value(formula, stage.body), formula.dtype) : replaced(formula, stage.body, operand);
  }
}

}  // namespace partita

// Finds the type, bool, int64 or float64, in which each part of an expression is computed.
#include "partita/tdl/typed_expr.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "partita/base/error.h"
#include "partita/tdl/scalars.h"

namespace partita::tdl {
namespace {

ValueType type_of(DType d) {
  return is_float(d) ? ValueType::kReal : d == DType::kInt64 ? ValueType::kInt : ValueType::kBool;
}

}  // namespace

bool is_integer(double x) { return std::floor(x) == x && std::abs(x) <= 9007199254740992.0; }

DType dtype_of(ValueType type) {
  return type == ValueType::kReal ? DType::kFloat64 : type == ValueType::kInt ? DType::kInt64 : DType::kBool;
}

TypedExpr typed_expr(const Expr& e, const std::vector<const Piece*>& pieces) {
  TypedExpr node{&e, e.kind, ValueType::kReal};
  if (e.kind != ExprKind::kOpaque)
    for (const Expr& a : e.args) node.args.push_back(typed_expr(a, pieces));
  ValueType widest = ValueType::kBool;
  for (const TypedExpr& a : node.args) widest = std::max(widest, a.type);
  ValueType arithmetic = std::max(widest, ValueType::kInt);
  switch (e.kind) {
    case ExprKind::kNumber:
      node.type = is_integer(e.number) ? ValueType::kInt : ValueType::kReal;
      break;
    case ExprKind::kIndex:
      node.type = ValueType::kInt;
      break;
    case ExprKind::kRead: {
      const Piece* piece = pieces[e.tensor];
      node.type = piece ? type_of(piece->data.dtype) : ValueType::kReal;
      if (e.has_else && e.number != 0)
        node.type = std::max(node.type, is_integer(e.number) ? ValueType::kInt : ValueType::kReal);
      break;
    }
    case ExprKind::kUnary:
      node.real = find_real_function(e.function);
      if (node.real) break;
      node.op = scalars::letter_of_unary(e.function);
      if (node.op == '!') node.type = ValueType::kBool;
      else if (node.op == '=') node.type = widest;
      else if (std::string("-an_").find(node.op) != std::string::npos) node.type = arithmetic;
      break;
    case ExprKind::kBinary:
      node.integer = find_integer_function(e.function);
      if (node.integer) {
        node.type = ValueType::kInt;
        break;
      }
      node.op = scalars::letter_of_binary(e.function);
      if (std::string("<l=!g>&|").find(node.op) != std::string::npos) node.type = ValueType::kBool;
      else if (node.op == '^') {
        bool natural = e.args[1].kind == ExprKind::kNumber && e.args[1].number >= 0;
        node.type = natural ? arithmetic : ValueType::kReal;
      } else if (node.op != '/') node.type = arithmetic;
      break;
    case ExprKind::kIf:
      node.type = std::max(node.args[1].type, node.args[2].type);
      break;
    case ExprKind::kRng:
    case ExprKind::kOpaque:
      node.type = ValueType::kReal;
      break;
    case ExprKind::kReduce:
      ensure(false, "a reducer below the root of a stage");
  }
  return node;
}

}  // namespace partita::tdl

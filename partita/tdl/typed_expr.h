// Resolves types and functions of a stage's expression, for the reference evaluator's run at each point.
#pragma once
#include <vector>

#include "partita/tdl/evaluate.h"
#include "partita/tdl/functions.h"

namespace partita::tdl {

// bool < int64 < float64, and an operation on values is done in the larger of their types.
enum class ValueType { kBool, kInt, kReal };
DType dtype_of(ValueType type);
// Tells whether a number of a formula is an integer, and so an int64: up to 2^53, beyond which doubles leave integers
// out.
bool is_integer(double x);

struct TypedExpr {
  const Expr* expr;
  ExprKind kind;
  ValueType type;
  char op = 0;                               // kUnary, kBinary: the function's letter (scalars.h)
  const RealFunction* real = nullptr;        // kUnary
  const IntegerFunction* integer = nullptr;  // kBinary
  std::vector<TypedExpr> args;               // none below kOpaque
};

// `pieces`: the held piece of each tensor, whose dtypes reads have. The result points into `e`, which must stay.
TypedExpr typed_expr(const Expr& e, const std::vector<const Piece*>& pieces);

}  // namespace partita::tdl

// Derives the element type of a formula's expressions from the types of their reads.
#include "partita/kernel_plan/types.h"

#include <algorithm>

#include "partita/tdl/functions.h"
#include "partita/tdl/typed_expr.h"

namespace partita {

using tdl::Expr;
using tdl::ExprKind;

int type_rank(DType dtype) { return is_float(dtype) ? kRealRank : dtype == DType::kInt64 ? kIntegerRank : kBoolRank; }

DType dtype_of_rank(int rank, DType real) {
  return rank == kRealRank ? real : rank == kIntegerRank ? DType::kInt64 : DType::kBool;
}

FunctionType function_type(const Expr& e) {
  const std::string& f = e.function;
  if (e.kind == ExprKind::kUnary) {
    if (f == "not") return FunctionType::kLogic;
    if (f == "stop") return FunctionType::kSame;
    if (f == "neg" || f == "abs" || f == "sign" || f == "floor") return FunctionType::kArithmetic;
    return FunctionType::kReal;
  }
  if (f == "<" || f == "<=" || f == "==" || f == "!=" || f == ">=" || f == ">") return FunctionType::kComparison;
  if (f == "and" || f == "or") return FunctionType::kLogic;
  if (f == "/") return FunctionType::kReal;
  if (tdl::find_integer_function(f)) return FunctionType::kInteger;
  if (f == "^") return FunctionType::kPower;
  return FunctionType::kArithmetic;
}

namespace {

int rank_of_function(const Expr& e, const TensorShards& shards) {
  int widest = kBoolRank;
  for (const Expr& a : e.args) widest = std::max(widest, type_rank(a, shards));
  switch (function_type(e)) {
    case FunctionType::kComparison:
    case FunctionType::kLogic:
      return kBoolRank;
    case FunctionType::kSame:
      return widest;
    case FunctionType::kArithmetic:
      return std::max(widest, kIntegerRank);
    case FunctionType::kInteger:
      return kIntegerRank;
    case FunctionType::kReal:
      return kRealRank;
    case FunctionType::kPower:
      return e.args[1].kind == ExprKind::kNumber && e.args[1].number >= 0 ? std::max(widest, kIntegerRank) : kRealRank;
  }
  return kRealRank;
}

}  // namespace

int type_rank(const Expr& e, const TensorShards& shards) {
  switch (e.kind) {
    case ExprKind::kNumber:
      return tdl::is_integer(e.number) ? kIntegerRank : kRealRank;
    case ExprKind::kIndex:
      return kIntegerRank;
    case ExprKind::kRead: {
      const int type = shards[e.tensor] ? type_rank(shards[e.tensor]->dtype) : kRealRank;
      return e.has_else && e.number != 0 ? std::max(type, tdl::is_integer(e.number) ? kIntegerRank : kRealRank) : type;
    }
    case ExprKind::kUnary:
    case ExprKind::kBinary:
      return rank_of_function(e, shards);
    case ExprKind::kIf:
      return std::max(type_rank(e.args[1], shards), type_rank(e.args[2], shards));
    case ExprKind::kReduce: {
      const int type = type_rank(e.args[0], shards);
      return e.reducer == tdl::Reducer::kSum || e.reducer == tdl::Reducer::kProd ? std::max(type, kIntegerRank) : type;
    }
    case ExprKind::kRng:
    case ExprKind::kOpaque:
      return kRealRank;
  }
  return kRealRank;
}

DType stage_dtype(const tdl::Bound& bound, int stage, const TensorShards& shards, DType real) {
  return dtype_of_rank(type_rank(bound.stages[stage].body, shards), real);
}

}  // namespace partita

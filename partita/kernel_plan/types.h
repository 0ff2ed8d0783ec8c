// Derives the element types of a formula's expressions, as the reference evaluator has them (tdl/evaluate.h).
#pragma once
#include "partita/kernel_plan/request.h"

namespace partita {

// Ranks of the three types of values; wider types have larger ranks.
constexpr int kBoolRank = 0, kIntegerRank = 1, kRealRank = 2;
int type_rank(DType dtype);
DType dtype_of_rank(int rank, DType real);
// shards: the held shard of each tensor, for the types of reads.
int type_rank(const tdl::Expr& e, const TensorShards& shards);

// The rule for the type of a function's value.
enum class FunctionType {
  kComparison,  // a boolean, of two values of one type
  kLogic,       // a boolean, of booleans
  kArithmetic,  // the widest argument's type, at least an integer
  kReal,        // real, of reals
  kPower,       // like arithmetic if the exponent is a number that is not negative, else real
  kSame,        // the argument's type
  kInteger,     // an integer, of integers
};
FunctionType function_type(const tdl::Expr& e);  // kUnary or kBinary

// The type of a stage's values by its formula: bool for comparisons, int64 for integers, else `real`.
DType stage_dtype(const tdl::Bound& bound, int stage, const TensorShards& shards, DType real);

}  // namespace partita

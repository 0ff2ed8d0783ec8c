#include "partita/graph/index_limit.h"

#include <algorithm>

namespace partita {
namespace {

using tdl::Expr;
using tdl::ExprKind;

void lower_to(std::optional<int64_t>& limit, int64_t extent) { limit = limit ? std::min(*limit, extent) : extent; }

// The comparisons of operand `operand` with an index in an expression.
void find_compared(const tdl::Bound& bound, const Expr& e, int operand, std::optional<int64_t>& limit) {
  if (e.kind == ExprKind::kBinary && e.function == "==")
    for (const auto& [value, index] : {std::pair{&e.args[0], &e.args[1]}, {&e.args[1], &e.args[0]}})
      if (value->kind == ExprKind::kRead && value->tensor == operand && index->kind == ExprKind::kIndex)
        lower_to(limit, bound.indices[index->index].extent);
  for (const Expr& arg : e.args) find_compared(bound, arg, operand, limit);
}

// Each element of the result is one of the operand's, or a sum in which all others are left out.
bool moves(const Expr& e, int operand) { return e.kind == ExprKind::kRead && e.tensor == operand; }

}  // namespace

std::optional<int64_t> index_limit(const Graph& graph, TensorId tensor) {
  std::optional<int64_t> limit;
  if (is_float(graph.tensor(tensor).dtype)) return limit;
  for (const Op& op : graph.ops)
    for (size_t operand = 0; operand < op.operands.size(); ++operand) {
      if (op.operands[operand] != tensor) continue;
      for (const tdl::Stage& stage : op.bound->stages) {
        find_compared(*op.bound, stage.body, static_cast<int>(operand), limit);
        if (!moves(stage.body, static_cast<int>(operand))) continue;
        for (size_t r = 0; r < op.results.size(); ++r)
          if (op.bound->results[r] == stage.tensor && op.results[r].valid())
            if (const auto behind = index_limit(graph, op.results[r])) lower_to(limit, *behind);
      }
    }
  return limit;
}

}  // namespace partita

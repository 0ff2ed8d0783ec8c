// Finds how large integers may be that choose elements, by what ops compare them with.
#include "partita/graph/index_limit.h"

#include <algorithm>

namespace partita {
namespace {

using tdl::Expr;
using tdl::ExprKind;

void narrow_to(std::optional<Interval>& range, Interval to) { range = range ? intersect(*range, to) : to; }

// What `places` takes of its operand, if it is the same for all elements.
std::optional<Interval> range_of_places(const Op& op) {
  if (op.definition != "places" || op.attributes.contains("extents.1")) return std::nullopt;
  const auto extent = static_cast<int64_t>(op.attributes.at("extents.0"));
  return Interval{-extent, extent};
}

// The comparisons of operand `operand` with an index in an expression.
void find_compared(const tdl::Bound& bound, const Expr& e, int operand, std::optional<Interval>& range) {
  if (e.kind == ExprKind::kBinary && e.function == "==")
    for (const auto& [value, index] : {std::pair{&e.args[0], &e.args[1]}, {&e.args[1], &e.args[0]}})
      if (value->kind == ExprKind::kRead && value->tensor == operand && index->kind == ExprKind::kIndex)
        narrow_to(range, {0, bound.indices[index->index].extent});
  for (const Expr& arg : e.args) find_compared(bound, arg, operand, range);
}

// Each element of the result is one of the operand's, or a sum in which all others are left out.
bool moves(const Expr& e, int operand) { return e.kind == ExprKind::kRead && e.tensor == operand; }

}  // namespace

std::optional<Interval> index_range(const Graph& graph, TensorId tensor) {
  std::optional<Interval> range;
  if (is_float(graph.tensor(tensor).dtype)) return range;
  for (const Op& op : graph.ops)
    for (size_t operand = 0; operand < op.operands.size(); ++operand) {
      if (op.operands[operand] != tensor) continue;
      if (const auto taken = range_of_places(op)) narrow_to(range, *taken);
      for (const tdl::Stage& stage : op.bound->stages) {
        find_compared(*op.bound, stage.body, static_cast<int>(operand), range);
        if (!moves(stage.body, static_cast<int>(operand))) continue;
        for (size_t r = 0; r < op.results.size(); ++r)
          if (op.bound->results[r] == stage.tensor && op.results[r].valid())
            if (const auto behind = index_range(graph, op.results[r])) narrow_to(range, *behind);
      }
    }
  return range;
}

}  // namespace partita

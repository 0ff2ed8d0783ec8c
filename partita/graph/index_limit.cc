// Finds how large integers that choose elements may be, from the ops that compare them.
#include "partita/graph/index_limit.h"

#include <algorithm>

namespace partita {
namespace {

using tdl::Expr;
using tdl::ExprKind;

// Narrows the range. A number stays ignored only if all who choose by the tensor ignore it.
void narrow_to(std::optional<IndexRange>& range, const IndexRange& to) {
  if (!range) range = to;
  else range = {intersect(range->range, to.range), range->ignored == to.ignored ? to.ignored : std::nullopt};
}

// The range of operand values that `places` accepts, if it is the same for all elements.
std::optional<Interval> range_of_places(const Op& op) {
  if (op.definition != "places" || op.attributes.contains("extents.1")) return std::nullopt;
  const auto extent = static_cast<int64_t>(op.attributes.at("extents.0"));
  return Interval{-extent, extent};
}

// Indices, and a number, that an op compares one operand with.
struct Compared {
  std::optional<Interval> range;
  std::optional<int64_t> number;
};

void find_compared(const tdl::Bound& bound, const Expr& e, int operand, Compared& found) {
  if (e.kind == ExprKind::kBinary && (e.function == "==" || e.function == "!="))
    for (const auto& [value, other] : {std::pair{&e.args[0], &e.args[1]}, {&e.args[1], &e.args[0]}}) {
      if (value->kind != ExprKind::kRead || value->tensor != operand) continue;
      if (other->kind == ExprKind::kNumber) found.number = static_cast<int64_t>(other->number);
      if (other->kind != ExprKind::kIndex || e.function != "==") continue;
      const Interval here{0, bound.indices[other->index].extent};
      found.range = found.range ? intersect(*found.range, here) : here;
    }
  for (const Expr& arg : e.args) find_compared(bound, arg, operand, found);
}

// Each element of the result is one of the operand's, or a sum in which all others are left out.
bool moves(const Expr& e, int operand) { return e.kind == ExprKind::kRead && e.tensor == operand; }

}  // namespace

std::optional<IndexRange> index_range(const Graph& graph, TensorId tensor) {
  std::optional<IndexRange> range;
  if (is_float(graph.tensor(tensor).dtype)) return range;
  for (const Op& op : graph.ops)
    for (size_t operand = 0; operand < op.operands.size(); ++operand) {
      if (op.operands[operand] != tensor) continue;
      if (const auto taken = range_of_places(op)) narrow_to(range, {*taken, {}});
      Compared compared;
      for (const tdl::Stage& stage : op.bound->stages) {
        find_compared(*op.bound, stage.body, static_cast<int>(operand), compared);
        if (!moves(stage.body, static_cast<int>(operand))) continue;
        for (size_t r = 0; r < op.results.size(); ++r)
          if (op.bound->results[r] == stage.tensor && op.results[r].valid())
            if (const auto behind = index_range(graph, op.results[r])) narrow_to(range, *behind);
      }
      if (compared.range) narrow_to(range, {*compared.range, compared.number});
    }
  return range;
}

}  // namespace partita

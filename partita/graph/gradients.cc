// Finds the tensor that each gradient is a gradient of.
#include "partita/graph/gradients.h"

#include <set>

#include "partita/graph/autodiff.h"

namespace partita {

std::vector<TensorId> gradient_of(const Graph& graph) {
  std::vector<TensorId> of(graph.tensors.size());
  for (const Op& op : graph.ops) {
    if (op.phase != Phase::kBackward) continue;
    // Sums and casts of contributions.
    TensorId whose = op.operands.empty() ? TensorId() : of[op.operands[0].index()];
    for (TensorId t : op.operands)
      if (of[t.index()] != whose || graph.tensor(t).shape != graph.tensor(op.results[0]).shape) whose = TensorId();
    const bool sum = op.definition == "add" && op.operands.size() == 2, cast = op.definition == "cast";
    if (whose.valid() && (sum || cast)) {
      of[op.results[0].index()] = whose;
      continue;
    }
    if (!op.forward.valid() || is_clone(graph, op)) continue;
    const Op& forward = graph.op(op.forward);
    std::set<TensorId> taken;
    for (TensorId result : op.results) {
      const Tensor& tensor = graph.tensor(result);
      TensorId found;
      for (size_t k = forward.operands.size(); k-- > 0;) {
        const TensorId operand = forward.operands[k];
        if (graph.tensor(operand).shape != tensor.shape || !is_float(graph.tensor(operand).dtype) ||
            taken.contains(operand))
          continue;
        if (op.name.starts_with(forward.name + ".grad." + forward.bound->tensors[k].name)) {
          found = operand;
          break;
        }
        found = operand;  // the first of this shape, if no name says
      }
      if (found.valid()) taken.insert(of[result.index()] = found);
    }
  }
  return of;
}

}  // namespace partita

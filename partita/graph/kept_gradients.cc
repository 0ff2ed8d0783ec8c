// Finds the gradients that a graph's updates keep.
#include "partita/graph/kept_gradients.h"

namespace partita {

bool keeps_gradient(const tdl::Attributes& attributes) { return attributes.contains(kKeptGradient); }

std::vector<char> kept_gradients(const Graph& graph) {
  std::vector<char> kept(graph.tensors.size(), false);
  for (const Op& op : graph.ops)
    if (keeps_gradient(op.attributes)) kept[op.operands[kGradientOperand].index()] = true;
  return kept;
}

}  // namespace partita

// Grows the split along the sequence from places where partial sums are added up.
#include "partita/plan/sequence_rule.h"

namespace partita {

SequenceSplit sequence_split(const Graph& graph, const TensorRule& tensor, int degree) {
  SequenceSplit split(graph, degree, {.left = [&tensor](OpId id) { return tensor.chosen(id) != nullptr; }});
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const AxisOption* row = graph.ops[i].phase == Phase::kForward ? tensor.chosen(OpId(i)) : nullptr;
    for (size_t r = 0; row && r < row->results.size(); ++r) {
      const TensorId seed = graph.ops[i].results[r];
      if (row->results[r].kind == AxisLayout::Kind::kPartial && !split.is_weight(seed) && !split.part(seed))
        split.grow_from_sum(seed);
    }
  }
  return split;
}

}  // namespace partita

// Finds sequence parallelism in a graph (Korthikanti et al., arXiv:2205.05198, section 4.2.2). Activations that tensor
// parallelism leaves whole on every device of a group are split along another axis.
//
// Example: x [batch, steps, hidden] is the result of a row product, partial over the group. Reduce-scatter makes it
// S(1), split along steps. Dropout, the residual addition and the norm behind it keep it so. The next column product
// reads it whole, by an all-gather. Both together move as much as the all-reduce in their place.
//
// The axis is found, not named. It is one of the axes of x, except its samples'. Along it, most bytes of activations
// are split while no op on the way exchanges anything. A norm over `hidden` ends a split along hidden.
#pragma once
#include "partita/plan/sequence_split.h"
#include "partita/plan/tensor_rule.h"

namespace partita {

// `tensor` outlives the result, which leaves its ops as they are.
SequenceSplit sequence_split(const Graph& graph, const TensorRule& tensor, int degree);

}  // namespace partita

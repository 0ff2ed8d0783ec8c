// Finds the forward tensor of each gradient, for searches that choose layouts of both together.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// By tensor: the forward tensor whose gradient, or contribution to it, the tensor is; none if it is neither.
std::vector<TensorId> gradient_of(const Graph& graph);

}  // namespace partita

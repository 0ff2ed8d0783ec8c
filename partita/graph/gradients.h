// The tensor that each gradient is a gradient of: searches let both choose together.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// The forward tensor that a tensor is a gradient of, or a contribution to it; by tensor, none if it is neither.
std::vector<TensorId> gradient_of(const Graph& graph);

}  // namespace partita

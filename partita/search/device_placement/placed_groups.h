// Groups the operations of a step that stay on one device (Pesto, section 3.2: colocation).
//
// A parameter, its states and all operations of its update are one group, and so are operations of one colocation name
// (Op::colocation). Numbers that several operations read, such as the count of steps or the norm of all gradients, join
// nothing.
//
// Example: sgd with momentum in elementary operations: v' = m v + g and w' = w - lr v' are one group, though each
// replaces a tensor of its own.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// Returns by OpId the number of its group's first operation; -1: it is in none.
std::vector<int> placed_groups(const Graph& graph);

}  // namespace partita

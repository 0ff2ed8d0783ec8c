// Finds how many samples a step of a graph takes.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/graph/graph.h"

namespace partita {

// The extent of the first input that has samples along axis 0; none if the graph has no such input.
std::optional<int64_t> find_batch(const Graph& graph);

}  // namespace partita

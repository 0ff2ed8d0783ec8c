// Finds how many samples a step of a graph takes, and the tokens of each.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/graph/graph.h"

namespace partita {

// The extent of the first input that has samples along axis 0; none if the graph has no such input.
std::optional<int64_t> find_batch(const Graph& graph);

// The tokens of a sample, for a model of text: the extent of an integer input [samples, tokens]; none if there is none.
std::optional<int64_t> find_tokens_per_sample(const Graph& graph);

}  // namespace partita

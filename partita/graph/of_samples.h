// What of a step belongs to its samples: activations and their gradients. The rest belongs to its parameters: weights,
// optimizer states, what is made of these alone, gradients of all of them, and what updates make. What is made of
// neither (a mask, a learning rate) is with the rest.
//
// Example, y = x @ cast(w):     of samples: x, y, dy     of parameters: w, cast(w), d cast(w), dw, w'
//
// Collectives of the first wait for each other on the groups of tensor, sequence and expert parallelism, those of the
// second on the groups of data parallelism and ZeRO (docs/inside/PHYSICAL.md section 5.3).
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// By TensorId.
std::vector<char> of_samples(const Graph& graph);
// An op that reads something of samples; what it does inside belongs to them.
bool reads_samples(const Op& op, const std::vector<char>& of_samples);

}  // namespace partita

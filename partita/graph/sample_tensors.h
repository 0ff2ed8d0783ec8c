// Finds the tensors of a step that belong to its samples: activations and their gradients. The rest belongs to its
// parameters: weights, optimizer states, results of these alone, gradients of all of them, and results of updates.
// Results of neither (a mask, a learning rate) are with the rest.
//
// Example, y = x @ cast(w):     of samples: x, y, dy     of parameters: w, cast(w), d cast(w), dw, w'
//
// Collectives of the first kind wait for each other on the groups of tensor, sequence and expert parallelism. Those of
// the second do on the groups of data parallelism and ZeRO (docs/inside/PHYSICAL.md section 5.3).
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// True, by TensorId, for tensors of samples.
std::vector<char> sample_tensor_mask(const Graph& graph);
// Tells whether an op reads a tensor of samples; its internal communication then belongs to samples.
bool reads_samples(const Op& op, const std::vector<char>& is_sample_tensor);

}  // namespace partita

// Finds the weights of a graph, and the products of activations and weights: the layers that rules divide.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/tdl/tdl.h"

namespace partita {

// By tensor: whether it is a parameter, or the forward pass makes it of parameters and constants alone (cast,
// transposed).
std::vector<bool> weight_tensor_mask(const Graph& graph);
// By tensor: whether it is a weight, or a recomputed clone of one, that ops read by micro-batches. Converted for each
// micro-batch again, it need not be kept whole throughout a step. All false if the batch is one micro-batch.
std::vector<bool> weights_of_micro_batches(const Graph& graph);
// A product of an activation and a weight, such as `linear` or a convolution.
struct WeightProduct {
  int weight = -1;           // the operand
  std::vector<int> outputs;  // indices of the result that the weight is read at
  bool windows = false;      // the activation is read in overlapping windows: a convolution
};
std::optional<WeightProduct> weight_product(const Graph& graph, const std::vector<bool>& weights, const Op& op);

// Per factored axis of an operand, the indices that it is read at plainly, in all stages.
std::vector<std::set<int>> plain_reads(const tdl::Bound& bound, int operand);
// Per factored axis of a result, the index that it is written at.
std::vector<int> result_indices(const tdl::Bound& bound, int result);

}  // namespace partita

// Finds how many samples a step of a graph takes, and the tokens of each.
#include "partita/graph/batch.h"

namespace partita {

std::optional<int64_t> find_batch(const Graph& graph) {
  for (TensorId input : graph.inputs)
    if (graph.tensor(input).sample_axis == 0) return graph.tensor(input).shape[0];
  return std::nullopt;
}

std::optional<int64_t> find_tokens_per_sample(const Graph& graph) {
  for (const Tensor& t : graph.tensors)
    if (t.role == Role::kInput && t.dtype == DType::kInt64 && t.shape.size() == 2 && t.sample_axis == 0)
      return t.shape[1];
  return std::nullopt;
}

}  // namespace partita

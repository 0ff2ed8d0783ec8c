// Finds how many samples a step of a graph takes.
#include "partita/graph/batch.h"

namespace partita {

std::optional<int64_t> find_batch(const Graph& graph) {
  for (TensorId input : graph.inputs)
    if (graph.tensor(input).sample_axis == 0) return graph.tensor(input).shape[0];
  return std::nullopt;
}

}  // namespace partita

// Removes ops and tensors from a graph, for passes that leave some of it out.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

struct RemovedOps {
  Graph graph;                // verified
  std::vector<TensorId> now;  // by tensor of the graph given: the same one in `graph`; none: removed
};
// Removes the ops and tensors that are marked, by number. No op that stays may read or make a tensor that goes.
RemovedOps remove_ops(const Graph& graph, const std::vector<bool>& ops_gone, const std::vector<bool>& tensors_gone);

}  // namespace partita

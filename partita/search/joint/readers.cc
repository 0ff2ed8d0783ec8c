// Finds the readers of each tensor of a graph, and its replacement.
#include "partita/search/joint/readers.h"

#include <algorithm>

namespace partita {

JointReaders joint_readers(const Graph& graph) {
  JointReaders out;
  out.replacement.resize(graph.tensors.size());
  for (size_t t = 0; t < graph.tensors.size(); ++t)
    if (const TensorId w = graph.tensors[t].replaces; w.valid()) out.replacement[w.index()] = TensorId(t);
  out.readers.resize(graph.tensors.size());
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (size_t k = 0; k < graph.ops[i].operands.size(); ++k) {
      std::vector<ReadingOp>& list = out.readers[graph.ops[i].operands[k].index()];
      if (list.empty() || list.back().op != OpId(i)) list.push_back({OpId(i), {}});
      list.back().operands.push_back(static_cast<int>(k));
    }
  return out;
}

int result_position(const Graph& graph, TensorId id) {
  const std::vector<TensorId>& results = graph.op(graph.tensor(id).producer).results;
  return static_cast<int>(std::find(results.begin(), results.end(), id) - results.begin());
}

}  // namespace partita

// Finds the readers of each tensor of a graph, and its replacement.
//
// Worked example: y = w * w, then w' := y. readers[w] is {op of y, operands {0, 1}}: one entry for both; replacement[w]
// is w', readers[w'] is empty.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// An op that reads a tensor, with all its operands that do.
struct ReadingOp {
  OpId op;
  std::vector<int> operands;
};

struct JointReaders {
  std::vector<TensorId> replacement;            // by TensorId; none if nothing replaces it
  std::vector<std::vector<ReadingOp>> readers;  // by TensorId; in the graph's order

  const std::vector<ReadingOp>& of(TensorId id) const { return readers[id.index()]; }
};
JointReaders joint_readers(const Graph& graph);

// Returns the position of a tensor among its producer's results.
int result_position(const Graph& graph, TensorId id);

}  // namespace partita

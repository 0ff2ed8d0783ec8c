// Finds repeated layers: consecutive blocks of a forward graph that are equal but for their parameters.
#pragma once
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

struct Repeat {
  OpId first;        // where the first copy begins
  int ops = 0;       // of one copy; op i of copy k is op first + k * ops + i
  int copies = 0;    // at least two
  std::string name;  // "model.layers.*" if the modules number the copies; else the names of the first copy's first and
                     // last op
};

// Finds the repeats of a graph's forward ops, disjoint, in graph order. Copies agree op for op in formula, dtypes and
// roles. Their operands come from the same place of the copy, the copy before, or outside. The repeat that saves most
// ops is taken first, then the one of the shortest copy. A copy reads a parameter. If the structure leaves open where
// copies begin, the modules that the model file names (Op::source) decide, or else the ops' dotted names. These name
// the copies, too.
std::vector<Repeat> repeated_layers(const Graph& graph);

// Finds the repeats that are layers: their copies read results of the copy before. The products of q, k and v repeat as
// well, but are no layers. Empty if most of the forward pass is no copy of anything.
std::vector<Repeat> chained_layers(const Graph& graph);

// The end of the forward pass: the first backward op; the number of ops if there is none.
int forward_end(const Graph& graph);

}  // namespace partita

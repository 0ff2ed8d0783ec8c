// Repeated layers: stretches of a forward graph that follow each other and are equal but for their parameters.
#pragma once
#include <string>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

struct Repeat {
  OpId first;        // where the first copy begins
  int ops = 0;       // of one copy; op i of copy k is op first + k * ops + i
  int copies = 0;    // at least two
  std::string name;  // "model.layers.*" where the modules number the copies; else the names of the first copy's first
                     // and last op
};

// The repeats of a graph's forward ops, disjoint, in graph order. Found by structure: op for op the same formula,
// dtypes and roles, with operands from the same place of the copy, the copy before, or outside. What saves most ops is
// taken first, then the shortest copy. A copy reads a parameter. The modules that the model file names (Op::source), or
// else the ops' dotted names, say where copies begin, where the structure leaves that open, and what they are called.
std::vector<Repeat> repeated_layers(const Graph& graph);

// Whether each copy reads what the one before has made. The products of q, k and v repeat as well, but are no layers.
bool is_chain(const Graph& graph, const Repeat& repeat);

}  // namespace partita

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

// Of these the layers, whose copies read what the one before has made: the products of q, k and v repeat as well, but
// are none. Empty where most of the forward pass is no copy of anything.
std::vector<Repeat> chained_layers(const Graph& graph);

// Where the forward pass ends: the first backward op; the number of ops if there is none.
int forward_end(const Graph& graph);

}  // namespace partita

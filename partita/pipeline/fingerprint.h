// Makes the fingerprint by which a plan recognises the graph that it was made for.
#pragma once
#include <string>

#include "partita/graph/graph.h"

namespace partita {

// Returns the graph without the values of parameters and states. Constants keep theirs.
Graph without_weights(Graph graph);

// Returns the SHA-256 of the printed graph without weights, in hexadecimal.
std::string fingerprint(const Graph& graph);

}  // namespace partita

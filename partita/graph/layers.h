// Numbers the layers of a model, which stages, placements and expert rules keep together.
//
// Worked example: an mlp of three weight products. layers_of() gives the products 0, 1 and 2. The relu behind a
// product, its backward ops and the update of its weight have the product's layer.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// By op: its layer, from 0. A layer is a recurrent cell at all time steps; without such cells, a weight product with
// the ops that follow it. Ops before the first layer belong to the first that reads them, ops after the last to the
// last.
std::vector<int> layers_of(const Graph& graph);

// Extends the layers of forward ops, -1 before the first, to all ops. A backward op has the layer of its forward op. An
// update has that of its parameter's first reader, another op that of the largest tensor that it reads.
std::vector<int> with_their_forward_ops(const Graph& graph, std::vector<int> layer);

}  // namespace partita

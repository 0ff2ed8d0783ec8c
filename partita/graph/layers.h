// The layers of a model: what stages, placements and expert rules keep together.
//
// Worked example: an mlp of three weight products. layers_of() says 0, 1 and 2 for the products; the relu behind a
// product, its backward ops and the update of its weight have its layer.
#pragma once
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// By op: its layer, from 0. A layer is a recurrent cell at all time steps; without such cells, a weight product with
// the ops that follow it. The ops before the first layer belong to the first that reads them, those after the last to
// the last.
std::vector<int> layers_of(const Graph& graph);

// The layers of forward ops, -1 before the first, for all ops: a backward op has that of its forward op, an update that
// of the first reader of its parameter, another op that of the largest tensor that it reads.
std::vector<int> with_their_forward_ops(const Graph& graph, std::vector<int> layer);

}  // namespace partita

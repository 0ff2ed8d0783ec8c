// Makes a model with fewer of its repeated layers, for costs by the layer: what two equal layers take says what eighty
// do.
#pragma once
#include <vector>

#include "partita/graph/repeats.h"

namespace partita {

struct FewerLayers {
  Graph graph;
  std::vector<TensorId> now;   // by tensor of the model given: the same one here; a dropped layer's: the last copy's
  std::vector<Repeat> layers;  // of the graph here, one for each repeat given
};
// Keeps the first `copies` copies of each repeat of a forward graph, or all if there are fewer. Ops after them read the
// last copy that is kept. `layers`: of chained_layers(forward).
FewerLayers with_fewer_layers(const Graph& forward, const std::vector<Repeat>& layers, int copies);

}  // namespace partita

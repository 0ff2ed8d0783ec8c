// Divides a model into runs of layers, as even in time as they can be, for a pipeline's stages.
//
// Example: 126 equal layers of 1 ms on 16 stages. An embedding of 0.01 ms is before them, a head and loss of 0.65 ms
// behind. No stage can do with less than 8 ms. The last stage has 7 layers and the head (7.65 ms), the others 119
// layers. The cut of least sum of squares has 7 in the first stage, with the embedding, and 8 in each of the rest.
#pragma once
#include <functional>
#include <vector>

#include "partita/graph/graph.h"

namespace partita {

// By op, the layer block of the model that it belongs to, from 0 in the order of the forward pass. The layer blocks are
// the copies of repeated layers (graph/repeats.h), and the ops before, between and behind them. If those are fewer than
// `least` layers, each copy is cut where one activation alone goes on, as between attention and feed-forward. If most
// of a model does not repeat, they are the layers of layers_of() (graph/layers.h). A backward op stands with its
// forward op, an update with its parameter, an op that no input reaches with its first reader.
struct LayerBlocks {
  std::vector<int> of_op;
  int layers = 0;              // whole layers among them
  int cuts = 0;                // the most stages that they give
  std::vector<char> is_layer;  // by layer block, if none is cut: whether it is a whole layer
};
LayerBlocks layer_blocks_of(const Graph& graph, int least);

// By layer block, the stage of its layers if these are so many by stage. Blocks before, between and behind layers are
// with the next layer, or the last. Example: 6 layers with an embedding before and a head behind them as 2-1-1-2 are
// the blocks {0 0 0, 1, 2, 3 3 3}. Does not apply if the layers are not as many.
std::vector<int> stages_of_layers(const LayerBlocks& blocks, const std::vector<int>& layers);
// Cuts layers as frameworks do: equally; else, if that is equal, with embedding and head as a layer each; else the
// stages in the middle have one more. Empty: there are fewer layers than stages.
std::vector<int> even_layers(int layers, int stages);

// Cuts elements into exactly `parts` runs that fit. The largest cost is as small as can be, among such cuts the sum of
// squares is least, and among equals the cuts are earliest. `costs`: by rank, the cost of each element there; run k is
// on rank k mod ranks. There are at least as many elements as parts. `fits`: whether run k may be [begin, end); a run
// within one that fits does. Returns by element its run; empty: no cut fits.
using RunFits = std::function<bool(int k, int begin, int end)>;
std::vector<int> even_parts(const std::vector<std::vector<double>>& costs, int parts, const RunFits& fits = nullptr);

}  // namespace partita

// Converts files of weights to a model's tensors and back, whatever names the files have for them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/models/models.h"
#include "partita/runtime/array_file.h"

namespace partita {

struct ModelWeights {
  Arrays values;                   // by the graph's names: parameters, and state if the files have it
  std::vector<std::string> notes;  // arrays not found or not used, if that is no error
};

// Loads weights. `path`: see WeightFiles. Only arrays that the model needs are read. One error lists missing parameters
// without values of their own, arrays that are not in the model, and those of another shape or kind.
ModelWeights load_weights(const std::string& path, const Graph& graph, const WeightNames& names);

// Returns parameters and state under the files' names and in their layouts, the inverse of load_weights.
Arrays to_file_layout(const Arrays& values, const WeightNames& names);

}  // namespace partita

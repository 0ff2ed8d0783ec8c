// From files of weights to a model's tensors and back, whatever names the files have for them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "partita/graph/graph.h"
#include "partita/models/models.h"
#include "partita/runtime/array_file.h"

namespace partita {

struct ModelWeights {
  Arrays values;                   // by the graph's names: parameters, and state where the files have it
  std::vector<std::string> notes;  // what was not found or not used, where that is no error
};

// `path`: see WeightFiles. Only what the model needs is read. One error lists the parameters that have no values of
// their own and are missing, the arrays that are not in the model, and those of another shape or kind.
ModelWeights load_weights(const std::string& path, const Graph& graph, const WeightNames& names);

// Parameters and state under the files' names and in their layouts, the inverse of load_weights.
Arrays as_in_files(const Arrays& values, const WeightNames& names);

}  // namespace partita

// Makes a forward graph for another number of samples. Every tensor that depends on the samples holds `to` of them
// instead of `from`, and each sample's result stays the same. Nothing is guessed. An op is taken if its formula keeps
// samples apart (samples.h), a reshape if the samples stay one digit of an axis. Constants and parameters that hold one
// value a sample are copied for each. If a reshape of one sample allows several places, all are tried until one serves
// all later ops.
//
//   x [1, 8, 16] -> transpose [8, 1, 16] -> reshape [8, 4, 4] (batch x heads in the middle) -> ..  of 1 sample
//   x [3, 8, 16] -> transpose [8, 3, 16] -> reshape [8, 12, 4]                              -> ..  of 3
#pragma once
#include <map>
#include <optional>
#include <string>

#include "partita/graph/graph.h"

namespace partita {

struct Rebatched {
  std::optional<Graph> graph;  // none: refused
  OpId refused_by;             // an op of the graph given; none: an output
  std::string why;             // "reduces over the samples"
};

// How to treat outputs that inputs reach, and no sample does. An output that no input reaches is copied if it can be,
// and stays if not.
enum class Unreached {
  kCopied,  // an equal copy for each sample
  kStay,    // as they are
};

// `inputs` have samples along the given axis, whose extent is `from`. The other inputs have none, and stay as they are,
// with their sample axes. An output has its samples along an axis of its own, or those of one run after those of
// another along axis 0.
Rebatched rebatched(const Graph& forward, const std::map<TensorId, std::size_t>& inputs, int64_t from, int64_t to,
                    Unreached unreached = Unreached::kCopied);

}  // namespace partita

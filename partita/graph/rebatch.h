// A forward graph that was made for one number of samples, for another: every tensor that depends on the samples holds
// `to` of them where it held `from`, and what is computed of one sample stays what it was. Nothing is guessed: an op is
// taken where its formula keeps samples apart (samples.h); a reshape where the samples stay one digit of an axis;
// constants and parameters that a sample has one of are copied for each. Where a reshape of one sample allows several
// places, all are tried until one serves all that follows.
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

// Outputs that inputs reach, and no sample does. What no input reaches is copied if it can be, and stays if not.
enum class Unreached {
  kCopied,  // an equal copy for each sample
  kStay,    // as they are
};

// `inputs` have samples along the axis given, whose extent is `from`; the other inputs have none, and stay as they are,
// with the sample axes that they have. An output has its samples along an axis of its own, or those of one run after
// those of another along axis 0.
Rebatched rebatched(const Graph& forward, const std::map<TensorId, std::size_t>& inputs, int64_t from, int64_t to,
                    Unreached unreached = Unreached::kCopied);

}  // namespace partita

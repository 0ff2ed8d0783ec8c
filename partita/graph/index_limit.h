// Finds how large a tensor's integers may be that choose an element of an axis, as labels and token numbers do.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/graph/graph.h"

namespace partita {

// Integers of a tensor that choose an element of an axis.
struct IndexRange {
  Interval range;
  std::optional<int64_t> ignored;  // left out: every op that chooses an element by the tensor checks for it too
  bool operator==(const IndexRange&) const = default;
};

// The range [0, the smallest extent of an index) that an op compares the tensor's elements with (`t[v = ids[..]]`,
// `if(t[..b] == j, ..)`), also behind ops that only move elements. Values outside choose nothing. The range begins at
// -extent if they are counted from the end first (the op `places`). Empty if the values are not used so. `ignored` is a
// number that every such op compares them with, too (`if(t[..b] != -100, ..)`).
std::optional<IndexRange> index_range(const Graph& graph, TensorId tensor);

}  // namespace partita

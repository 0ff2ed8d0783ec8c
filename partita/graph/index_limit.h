// How large the integers of a tensor may be: those that choose an element of an axis, as labels and token numbers do.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/graph/graph.h"

namespace partita {

// Integers of a tensor that choose an element of an axis.
struct IndexRange {
  Interval range;
  std::optional<int64_t> ignored;  // a number that is left out: all that choose an element by it look for it too
  bool operator==(const IndexRange&) const = default;
};

// [0, the smallest extent of an index) that an op compares the tensor's elements with (`t[v = ids[..]]`, `if(t[..b] ==
// j, ..)`), also behind ops that only move elements; values outside choose nothing. From -extent on where they are
// counted from the end first (the op `places`). Empty: the values are not used so. Ignored is what every such op
// compares them with, too (`if(t[..b] != -100, ..)`).
std::optional<IndexRange> index_range(const Graph& graph, TensorId tensor);

}  // namespace partita

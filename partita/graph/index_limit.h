// How large the integers of a tensor may be: those that choose an element of an axis, as labels and token numbers do.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/graph/graph.h"

namespace partita {

// [0, the smallest extent of an index) that an op compares the tensor's elements with (`t[v = ids[..]]`, `if(t[..b] ==
// j, ..)`), also behind ops that only move elements; values outside choose nothing. From -extent on where they are
// counted from the end first (the op `places`). Empty: the values are not used so.
std::optional<Interval> index_range(const Graph& graph, TensorId tensor);

}  // namespace partita

// How large the integers of a tensor may be: those that choose an element of an axis, as labels and token numbers do.
#pragma once
#include <cstdint>
#include <optional>

#include "partita/graph/graph.h"

namespace partita {

// The smallest extent of an index that an op compares the tensor's elements with (`t[v = ids[..]]`, `if(t[..b] == j, ..)`), also
// behind ops that only move elements. Values outside [0, limit) choose nothing. Empty: the values are not used so.
std::optional<int64_t> index_limit(const Graph& graph, TensorId tensor);

}  // namespace partita

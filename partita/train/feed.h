// Feeds a run's inputs and takes its outputs as values, rather than as pieces of device memory.
#pragma once
#include <functional>

#include "partita/graph/graph.h"
#include "partita/runtime/run.h"

namespace partita {

struct Feed {
  // Returns these elements of an input in a step, in row-major order: `elements.size()` numbers. Called for each piece
  // of it, by several threads.
  std::function<Values(TensorId input, int64_t step, Interval elements)> load;
  // Takes an output; one call at a time.
  std::function<void(TensorId output, int64_t step, Values value)> keep;
};

// Returns these elements of an input's values.
Values elements_of(const Values& whole, Interval elements);

Hooks hooks_of(const Graph& graph, Feed feed, Kernels& kernels, uint64_t seed);

// Bad input if an op met an index that its tensor does not have.
void validate_indices(const Graph& graph, const RunReport& report);

}  // namespace partita

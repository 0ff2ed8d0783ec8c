// From the tasks of one part of a batch to those of all parts: the last word of local lowering on micro-batches.
//
// Example: 8 samples in 4 parts. Local lowering has made the register "h@gpu0" of rows [0, 2) with 4 uses, and the
// kernel "matmul@gpu0" of rate 4 over i in [0, 2). Afterwards use n of the register is rows [2n, 2n + 2), and firing n
// of the kernel goes over i in [2n, 2n + 2) of the whole batch's formula, so that indices, random numbers and numbers
// made from an extent are those of the step on the whole batch.
#pragma once
#include <vector>

#include "partita/graph/graph.h"
#include "partita/physical/draft.h"

namespace partita {

// Local lowering's result: tasks and registers, with neither order, counts, offsets nor edges. Where the batch is
// worked on in parts, boxes are those of one part, and `time_axes` say along what they follow each other.
struct LocallyLowered {
  PhysicalGraph graph;
  std::vector<TimePlace> time_axes;  // by register; none: all firings have the same boxes, or have their own already
};

// A box of one part, or an op's ranges (its index in place of an axis), where the part that begins at sample `first`
// has it in the whole batch.
Box in_batch(Box one, const TimePlace& place, int64_t first);
// By part of the graph: its first sample.
std::vector<int64_t> first_runs(const Graph& graph);

// Constants that are read part by part are there whole: their bytes, before memory is planned.
void size_constants(LocallyLowered& lowered, const Graph& graph);
// All parts of one size. What merge_micro_batches() has spread stays.
void spread_over_micro_batches(LocallyLowered& lowered, const Graph& graph);
// Parts of two sizes: `small` was lowered from with_micro_batches_of() the smaller one. Bad input where the two sizes
// are laid out differently.
void merge_micro_batches(LocallyLowered& large, LocallyLowered small, const Graph& graph);

}  // namespace partita

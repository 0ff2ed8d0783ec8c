// Makes the tasks of all micro-batches from those of one: the last step of local lowering.
//
// Example: 8 samples in 4 micro-batches. Local lowering has made the register "h@gpu0" of rows [0, 2) with 4 uses. The
// kernel "matmul@gpu0" has rate 4 over i in [0, 2). Afterwards use n of the register is rows [2n, 2n + 2). Firing n of
// the kernel goes over i in [2n, 2n + 2) of the whole batch's formula. So indices, random numbers and numbers made from
// an extent are those of the step on the whole batch.
#pragma once
#include <vector>

#include "partita/graph/graph.h"
#include "partita/physical/draft.h"

namespace partita {

// Local lowering's result: tasks and registers, with neither order, counts, offsets nor edges. If the batch is divided
// into micro-batches, boxes are those of one micro-batch. `micro_batch_axes` are the axes along which micro-batches
// follow each other.
struct LocallyLowered {
  PhysicalGraph graph;
  // By register; none: all firings have the same boxes, or have their own already.
  std::vector<MicroBatchAxis> micro_batch_axes;
};

// Moves a box of one micro-batch, or an op's ranges (its index in place of an axis), to its place in the whole batch.
// `first`: the sample at which the micro-batch begins.
Box in_batch(Box one, const MicroBatchAxis& place, int64_t first);
// Returns each micro-batch's first sample.
std::vector<int64_t> first_runs(const Graph& graph);

// Sets the bytes of constants that are read micro-batch by micro-batch, before memory is planned: they are there whole.
void size_constants(LocallyLowered& lowered, const Graph& graph);
// Spreads micro-batches of one size. Those that merge_micro_batches() has spread stay.
void spread_over_micro_batches(LocallyLowered& lowered, const Graph& graph);
// Merges micro-batches of two sizes: `small` was lowered from with_micro_batches_of() the smaller one. Bad input if the
// two sizes are laid out differently.
void merge_micro_batches(LocallyLowered& large, LocallyLowered small, const Graph& graph);

}  // namespace partita

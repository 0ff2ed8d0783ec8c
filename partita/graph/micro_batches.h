// Divides a training step into micro-batches: finds which ops run once a micro-batch and which once a step.
//
//     training graph of 8 samples, in_micro_batches(graph, 4):
//     x [8x4]                 [2x4], loaded a micro-batch at a time
//     h = matmul(x, w)        runs 4 times, along its index i: 2 rows at a time
//     loss = mean(..)         runs 4 times; each adds its share, divided by 8: accumulated
//     dw = matmul_tn(x, dh)   runs 4 times and adds to dw: accumulated
//     w' = sgd(w, dw)         runs once
//
// Samples that an op has inside one value of an axis's outer digit stay in one micro-batch. Batch norm with the
// statistics of 4 groups takes x [8x..] as [4, 2, ..]. Samples 0 and 1 are then one run, and 3 micro-batches have 2, 1
// and 1 runs. Sizes and places of micro-batches are counted in runs, which are mostly single samples.
//
// An op has micro-batch scope if a tensor that comes in micro-batches reaches it. It can if a strategy of its formula
// keeps micro-batches apart (the same strategies as on any mesh axis, TDL.md rules 10 to 18). An op that mixes samples,
// as batch norm over the whole batch does, is refused by name. (OneFlow section 4.3.)
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "partita/graph/factors.h"
#include "partita/graph/graph.h"

namespace partita {

// The axis along which micro-batches follow each other: of a tensor as stored, or of its factored axes. The axis is a
// mixed-radix number of (outer, sample, inner). Samples are the outermost digit of a factored axis.
struct MicroBatchAxis {
  int axis = -1;      // none: all micro-batches are alike
  int64_t inner = 1;  // elements along it for each sample
  int64_t outer = 1;  // how often all samples follow each other along it; 5 if it is sequence of 5 x batch
};
// The factored axis whose outermost digit a stored axis's samples are; none if they are inside one. Example: 8 samples
// of 4 along axis 0 are factored axis 0 with inner 1 over 8.4, and with inner 4 over 32.
std::optional<MicroBatchAxis> factored_axis(const MicroBatchAxis& stored, const std::vector<Shape>& radices);
// The inverse of factored_axis.
MicroBatchAxis stored_axis(const MicroBatchAxis& factored, const std::vector<Shape>& radices);
// The place of a tensor that comes in micro-batches, as stored.
MicroBatchAxis micro_batch_axis_of(const Graph& in_micro_batches, TensorId tensor);

// The samples, or runs, of each of m micro-batches: equal, or differing by one, the larger first. Bad input if there
// are fewer samples than micro-batches.
std::vector<int64_t> micro_batch_sizes(int64_t batch, int micro_batches);

// Divides the step into this many micro-batches. Graph::micro_batch_samples, Graph::whole and the fields `scope`,
// `per_micro_batch` of tensors and ops say how. Shapes and formulas are those of the largest micro-batch. One
// micro-batch gives the graph itself. Bad input, naming op, tensor and rule, if an op cannot work on a micro-batch. A
// forward graph's outputs may come in micro-batches. An op may lie along an axis whose outermost digit is not samples
// (sequence x batch). The axis is then factored, in the graph of the whole batch too, if `may` allows it (none: no op
// may). `stages`: by op, its pipeline stage; empty: one stage. Contributions to one gradient from several stages are
// added up where they are made, and meet once a step.
Graph in_micro_batches(const Graph& training, int micro_batches, const MayFactor& may = {},
                       const std::vector<int>& stages = {});
// Runs of samples in the whole batch.
int64_t runs_of_batch(const Graph& in_micro_batches);
// The step with this many micro-batches of the largest size, to extrapolate figures that repeat. Its whole batch stays
// that of all micro-batches.
Graph with_fewer_micro_batches(const Graph& in_micro_batches, int micro_batches);
// The same step with the shapes and formulas of micro-batches of `runs` runs, a size that some have.
Graph with_micro_batches_of(const Graph& in_micro_batches, int64_t runs);

}  // namespace partita

// A training step whose batch is worked on in parts (micro-batches): which ops act once a part and which once a step.
//
//     training graph of 8 samples, in_parts(graph, 4):
//       x [8x4]                 S on time: [2x4], loaded part by part
//       h = matmul(x, w)        acts 4 times, along its index i: 2 rows at a time
//       loss = mean(..)         acts 4 times; each part adds its share, divided by 8: P(sum) on time, accumulated
//       dw = matmul_tn(x, dh)   acts 4 times and adds to dw: P(sum), accumulated
//       w' = sgd(w, dw)         acts once
//
// Samples that an op has inside one value of an axis's outer digit stay in one part: batch norm with the statistics of
// 4 groups takes x [8x..] as [4, 2, ..], so that samples 0 and 1 are one run, and 3 parts are of 2, 1 and 1 runs. Sizes
// and places of parts are counted in runs, which are single samples mostly.
//
// An op acts once a part if a tensor that comes in parts reaches it; whether a strategy of its formula keeps the parts
// apart decides whether it can (the same strategies as on any mesh axis, TDL.md rules 10 to 18). An op that mixes
// samples, as batch norm over the whole batch does, is refused by name. (OneFlow section 4.3; DESIGN's `time` extent of
// a mesh.)
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "partita/graph/factors.h"
#include "partita/graph/graph.h"

namespace partita {

// Along which axis the parts follow each other: of a tensor as stored, or of its factored axes. The axis is a
// mixed-radix number of (outer, sample, inner). Of a factored axis samples are the outermost digit.
struct TimePlace {
  int axis = -1;      // none: all parts are alike
  int64_t inner = 1;  // elements along it for each sample
  int64_t outer = 1;  // how often all samples follow each other along it; 5 where it is sequence of 5 x batch
};
// The factored axis that a stored axis's samples are the outermost digit of; none: they are inside one. Example: 8
// samples of 4 along axis 0 are factored axis 0 with inner 1 over 8.4, and with inner 4 over 32.
std::optional<TimePlace> factored_place(const TimePlace& stored, const std::vector<Shape>& radices);
// And back.
TimePlace stored_place(const TimePlace& factored, const std::vector<Shape>& radices);
// Of a tensor that comes in parts, as stored.
TimePlace time_place(const Graph& in_parts, TensorId tensor);

// The samples, or runs, of each of m parts of a batch: equal, or differing by one, the larger first. Bad input where
// there are fewer than parts.
std::vector<int64_t> parts_of(int64_t batch, int micro_batches);

// The step in this many parts. Graph::parts, Graph::whole and the fields `in_time`, `in_parts` of tensors and ops say
// how; shapes and formulas are those of the largest part. One micro-batch: the graph itself. Bad input, naming op,
// tensor and rule, where an op cannot act on a part of the batch.
// A forward graph's outputs may come in parts.
// An op along an axis of which samples are no outermost digit (sequence x batch) has that axis factored, in the graph
// of the whole batch too, if `may` allows it (none: no op may).
// `stages`: by op, its stage of a pipeline; empty: one. Contributions to one gradient that come from several stages are
// added up where they are made, and meet once a step.
Graph in_parts(const Graph& training, int micro_batches, const MayFactor& may = {},
               const std::vector<int>& stages = {});
// Runs of samples in the whole batch.
int64_t runs_of_batch(const Graph& in_parts);
// So many parts of the largest size, for figures that repeat from part to part. Its whole batch stays that of all
// parts.
Graph with_fewer_parts(const Graph& in_parts, int micro_batches);
// The same step with the shapes and formulas of parts of so many runs, which is the size of some of its parts.
Graph with_parts_of(const Graph& in_parts, int64_t runs);

}  // namespace partita

// Joins small collectives of parameters into buckets, as PyTorch's DistributedDataParallel reduces gradients (Li et
// al., VLDB 2020, section 3.2.3).
//
// Example: the backward pass makes the gradients of b2, w2 and b1 (4 kB, 2 MB, 4 kB) in this order, and they are
// all-reduced over gpu0 and gpu1. With buckets of 25 MB the first is full with w2: "b2.grad>..all-reduce+1@gpu0" reads
// and writes b2's and w2's registers, and b1's stays by itself.
//
// - Two sorts are joined. One is reductions of tensors that belong to parameters, outside the forward pass. The other
//   is gathers of updated weights, which stand as soon as they are ready. Members of a bucket agree in kind, reducer,
//   dtype, stage, phase, turn and number of firings, over the same devices in the same order.
// - Gathers that stand ahead of their readers (weights of ZeRO-3) are joined too, in the order of these readers. Fully
//   sharded training so gathers a layer's weights at once (Zhao et al., VLDB 2023, section 3.2). Over many devices the
//   hops of a ring take longer than 25 MB on its links. So buckets of such gathers are as large as `due_bytes` says.
// - Reductions follow the order in which their operands are made. Gathers follow the buckets of gradients for which the
//   updates wait. A bucket is full when it holds `bytes` of whole tensors as one device has them. The first of a kind
//   is full with kFirstBucketBytes, so that the links begin early.
// - No bucket waits for itself. A task's depth is the most collectives that may be joined on a path to it. Only
//   collectives of one depth are joined, so a path from bucket to bucket leads to greater depths.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "partita/physical/spread_micro_batches.h"

namespace partita {

constexpr int64_t kFirstBucketBytes = int64_t{1} << 20;
// Gathers ahead of their readers make at least this many buckets. All tensors of a bucket are in memory at once.
constexpr int64_t kDueBuckets = 16;

// The bytes of a participant's whole tensor as its device has it, by which buckets are filled: its operand of a
// reduction, or its result of a gather.
int64_t whole_bytes(const PhysicalGraph& graph, const Task& task);

// Joins collectives before the order is made; a bucket stands behind the last op that it waits for. `order`: the plan's
// order of ops; empty: the graph's. 0 bytes: nothing is joined. `due_bytes`: the least size of a bucket of gathers
// ahead of their readers; absent: `bytes`.
using BytesOfGroup = std::function<int64_t(const std::vector<DeviceId>& group)>;
void bundle_collectives(LocallyLowered& lowered, int64_t bytes, const std::vector<OpId>& order = {},
                        const BytesOfGroup& due_bytes = {});

}  // namespace partita

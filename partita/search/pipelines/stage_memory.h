// Estimates the memory of a run of a model's layers on a device of its rank, for the choice of cuts. The memory of a
// whole plan is still planned (physical/memory.h), and a plan without it refused.
//
// Example: 4 equal layers have 10 MB of weights, gradients and states each. Their micro-batches leave 6 MB for their
// backward pass and need 8 MB at most while they run. Two of them with 3 micro-batches in flight need 2 x 10 + 2 x (2 x
// 6) + (6 + 8) = 58 MB.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/plan/plan.h"

namespace partita {

// By layer block of the model (stages.h), bytes on a mesh's first device.
struct LayerBlockMemory {
  int64_t once = 0;       // there for the whole step: parameters, states, sums of gradients, casts of weights
  int64_t kept = 0;       // left by the forward pass of a micro-batch for its backward pass
  int64_t most = 0;       // of a micro-batch, the most at one time while this layer block runs, with its own `kept`
  int64_t gradients = 0;  // of `once`: gradients and their sums
  int64_t tied = 0;  // of `once`: what is there a second time, unless the weight's first reader is on the same rank
  // Bytes that another layer block keeps too: a second copy, for the backward pass of the first layer block of a run.
  int64_t brought = 0;
};
// Returns the memory by layer block. `plan` has choices for each op on one rank's devices; `of_op`: by op, its layer
// block.
std::vector<LayerBlockMemory> layer_block_memory(const Graph& graph, const Plan& plan, const std::vector<int>& of_op,
                                                 int blocks);

// Joins the memory of two runs of layer blocks, one behind the other: the second runs while the first's `kept` is
// there.
LayerBlockMemory join_memory(const LayerBlockMemory& first, const LayerBlockMemory& then);
// Returns the bytes with so many micro-batches in flight: `once`, `brought` and `kept` for each but the last, and
// `most` for that one.
int64_t bytes_of(const LayerBlockMemory& memory, int in_flight);

}  // namespace partita

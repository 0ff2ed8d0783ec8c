// Measures what one layer block of a model costs on the devices of one replica: a model of three layers of each kind
// is lowered and simulated. Estimates of configurations (estimator.h) add up these costs.
//
// Example: Llama 3 70B on 4 devices with tensor parallelism. Its blocks are the embedding, three layers, and the head
// with the loss. A layer takes 7.1 ms forward and 14.5 ms backward for a sequence of 8,192 tokens.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/plan/plan.h"
#include "partita/search/pipelines/stage_memory.h"

namespace partita {

// One layer block on one device, for one micro-batch. Times include communication that is not hidden.
struct BlockCosts {
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;        // with recomputation, and if micro-batches follow each other the sum of gradients
  int64_t first_backward_ns = 0;  // of a step's first micro-batch, whose gradients are not added to others
  int64_t sent_bytes = 0;         // of activations that later blocks read, as a device has them
  LayerBlockMemory memory;
};

// Returns the costs by layer block. `graph`: a training step in micro-batches, at most the first three of which are
// simulated. `plan`: on all devices of `cluster`, which are one replica. `of_op`: by op its layer block.
std::vector<BlockCosts> block_costs(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                    const std::vector<int>& of_op, int blocks);

}  // namespace partita

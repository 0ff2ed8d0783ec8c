// What a run of a model's layers needs on a device of its rank, by a plan for such a rank. An estimate that cuts are
// chosen by; the memory of a whole plan is planned (physical/memory.h), and refused, all the same.
//
// Example: 4 equal layers with 10 MB of weights, gradients and states each, of which a micro-batch leaves 6 MB for its
// backward pass and needs 8 MB at most while it is worked on. Two of them with 3 micro-batches in flight need
// 2 x 10 + 2 x (2 x 6) + (6 + 8) = 58 MB.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/plan/plan.h"

namespace partita {

// By stretch of the model (stages.h), bytes on a mesh's first device.
struct StretchMemory {
  int64_t once = 0;  // there for the whole step: parameters, states, sums of gradients, casts of weights
  int64_t kept = 0;  // what the forward pass of a micro-batch leaves for its backward pass
  int64_t most = 0;  // of a micro-batch, the most at one time while this stretch is worked on, with its own `kept`
  // What another stretch keeps too: a second copy, for the backward pass of the first stretch of a run.
  int64_t brought = 0;
};
// `plan` has choices for each op on one rank's devices; `of_op`: by op, its stretch.
std::vector<StretchMemory> stretch_memory(const Graph& graph, const Plan& plan, const std::vector<int>& of_op,
                                          int stretches);

// Of a run of stretches, from those of two runs, one behind the other: the second is worked on while what the first has
// kept is there.
StretchMemory joined(const StretchMemory& first, const StretchMemory& then);
// With so many micro-batches in flight: `once`, what is brought and kept for each but the last, and the most of that
// one.
int64_t bytes_of(const StretchMemory& memory, int in_flight);

}  // namespace partita

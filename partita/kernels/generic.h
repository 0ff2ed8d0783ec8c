// The generic stage kernel: runs any stages of any formula over any ranges, from their StagePrograms. So every derived
// strategy and every derived gradient runs from the day it is described (docs/ARCHITECTURE.md section 4).
#pragma once
#include "partita/kernels/tensors.h"
#include "partita/physical/workspace.h"

namespace partita {

// Keys of rng() that the formula does not give (base/rng.h): added to its seed, or in place of what it leaves out.
struct RandomKey {
  uint64_t seed = 0, stream = 0, step = 0;
};

// held: per tensor, what the call holds; internal tensors have none.
void run_generic(const tdl::Bound& bound, const GenericPlan& plan, const std::vector<Interval>& ranges,
                 std::vector<Held> held, const RandomKey& key);

}  // namespace partita

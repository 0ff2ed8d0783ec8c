// The actors' own code (actor.h) under a deterministic scheduler: one thread, and a seed draws whose turn it is: which
// message arrives next, which worker looks at its queue, which act ends; several steps overlap, on tagged memory.
#pragma once
#include "partita/physical/testing/tagged_run.h"

namespace partita::testing {

TaggedRun run_scheduled(const PhysicalGraph& graph, Rng& rng, int steps = 3);

}  // namespace partita::testing

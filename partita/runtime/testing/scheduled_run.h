// Runs the actors' own code (actor.h) under a deterministic scheduler, for tests. There is one thread, and a seed draws
// whose turn it is. That is the message that arrives next, the worker that looks at its queue, or the firing that ends.
// Several steps overlap, on tagged memory.
#pragma once
#include "partita/physical/testing/tagged_run.h"

namespace partita::testing {

TaggedRun run_scheduled(const PhysicalGraph& graph, Rng& rng, int steps = 3);

}  // namespace partita::testing

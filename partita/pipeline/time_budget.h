// Divides the time limit between a search and the steps before and after it.
#pragma once
#include "partita/cluster/cluster.h"
#include "partita/pipeline/runner.h"
#include "partita/search/search.h"

namespace partita {

// Returns the same budget, with the moment when its time is over: from now on, unless it has one.
Budget with_deadline(Budget budget);

// Returns the search's share of the time that is left. The rest is kept for the steps that follow it. Throws if no time
// is left.
Budget for_search(const Budget& whole, const Runner& runner, const Cluster& cluster);

// Estimates how many firings of a plan are lowered, verified and simulated in a second. It follows from the time that
// the training graph took: fewer on a slow or busy machine.
double firings_per_second(const Runner& runner, const Graph& graph);

}  // namespace partita

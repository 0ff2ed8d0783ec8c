// How the time limit is divided between a search and what comes before and after it.
#pragma once
#include "partita/cluster/cluster.h"
#include "partita/pipeline/runner.h"
#include "partita/search/search.h"

namespace partita {

// The same budget, with the moment when its time is over: from now on, unless it has one.
Budget with_deadline(Budget budget);

// The search's part of the time that is left. The rest is kept for what follows it. Throws where no time is left.
Budget for_search(const Budget& whole, const Runner& runner, const Cluster& cluster);

// About how many firings of a plan are lowered, verified and simulated in a second, as the time tells that the training
// graph took: on a slow or busy machine fewer.
double firings_per_second(const Runner& runner, const Graph& graph);

}  // namespace partita

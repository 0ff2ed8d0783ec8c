// Of how little a plan's figures can be made where plans are only compared, or time is short.
#pragma once
#include "partita/physical/lower.h"

namespace partita {

// Of the devices of telling(), the first few micro-batches alone, however quick all of them were.
Telling of_few(const Graph& graph, const Plan& plan, const Cluster& cluster);
// telling(), and of typical devices and few micro-batches where all would take longer than the time that is left.
Telling telling_within(const Graph& graph, const Plan& plan, const Cluster& cluster, const Watch& watch,
                       double acts_per_second);

}  // namespace partita

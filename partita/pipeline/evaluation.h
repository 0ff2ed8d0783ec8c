// Makes the graph of a model's evaluation, and the plan for it that follows from a training plan.
#pragma once
#include "partita/physical/may_factor.h"
#include "partita/pipeline/planned.h"

namespace partita {

// Returns the forward graph for evaluation, its axes factored as those of the training graph are.
Graph evaluation_of(const Graph& forward);

// The same in as many micro-batches as the step is planned in.
Graph evaluation_in_micro_batches(const Planned& training);

// Returns the evaluation graph's plan under a training plan. Each op takes the choice and stage of the training op of
// its name, and each weight keeps its layout.
Plan evaluation_plan(const Graph& evaluation, const Planned& training);

// Returns a graph's plan for another graph of the same ops and tensors, some extents of which differ.
Plan for_other_extents(Plan plan, const Graph& from, const Graph& to);

}  // namespace partita

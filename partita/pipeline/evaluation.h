// A model as it is evaluated or run, and the plan for that which follows from a training plan.
#pragma once
#include "partita/physical/may_factor.h"
#include "partita/pipeline/planned.h"

namespace partita {

// The forward graph for evaluation, its axes factored as those of the training graph are.
Graph evaluation_of(const Graph& forward);

// The same in as many micro-batches as the step is planned in.
Graph evaluation_in_micro_batches(const Planned& training);

// The evaluation graph under a training plan: each op takes the choice of the training op of its name, its stage with
// it, and each weight its layout.
Plan evaluation_plan(const Graph& evaluation, const Planned& training);

// The plan of a graph for another one of the same ops and tensors, of which some extents differ.
Plan for_other_extents(Plan plan, const Graph& from, const Graph& to);

}  // namespace partita

// The training step as a plan's stages run it.
//
// Example: a tied table is read by the embedding on stage 0 and by the head on stage 1. Without regard to stages each
// micro-batch adds both contributions to one gradient. Here each stage adds up its own, and the sums meet once a step.
#pragma once
#include "partita/plan/plan.h"

namespace partita {

// Contributions to one gradient from several stages are added up where they are made, and meet once a step; what
// another stage computes again (recompute) is not fetched from it. `per_micro_batch`: the step that was planned. The
// graph itself where it has no micro-batches, or the plan one stage.
Graph for_stages(const Graph& in_micro_batches, const Plan& plan);

}  // namespace partita

// Makes the training step as a plan's stages run it.
//
// Example: a tied table is read by the embedding on stage 0 and by the head on stage 1. Without regard to stages each
// micro-batch adds both contributions to one gradient. Here each stage adds up its own, and the sums meet once a step.
#pragma once
#include "partita/plan/plan.h"

namespace partita {

// Adds up contributions to one gradient on the stage that makes them, so that they meet once a step. Recomputed results
// are not fetched from another stage. `in_micro_batches`: the step that was planned. Returns the graph itself if it has
// no micro-batches, or the plan has one stage.
Graph for_stages(const Graph& in_micro_batches, const Plan& plan);

}  // namespace partita

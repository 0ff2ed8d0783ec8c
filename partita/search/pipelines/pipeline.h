// Stages of a pipeline: which layers each has, and its devices.
//
// Example: 8 layers on 8 devices with stages=4. Stage 0 has the layers 0 and 1 on devices 0 and 1, stage 1 the layers 2
// and 3 on devices 2 and 3, and so on. Inside a stage, the plan is that of `inner` for the whole model on two devices.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "partita/search/search.h"

namespace partita {

// A plan for the devices of one rank (`inner`, on the cluster's first devices, as many as a rank has), as a plan for
// all ranks: each op of stage c on the devices of rank c mod `ranks`, each tensor that no op makes on those of its
// first reader. Constants, and what is made of them alone (masks, rotary tables), are whole on every rank that reads
// them.
Plan staged(const Graph& graph, const Plan& inner, const std::vector<int>& stage_of_op, int ranks,
            const Cluster& cluster);

// Plans by stages: `inner` makes the plan for one rank's devices, in which a rank has `pipeline.virtual_stages` stages.
// The layers of each stage are those of shortest_cut() (stage_cuts.h); a step of the budget is a cut that is simulated.
// Pinned choices take the place of the plan's own.
// Infeasible where the ranks do not divide the devices, or the schedule does not fit (why_not(), plan/schedule.h).
using InnerPlan = std::function<Plan(const Cluster& stage)>;
Plan pipeline_plan(const Problem& problem, int ranks, const Pipeline& pipeline, const InnerPlan& inner,
                   const Budget& budget);

// The devices of the first of equal ranks, with memory for the whole model, which need not fit on a rank.
Cluster rank_of(const Cluster& cluster, int ranks);

// The options `schedule` and `virtual` of a search. schedule=auto is interleaved where there are several virtual
// stages, else 1F1B; virtual=auto is 2 for the interleaved schedule, else 1.
Pipeline pipeline_of(const std::map<std::string, std::string>& options);

}  // namespace partita

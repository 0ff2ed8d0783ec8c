// Makes plans of pipelines, for rules with stages: chooses the layers of each stage, and its devices.
//
// Example: 8 layers on 8 devices with stages=4. Stage 0 has the layers 0 and 1 on devices 0 and 1, stage 1 the layers 2
// and 3 on devices 2 and 3, and so on. Inside a stage, the plan is that of `inner` for the whole model on two devices.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "partita/search/search.h"

namespace partita {

// Makes a plan for all ranks from `inner`, a plan for one rank on the cluster's first devices. Each op of stage c goes
// on the devices of rank c mod `ranks`. Each tensor that no op makes goes on those of its first reader. Constants, and
// results of constants alone (masks, rotary tables), are whole on every rank that reads them.
Plan staged_plan(const Graph& graph, const Plan& inner, const std::vector<int>& stage_of_op, int ranks,
                 const Cluster& cluster);

// Makes plans by stages: `inner` makes the plan for one rank's devices, in which a rank has `pipeline.virtual_stages`
// stages. The layers of each stage are those of shortest_cut() (stage_cuts.h); a step of the budget is a cut that is
// simulated. Pinned choices replace the plan's own. Infeasible if the ranks do not divide the devices, or the schedule
// does not fit (pipelining_error(), plan/schedule.h).
using InnerPlan = std::function<Plan(const Cluster& stage)>;
Plan pipeline_plan(const Problem& problem, int ranks, const Pipeline& pipeline, const InnerPlan& inner,
                   const Budget& budget);
// Makes the plan whose stages have so many layers: `layers` is "even" (even_layers(), stages.h), or a count for each
// virtual stage: "19-21-21-19".
Plan pipeline_plan_of_layers(const Problem& problem, int ranks, const Pipeline& pipeline, const InnerPlan& inner,
                             const std::string& layers);

// Returns the first devices of a cluster, with memory for the whole model, which need not fit on them.
Cluster first_devices(const Cluster& cluster, int devices);
// The same for the first of equal ranks.
Cluster rank_of(const Cluster& cluster, int ranks);

// Reads the options `schedule` and `virtual` of a search. schedule=auto is interleaved if there are several virtual
// stages, else 1F1B; virtual=auto is 2 for the interleaved schedule, else 1.
Pipeline pipeline_of(const std::map<std::string, std::string>& options);

}  // namespace partita

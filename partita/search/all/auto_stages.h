// The stages of `auto`, which auto.cc lists in their order: for each its condition, and what it does.
#pragma once
#include "partita/search/all/auto_run.h"

namespace partita {

bool always(const AutoRun& run);
bool has_initial_plan(const AutoRun& run);
bool is_in_time(const AutoRun& run);  // Objective::kTime
bool has_best(const AutoRun& run);
bool has_best_of_bytes(const AutoRun& run);  // Objective::kComm

// The result of the search that takes the problem over, if one does (AutoOffer::takes_over). No other stage runs then.
void hand_over(AutoRun& run);
// The plan of --from as a candidate.
void add_initial_plan(AutoRun& run);
// A plan that takes no time (AutoOffer::is_fallback), as a candidate that is not evaluated.
void make_fallback(AutoRun& run);
// Lists the calls for initial plans (AutoOffer::initial), the shortest first.
void list_initial_plans(AutoRun& run);
// Calls rules whose plans take up to two seconds, within a part of the time.
void call_quick_rules(AutoRun& run);
// Calls searches within their part of the time (AutoOffer::share), the largest part first.
void call_within_shares(AutoRun& run);
// Solves the joint problem (AutoOffer::joint).
void solve_joint_problem(AutoRun& run);
// Calls for the initial plans that were not called for, within a part of the time.
void call_for_initial_plans(AutoRun& run);
// Chooses the best candidate that fits. If none does, the reason is the result; throws if the budget ended first.
void choose_best(AutoRun& run);
// Times the plans of rules (SearchResult::fastest_rule).
void find_fastest_rule(AutoRun& run);
// Refines the best candidate that fits and can be refined (AutoOffer::refiner). The better of both plans is the
// result's.
void refine_best(AutoRun& run);
// Gives the result the bounds that hold for its plan.
void pass_bounds_on(AutoRun& run);

}  // namespace partita

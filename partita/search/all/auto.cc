// `auto`: the best that the searches here can do together, in stages. What a search offers to a stage is said in its
// entry (partita/search/auto_offer.h).
//
// It takes initial plans from searches that are quick, solves the joint problem, and refines the best plan that fits.
// The refined mesh has an axis for every prime factor, so all that recursions can reach lies on it too. The result
// costs no more than any plan that was evaluated. The lower bound is that of the joint problem, if the plan is in its
// space.
#include "partita/search/all/auto_stages.h"
#include "partita/search/entry.h"

namespace partita {

namespace {

// The stages in their order, each after its condition (auto_stages.h says what they do). With Objective::kTime quick
// rules come before the joint problem: a time limit may suffice for them alone.
constexpr AutoStage kStages[] = {
    {always, hand_over},
    {has_initial_plan, add_initial_plan},
    {always, make_fallback},
    {always, list_initial_plans},
    {is_in_time, call_quick_rules},
    {is_in_time, call_within_shares},
    {always, solve_joint_problem},
    {always, call_for_initial_plans},
    {always, choose_best},
    {has_best_of_bytes, find_fastest_rule},
    {has_best, refine_best},
    {has_best, pass_bounds_on},
};

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  MemoryWatch memory(budget.stop);
  const Watch watch{budget.watch().deadline, memory.stop()};
  AutoRun run{problem, budget, memory, watch, rng, {problem, holds_any_plan(problem)}};
  for (const AutoStage& stage : kStages)
    if (!run.ended && stage.applies(run)) stage.run(run);
  return std::move(run.result);
}

}  // namespace

SearchEntry auto_search() {
  return {.name = "auto",
          .source = "ours",
          .summary =
              "the best of what is quick here and of the joint problem, refined on a mesh with an axis for every "
              "prime factor; with a proved lower bound where it has one",
          .search = search,
          .warm = true,
          .proves = true,
          .places = true};
}

}  // namespace partita

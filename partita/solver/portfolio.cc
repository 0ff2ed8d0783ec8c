// Lists the portfolio's stages in order. Each line has a name (docs/reference/solve.md describes it), the condition
// under which it applies, and its work; the numbers are in tuning.h.
#include "partita/solver/round_state.h"
#include "partita/solver/state.h"

namespace partita::solver {

namespace {

// The stages of a network: an exact solution if that is quick, then a first solution, then bounds and the rest.
constexpr Stage kStages[] = {
    {"at once", has_small_tables, eliminate_at_once},
    {"merge", is_not_merged, solve_merged},
    {"start", has_start, take_start},
    {"fold", always, solve_folded},
    {"parts first", is_solved_in_parts_first, solve_in_parts_first},
    {"steps", is_proved_in_steps, prove_in_steps},
    {"parts of a very large network", is_solved_in_parts_as_very_large, solve_in_parts},
    {"alike", is_solved_alike, solve_alike},
    {"narrow", has_dual_to_narrow, narrow},
    {"parts after all", is_solved_in_parts_after_all, solve_in_parts},
    {"enough", is_enough, answer_with_best},
    {"rest", has_rest, solve_remaining},
    {"rounds", always, solve_whole},
};

// The stages of each round, in "rest" and "rounds", and inside other stages.
constexpr RoundStage kRound[] = {
    {"eliminate", is_elimination_due, eliminate_reduced},
    {"dual beside local search", always, work_on_both_sides},
    {"prove", is_told_or_timed, prove},
    {"report", always, report},
    {"narrow", may_narrow, narrow},
    {"steps", may_take_steps, prove_in_steps},
    {"core", may_have_core, search_core},
    {"give up", gives_up, end},
};

}  // namespace

void run_round(RoundState& rounds) {
  for (const RoundStage& stage : kRound)
    if (!rounds.ended && stage.applies(rounds)) stage.run(rounds);
}

void run_stages(SolveState& state) {
  for (const Stage& stage : kStages)
    if (!state.result && stage.applies(state)) stage.run(state);
}

}  // namespace partita::solver

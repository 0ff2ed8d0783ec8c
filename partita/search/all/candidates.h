// The plans that `auto` has so far: the evaluation of each, and which is the best.
//
// Worked example: soybean's plan costs 4 MB and fits, owt's costs 3 MB and lacks memory, tofu's costs 5 MB. `best` is
// soybean's. Whether tofu's fits is not asked, since it costs more. by_cost() is owt, soybean, tofu.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partita/schedule/plan_evaluation.h"
#include "partita/search/search.h"

namespace partita {

struct Candidate {
  std::string from;
  Plan plan;
  int rank = 0;                     // of equals the lower one is taken
  std::optional<double> rule_work;  // of a rule (SearchEntry::rule): about how long it takes (InitialPlans::work)
  PlanEvaluation evaluation = {};

  int64_t cost() const { return evaluation.cost(); }
};
constexpr int kLastRank = std::numeric_limits<int>::max();  // of plans that no rule or quick search made

struct Candidates {
  const Problem& problem;
  bool holds_any = false;                // holds_any_plan(problem): all fit
  std::vector<Candidate> evaluated;      // in the order in which they came
  std::vector<Candidate> not_evaluated;  // the time ended first; those of kLastRank last
  std::optional<size_t> best;            // of the evaluated ones that are known to fit
};

// Evaluates a candidate. If it is better than the best, its memory is evaluated too, unless that is known already. A
// note says the result: "zero: 836 ms a step, does not fit (2.11 GB too few on a device)".
void add_candidate(Candidates& all, Candidate candidate, const Watch& watch, std::vector<std::string>& notes);
// Evaluates the memory first, unless it is known.
bool fits(const Candidates& all, Candidate& candidate, const Watch& watch);
// Places in `evaluated` by increasing cost, whether they fit or not.
std::vector<size_t> by_cost(const Candidates& all);
// The best that fits, of `evaluated`. A plan of kLastRank that came too late for an evaluation is taken if an estimate
// says that it is the best. If no plan was evaluated, the last one is taken as it is. If none is known to fit, the
// memory of others is evaluated until `watch` ends.
std::optional<size_t> best_that_fits(Candidates& all, const Watch& watch);

}  // namespace partita

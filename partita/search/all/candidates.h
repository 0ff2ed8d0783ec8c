// The plans that `auto` has so far: what each costs, whether it fits, and which is the best.
//
// Worked example: soybean's plan costs 4 MB and fits, owt's costs 3 MB and lacks memory, tofu's costs 5 MB. `best` is
// soybean's. Whether tofu's fits is not asked, since it is no better. by_cost() is owt, soybean, tofu.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "partita/search/search.h"

namespace partita {

struct Candidate {
  std::string from;
  Plan plan;
  int rank = 0;                     // of equals the lower one is taken
  std::optional<double> rule_work;  // of a rule (SearchEntry::rule): how long it takes, about (AutoBegin::work)
  int64_t cost = 0;
  std::optional<int64_t> deficit_bytes;  // by how much a device is over its memory; none: not asked yet
};
constexpr int kLastRank = std::numeric_limits<int>::max();  // the joint problem's

struct Candidates {
  const Problem& problem;
  bool holds_any = false;           // holds_any_plan(problem): all fit
  std::vector<Candidate> judged;    // in the order in which they came
  std::vector<Candidate> unjudged;  // the time ended first; the joint problem's last
  std::optional<size_t> best;       // of those judged that are known to fit
};

// Judges a candidate, and asks whether it fits where it is better than the best. Both are noted: "zero: 836 ms a step,
// does not fit (2.11 GB too few on a device)".
void add_candidate(Candidates& all, Candidate candidate, const Watch& watch, std::vector<std::string>& notes);
bool fits(const Candidates& all, Candidate& candidate, const Watch& watch);
// Places in `judged`, the best first, whether they fit or not.
std::vector<size_t> by_cost(const Candidates& all);
// A rule's plan that is no candidate, made when it is looked at; none: the rule does not apply.
struct FurtherRule {
  std::string from;
  std::function<std::optional<Plan>()> plan;
};
// After so long no further rule is begun.
struct RuleSeconds {
  double asked = 0, further = 0;  // of those that are candidates, and of the others after them
};
// SearchResult::fastest_rule, the rules that take least first, of equals the later ones of the list: stage 3 of zero is
// the first. Then further ones as they are listed. How many were not looked at is noted.
std::optional<Alternative> fastest_rule(const Candidates& all, const std::vector<FurtherRule>& further,
                                        const RuleSeconds& seconds, const Watch& watch,
                                        std::vector<std::string>& notes);
// The best that fits. Where the time ended before the joint problem's plan was judged, an estimate says whether it is
// the best. Where none was judged, one is taken as it is. Where none was found to fit, more are asked until `watch`
// ends.
std::optional<size_t> best_that_fits(Candidates& all, const Watch& watch);

}  // namespace partita

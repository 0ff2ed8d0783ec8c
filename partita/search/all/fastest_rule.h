// The rule's plan with the shortest step: what `auto` names beside a plan of fewer bytes.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/search/all/candidates.h"

namespace partita {

// A rule's plan that is no candidate. It is made when its turn comes; none: the rule does not apply.
struct FurtherRule {
  std::string from;
  std::function<std::optional<Plan>()> plan;
};
// After so long no further rule is begun.
struct RuleSeconds {
  double candidates = 0, further = 0;  // of rules that are candidates, and of the others after them
};
// SearchResult::fastest_rule. The quickest rules come first, of equals the later ones of the list: stage 3 of zero is
// the first. Further ones follow as they are listed. A note says how many were not simulated.
std::optional<Alternative> fastest_rule(const Candidates& all, const std::vector<FurtherRule>& further,
                                        const RuleSeconds& seconds, const Watch& watch,
                                        std::vector<std::string>& notes);

}  // namespace partita

// Converts objectives to text and back, starts the clock of a budget, and copies the initial plan that is given.
#include "partita/search/search.h"

#include <algorithm>

#include "partita/base/enum_words.h"

namespace partita {

namespace {

constexpr EnumWords<Objective::kTime> kObjectives({"comm", "time"});

}  // namespace

std::string text_of(Objective objective) { return std::string(kObjectives.of(objective)); }
std::optional<Objective> objective_of(std::string_view text) { return kObjectives.find(text); }

Watch Budget::watch() const {
  if (deadline || !seconds) return {deadline, stop};
  constexpr double kForever = 1e9;
  return {Watch::Clock::now() + std::chrono::duration_cast<Watch::Clock::duration>(
                                    std::chrono::duration<double>(std::min(*seconds, kForever))),
          stop};
}

std::optional<Plan> initial_plan(const Problem& problem) {
  if (!problem.from || !satisfies(*problem.from, problem.constraints)) return std::nullopt;
  Plan plan = *problem.from;
  plan.paper_cost.reset();
  return plan;
}

}  // namespace partita

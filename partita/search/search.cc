// The texts of the objectives, and the clock of a budget.
#include "partita/search/search.h"

#include <algorithm>

namespace partita {

std::string text_of(Objective objective) { return objective == Objective::kTime ? "time" : "comm"; }

std::optional<Objective> objective_of(std::string_view text) {
  for (const Objective objective : {Objective::kComm, Objective::kTime})
    if (text_of(objective) == text) return objective;
  return std::nullopt;
}

Watch Budget::watch() const {
  if (deadline || !seconds) return {deadline, stop};
  constexpr double kForever = 1e9;
  return {Watch::Clock::now() + std::chrono::duration_cast<Watch::Clock::duration>(
                                    std::chrono::duration<double>(std::min(*seconds, kForever))),
          stop};
}

}  // namespace partita

// Converts objectives to text and back, and starts the clock of a budget.
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

}  // namespace partita

// Compares a found plan with the search's initial plans by their lowered steps.
#include "partita/search/soap/compare_with_starts.h"

#include "partita/base/error.h"
#include "partita/base/units.h"

namespace partita {

namespace {

constexpr double kAboutAsFast = 1.25;  // as the best plan, by the local task graph

std::string of_step(int64_t lowered_ns, int64_t local_ns) {
  return fmt::format("{} ({} by the local task graph)", time_text(static_cast<double>(lowered_ns)),
                     time_text(static_cast<double>(local_ns)));
}

}  // namespace

bool compare_with_starts(const std::vector<SoapStart>& starts, std::string_view search, const Watch& watch,
                         SoapWalk& walk, SoapFound& found, std::vector<std::string>& notes) {
  SearchResult& result = found.result;
  if (!found.step_ns || watch.ended()) return false;
  const int64_t best_ns = walk.best_ns(), searched_ns = *found.step_ns;
  const auto most_ns = static_cast<int64_t>(kAboutAsFast * static_cast<double>(best_ns));
  std::string taken;
  for (const SoapStart& start : starts) {
    walk.go_to(start.numbers);
    const int64_t local_ns = walk.ns();
    if (local_ns > most_ns || local_ns == best_ns) continue;
    if (!walk.fits(walk.numbers()).value_or(false)) continue;
    OrderedPlan plan = walk.plan_of(walk.numbers(), search, watch);
    if (!plan.step_ns || *plan.step_ns >= *found.step_ns) continue;
    taken = fmt::format("{} has the shorter step, and is taken: {}, the searched plan {}", start.name,
                        of_step(*plan.step_ns, local_ns), of_step(searched_ns, best_ns));
    found.step_ns = plan.step_ns;
    plan.plan.paper_cost = static_cast<double>(local_ns) / 1e3;
    result.plan = std::move(plan.plan);
    result.local_ns = local_ns;
  }
  if (!taken.empty()) notes.push_back(taken);
  return !taken.empty();
}

}  // namespace partita

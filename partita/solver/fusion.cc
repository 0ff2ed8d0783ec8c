// Fuses assignments: eliminates a network of their values alone.
#include "partita/solver/fusion.h"

#include <algorithm>

#include "partita/solver/eliminate.h"
#include "partita/solver/subset.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

std::optional<Assignment> fuse_assignments(const Network& network, const std::vector<Assignment>& assignments) {
  std::vector<std::vector<int>> values(network.costs.size());
  for (size_t v = 0; v < values.size(); ++v) {
    for (const Assignment& x : assignments) values[v].push_back(x[v]);
    std::sort(values[v].begin(), values[v].end());
    values[v].erase(std::unique(values[v].begin(), values[v].end()), values[v].end());
  }
  const Subset of_all(network, std::move(values));
  const auto plan = plan_elimination(of_all.network(), kTuning.fusion.bytes);
  if (!plan || plan->work > kTuning.fusion.work) return std::nullopt;
  const auto best = eliminate(of_all.network(), *plan, [] { return false; });
  if (!best || !best->solution) return std::nullopt;
  return of_all.whole(*best->solution);
}

}  // namespace partita::solver

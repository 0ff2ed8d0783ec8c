// Leaves values out by their cost in a dual, with a margin for rounding.
#include "partita/solver/narrow.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

double bound_from_least_costs(const Model& model, const std::vector<double>& least_costs) {
  return *std::min_element(least_costs.begin(), least_costs.begin() + model.domain(0));
}

Alive values_within_cost(double cost, const std::vector<double>& least_costs) {
  Alive alive;
  for (double least : least_costs) alive.push_back(least <= cost);
  return alive;
}

Subset subset_of_alive(const Network& network, const Model& m, const Alive& alive,
                       const std::optional<Assignment>& solution) {
  std::vector<std::vector<int>> values(network.variables());
  for (int v = 0; v < network.variables(); ++v)
    for (int x = 0; x < network.domain(v); ++x)
      if (alive[m.offset[v] + x] || (solution && x == (*solution)[v])) values[v].push_back(x);
  return {network, std::move(values)};
}

std::optional<Subset> small_subset_of_alive(const Network& network, const Model& m, const Alive& alive,
                                            const Assignment& solution, const Options& options) {
  const int64_t entries = sweep_entries(m, alive);
  if (static_cast<double>(entries) > kTuning.little * static_cast<double>(m.sweep)) return std::nullopt;
  if (options.tell)
    options.tell(fmt::format("narrowed: {} of {} table entries may be in a better solution", entries, m.sweep));
  return subset_of_alive(network, m, alive, solution);
}

Rounding::Rounding(const Model& m) {
  for (int v = 0; v < m.variables(); ++v) {
    double largest = 0;
    for (int i = m.offset[v]; i < m.offset[v + 1]; ++i)
      if (m.unary[i] < kInfinity) largest = std::max(largest, std::abs(m.unary[i]));
    costs_ += largest;
  }
  for (const Model::Pair& p : m.pairs) costs_ += p.times * m.tables[p.table]->largest;
  for (double now : use_by_time(m, [](int, const Model::Use& u) {
         return static_cast<double>(*std::max_element(u.amounts.begin(), u.amounts.end()));
       }))
    use_ = std::max(use_, now);
  use_ += static_cast<double>(m.limit);
  factor_ =
      2 * std::numeric_limits<double>::epsilon() * static_cast<double>(m.variables() + m.pairs.size() + m.times.size());
}

}  // namespace partita::solver

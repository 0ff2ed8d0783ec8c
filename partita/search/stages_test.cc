// Even runs against all cuts, and where models can be cut.
#include "partita/search/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "partita/base/rng.h"

namespace partita {
namespace {

using Measure = std::pair<double, double>;  // the largest sum, the sum of squares

Measure measure(const std::vector<double>& costs, const std::vector<int>& run, int parts) {
  std::vector<double> sum(static_cast<size_t>(parts), 0);
  for (size_t i = 0; i < costs.size(); ++i) sum[static_cast<size_t>(run[i])] += costs[i];
  Measure m{0, 0};
  for (const double s : sum) m.first = std::max(m.first, s), m.second += s * s;
  return m;
}

// Over all ways to cut into runs that are not empty.
Measure brute_force(const std::vector<double>& costs, int parts) {
  const int n = static_cast<int>(costs.size());
  Measure best{std::numeric_limits<double>::infinity(), 0};
  for (int cuts = 0; cuts < 1 << (n - 1); ++cuts) {
    if (__builtin_popcount(static_cast<unsigned>(cuts)) != parts - 1) continue;
    std::vector<int> run(costs.size(), 0);
    for (int i = 1; i < n; ++i) run[static_cast<size_t>(i)] = run[static_cast<size_t>(i) - 1] + (cuts >> (i - 1) & 1);
    best = std::min(best, measure(costs, run, parts));
  }
  return best;
}

TEST(EvenParts, AreTheBestOfAllCuts) {
  Rng rng(3);
  for (int n = 1; n <= 10; ++n)
    for (int parts = 1; parts <= std::min(n, 5); ++parts) {
      std::vector<double> costs;
      for (int i = 0; i < n; ++i) costs.push_back(static_cast<double>(1 + rng.below(9)));
      const std::vector<int> run = even_parts(costs, parts);
      EXPECT_EQ(run.front(), 0);
      EXPECT_EQ(run.back(), parts - 1);
      EXPECT_TRUE(std::is_sorted(run.begin(), run.end()));
      EXPECT_EQ(measure(costs, run, parts), brute_force(costs, parts)) << n << " in " << parts;
    }
}

// Llama-3-405B on 16 stages: 126 layers, of which the first and the last stage have one fewer than the others.
TEST(EvenParts, GiveTheFirstAndTheLastStageOneLayerFewer) {
  std::vector<double> costs(128, 1.0);
  costs.front() = 0.01, costs.back() = 0.65;
  const std::vector<int> run = even_parts(costs, 16);
  std::vector<int> layers(16, 0);
  for (size_t i = 1; i + 1 < costs.size(); ++i) ++layers[static_cast<size_t>(run[i])];
  std::vector<int> expected(16, 8);
  expected.front() = expected.back() = 7;
  EXPECT_EQ(layers, expected);
}

}  // namespace
}  // namespace partita

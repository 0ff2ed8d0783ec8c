// Tests runs of layers against all cuts.
#include "partita/search/pipelines/contiguous_runs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/rng.h"

namespace partita {
namespace {

// The largest sum over all ways to cut.
double brute_force(const std::vector<double>& costs, size_t from, int runs) {
  if (from == costs.size()) return 0;
  if (runs == 0) return 1e30;
  double best = 1e30, sum = 0;
  for (size_t end = from; end < costs.size(); ++end) {
    sum += costs[end];
    best = std::min(best, std::max(sum, brute_force(costs, end + 1, runs - 1)));
  }
  return best;
}

TEST(ContiguousRuns, AreAsEvenAsCanBe) {
  Rng rng(7);
  for (int n = 1; n <= 9; ++n)
    for (int runs = 1; runs <= 4; ++runs) {
      std::vector<double> costs;
      for (int i = 0; i < n; ++i) costs.push_back(static_cast<double>(1 + rng.below(20)));
      const std::vector<int> run = contiguous_runs(costs, runs);
      EXPECT_EQ(run.front(), 0);
      EXPECT_EQ(run.back(), std::min(n, runs) - 1);
      std::vector<double> sums(runs, 0);
      for (int i = 0; i < n; ++i) {
        ASSERT_TRUE(i == 0 || run[i] == run[i - 1] || run[i] == run[i - 1] + 1);
        sums[run[i]] += costs[i];
      }
      EXPECT_EQ(*std::max_element(sums.begin(), sums.end()), brute_force(costs, 0, runs))
          << "seed 7, " << n << " in " << runs;
    }
}

}  // namespace
}  // namespace partita

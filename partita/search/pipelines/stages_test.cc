// Tests even runs against all cuts, and the places where models can be cut.
#include "partita/search/pipelines/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "partita/base/rng.h"
#include "partita/search/pipelines/stage_memory.h"

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

// Over all ways to cut into runs that are not empty, and fit.
Measure brute_force(const std::vector<double>& costs, int parts, const RunFits& fits = nullptr) {
  const int n = static_cast<int>(costs.size());
  Measure best{std::numeric_limits<double>::infinity(), 0};
  for (int cuts = 0; cuts < 1 << (n - 1); ++cuts) {
    if (__builtin_popcount(static_cast<unsigned>(cuts)) != parts - 1) continue;
    std::vector<int> run(costs.size(), 0);
    for (int i = 1; i < n; ++i) run[static_cast<size_t>(i)] = run[static_cast<size_t>(i) - 1] + (cuts >> (i - 1) & 1);
    bool all_fit = true;
    for (int k = 0; fits && k < parts; ++k) {
      const auto of_k = std::ranges::equal_range(run, k);
      all_fit =
          all_fit && fits(k, static_cast<int>(of_k.begin() - run.begin()), static_cast<int>(of_k.end() - run.begin()));
    }
    if (all_fit) best = std::min(best, measure(costs, run, parts));
  }
  return best;
}

TEST(EvenParts, AreTheBestOfAllCuts) {
  Rng rng(3);
  for (int n = 1; n <= 10; ++n)
    for (int parts = 1; parts <= std::min(n, 5); ++parts) {
      std::vector<double> costs;
      for (int i = 0; i < n; ++i) costs.push_back(static_cast<double>(1 + rng.below(9)));
      const std::vector<int> run = even_parts({costs}, parts);
      EXPECT_EQ(run.front(), 0);
      EXPECT_EQ(run.back(), parts - 1);
      EXPECT_TRUE(std::is_sorted(run.begin(), run.end()));
      EXPECT_EQ(measure(costs, run, parts), brute_force(costs, parts)) << n << " in " << parts;
    }
}

// A run's need grows with it, and more for earlier runs, as with micro-batches in flight.
TEST(EvenParts, AreTheBestOfThoseThatFit) {
  Rng rng(34);
  int none = 0, uneven = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const int n = 2 + static_cast<int>(rng.below(8)),
              parts = 2 + static_cast<int>(rng.below(static_cast<uint64_t>(std::min(n, 4) - 1)));
    std::vector<double> costs, needs;
    for (int i = 0; i < n; ++i)
      costs.push_back(static_cast<double>(1 + rng.below(9))), needs.push_back(static_cast<double>(1 + rng.below(9)));
    const double limit = static_cast<double>(10 + rng.below(60));
    const RunFits fits = [&](int k, int begin, int end) {
      return (parts - k) * std::accumulate(needs.begin() + begin, needs.begin() + end, 0.0) <= limit;
    };
    const Measure best = brute_force(costs, parts, fits);
    const std::vector<int> run = even_parts({costs}, parts, fits);
    ASSERT_EQ(run.empty(), best.first == std::numeric_limits<double>::infinity());
    none += run.empty();
    if (run.empty()) continue;
    EXPECT_EQ(measure(costs, run, parts), best);
    uneven += best != brute_force(costs, parts);
  }
  EXPECT_GT(none, 20);
  EXPECT_GT(uneven, 20);
}

// Runs take turns at the ranks of a pipeline, each with its own cost for an element.
TEST(EvenParts, AreEvenByTheCostsOfTheirOwnRanks) {
  Rng rng(55);
  int uneven = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int n = 2 + static_cast<int>(rng.below(8)), ranks = 2 + static_cast<int>(rng.below(2)),
              parts = ranks * (1 + static_cast<int>(rng.below(2)));
    if (parts > n) continue;
    std::vector<std::vector<double>> costs(static_cast<size_t>(ranks));
    for (auto& of_rank : costs)
      for (int i = 0; i < n; ++i) of_rank.push_back(static_cast<double>(1 + rng.below(9)));
    const auto measured = [&](const std::vector<int>& run) {
      std::vector<double> sum(static_cast<size_t>(parts), 0);
      for (size_t i = 0; i < run.size(); ++i)
        sum[static_cast<size_t>(run[i])] += costs[static_cast<size_t>(run[i] % ranks)][i];
      Measure m{0, 0};
      for (const double s : sum) m.first = std::max(m.first, s), m.second += s * s;
      return m;
    };
    Measure best{std::numeric_limits<double>::infinity(), 0};
    for (unsigned cuts = 0; cuts < 1U << (n - 1); ++cuts) {
      if (__builtin_popcount(cuts) != parts - 1) continue;
      std::vector<int> run(static_cast<size_t>(n), 0);
      for (size_t i = 1; i < run.size(); ++i) run[i] = run[i - 1] + static_cast<int>(cuts >> (i - 1) & 1);
      best = std::min(best, measured(run));
    }
    EXPECT_EQ(measured(even_parts(costs, parts)), best) << n << " in " << parts << " on " << ranks;
    uneven += measured(even_parts({costs[0]}, parts)) != best;
  }
  EXPECT_GT(uneven, 50);
}

// The example of stage_memory.h.
TEST(StageMemory, OfTwoLayersWithThreeInFlight) {
  const LayerBlockMemory layer{.once = 10, .kept = 6, .most = 8};
  const LayerBlockMemory two = join_memory(layer, layer);
  EXPECT_EQ(bytes_of(two, 3), 58);
  EXPECT_EQ(bytes_of(join_memory(LayerBlockMemory{.once = 1, .kept = 2, .most = 5, .brought = 3}, layer), 1), 11 + 10);
  EXPECT_EQ(bytes_of(join_memory(LayerBlockMemory{.once = 1, .kept = 2, .most = 5, .brought = 3}, layer), 2),
            11 + 10 + 11);
}

// Llama-3-405B on 16 stages: 126 layers; the first and the last stage have one fewer than the others.
TEST(EvenParts, GiveTheFirstAndTheLastStageOneLayerFewer) {
  std::vector<double> costs(128, 1.0);
  costs.front() = 0.01, costs.back() = 0.65;
  const std::vector<int> run = even_parts({costs}, 16);
  std::vector<int> layers(16, 0);
  for (size_t i = 1; i + 1 < costs.size(); ++i) ++layers[static_cast<size_t>(run[i])];
  std::vector<int> expected(16, 8);
  expected.front() = expected.back() = 7;
  EXPECT_EQ(layers, expected);
}

}  // namespace
}  // namespace partita

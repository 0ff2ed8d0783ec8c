// Tests merging against brute force, and the solver on problems that long chains of forced choices make hard.
#include "partita/solver/merge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "partita/network/testing/forced_chains.h"
#include "partita/network/testing/random_networks.h"
#include "partita/solver/solver.h"

namespace partita::solver {
namespace {

// Expects the same optimum and use, even if nothing fits or some variable has no value left.
void expect_same(const Network& n) {
  const BruteForce truth = brute_force(n);
  const Merging merging(n);
  if (merging.infeasible()) {
    EXPECT_FALSE(truth.solution);
    return;
  }
  const Network merged = merging.network();
  EXPECT_EQ(merged.variables(), n.variables() - merging.merged());
  const BruteForce found = brute_force(merged);
  ASSERT_EQ(found.solution.has_value(), truth.solution.has_value());
  if (!truth.solution) return;
  EXPECT_TRUE(found.cost == truth.cost);
  const Evaluation here = evaluate(merged, *found.solution), there = evaluate(n, merging.lifted(*found.solution));
  EXPECT_TRUE(there.feasible && there.cost == here.cost && there.peak == here.peak);
  const Evaluation lowered = evaluate(merged, merging.lowered(*truth.solution));
  EXPECT_TRUE(lowered.feasible && lowered.cost == truth.cost);
}

TEST(Merging, LosesNothing) {
  int merged = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Family family = kFamilies[seed % std::size(kFamilies)];
    const Network n =
        random_network({family, 6, 3, 0.1 + 0.1 * static_cast<double>(seed % 6), 50, seed % 2 == 0}, seed);
    merged += Merging(n).merged();
    expect_same(n);
    if (HasFailure()) return;
  }
  EXPECT_GT(merged, 400);
}

TEST(Merging, OfChainsLosesNothing) {
  int merged = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Network n = forced_chains(
        {.variables = 7, .edges = 9, .hub_degree = 1, .loose = 0.3, .room = 1.0 + 0.1 * static_cast<double>(seed % 4)},
        seed);
    double size = 1;
    for (const Table& costs : n.costs) size *= static_cast<double>(costs.size());
    if (size > 20'000) continue;
    merged += Merging(n).merged();
    expect_same(n);
    EXPECT_TRUE(brute_force(n).solution);
    if (HasFailure()) return;
  }
  EXPECT_GT(merged, 100);
}

TEST(Merging, GivesOneVariableForAChainOfPermutations) {
  Network n;
  n.costs = {{0, 5, 9}, {1, 1, 1}, {4, 0, 7}};
  const auto turn = std::make_shared<const Table>(
      Table{kForbidden, kForbidden, 2, 0, kForbidden, kForbidden, kForbidden, 3, kForbidden});
  n.edges = {{{0, 1}, turn}, {{2, 1}, turn}};  // f = (2, 0, 1)
  n.uses = {{1, 0, 4, {10, 20, 30}}};
  n.limit = 25;
  const Merging merging(n);
  ASSERT_EQ(merging.merged(), 2);
  const Network merged = merging.network();
  ASSERT_EQ(merged.variables(), 1);
  EXPECT_EQ(merged.costs[0], (Table{0 + 2 + 1 + 2 + 4, 5 + 0 + 1 + 0 + 0, 9 + 3 + 1 + 3 + 7}));
  EXPECT_EQ(merged.uses[0].amounts, (std::vector<int64_t>{30, 10, 20}));
  EXPECT_EQ(merging.lifted({1}), (Assignment{1, 0, 1}));
}

// Counts steps, not seconds: finds a solution within the limit, near the bound.
TEST(Merging, LargeChainsAreSolvedInAFewRounds) {
  for (uint64_t seed : {1, 2}) {
    const Network n = forced_chains({.variables = 12'000, .edges = 19'000, .hub_degree = 1'600}, seed);
    const Result r = solve(n, {.max_steps = 250, .certify = false});
    ASSERT_TRUE(r.solution) << "seed " << seed;
    EXPECT_TRUE(evaluate(n, *r.solution).feasible);
    ASSERT_TRUE(r.bound);
    EXPECT_TRUE(is_within(0.02, r.cost, *r.bound)) << to_string(r.cost) << " over " << to_string(*r.bound);
  }
}

}  // namespace
}  // namespace partita::solver

// Tests steps and their checker against brute force on random small networks.
#include "partita/solver/steps.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/network/testing/random_networks.h"

namespace partita::solver {
namespace {

Recipe recipe(Rng& rng) {
  return {.family = kFamilies[rng.below(std::size(kFamilies))],
          .size = static_cast<int>(rng.between(3, 6)),
          .values = static_cast<int>(rng.between(2, 4)),
          .forbidden = rng.below(3) == 0 ? 0.2 : 0,
          .largest = rng.below(2) == 0 ? 100 : 4,
          .limited = rng.below(2) == 0};
}

// Small enough for brute force.
Network small_network(Rng& rng, uint64_t seed) {
  constexpr double kMost = 3000;  // assignments
  for (;; seed += 1'000'000) {
    Network n = random_network(recipe(rng), seed);
    double all = 1;
    for (const Table& costs : n.costs) all *= static_cast<double>(costs.size());
    if (all <= kMost) return n;
  }
}

// Any solution, or the best.
std::optional<Assignment> some_solution(Rng& rng, const Network& n) {
  Network few = n;
  for (Table& costs : few.costs)
    for (int64_t& c : costs)
      if (rng.below(8) == 0) c = kForbidden;
  const auto some = brute_force(few).solution;
  return some ? some : brute_force(n).solution;
}

TEST(Steps, ProveTheOptimumBeforeTheJudge) {
  int optimal = 0, tried = 0, swept = 0, at_prices = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Network n = small_network(rng, seed);
    const auto start = some_solution(rng, n);
    if (!start) continue;
    const BruteForce truth = brute_force(n);
    Options options;
    if (rng.below(4) == 0) options.gap = 0.05;
    if (rng.below(4) != 0) options.elimination_bytes = rng.between(60, 600);  // not at once
    const Result r = solve_in_steps(n, *start, random_messages(rng, n), options);
    EXPECT_EQ(to_string(evaluate(n, *r.solution).cost), to_string(r.cost));
    EXPECT_TRUE(evaluate(n, *r.solution).feasible);
    EXPECT_LE(r.cost, evaluate(n, *start).cost);
    ++tried;
    if (r.certificate.leaves.empty()) continue;
    const auto proved = check(n, r.certificate);
    ASSERT_TRUE(proved);
    EXPECT_GE(*proved, *r.bound);
    EXPECT_LE(*proved, truth.cost);
    swept += !r.certificate.steps.empty();
    at_prices += !r.certificate.leaves[0].multipliers.empty();
    optimal += r.status == Status::kOptimal;
    if (r.status == Status::kOptimal) {
      EXPECT_EQ(to_string(r.cost), to_string(truth.cost));
    }
    Certificate more = r.certificate;
    more.bound = truth.cost + 1;
    EXPECT_THROW(check(n, more), Error);
    EXPECT_EQ(print_certificate(parse_certificate(print_certificate(r.certificate), "file")),
              print_certificate(r.certificate));
    if (HasFailure()) return;
  }
  EXPECT_GT(tried, 1000);
  EXPECT_GT(optimal, tried / 2);
  EXPECT_GT(swept, tried / 4);
  EXPECT_GT(at_prices, 20);
}

// Any accepted claim is true, whatever messages, multipliers, substitutions and orders there are.
TEST(Steps, NoneProveMoreThanTheTruth) {
  int accepted = 0, refused = 0, true_claims = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Network n = small_network(rng, seed);
    const BruteForce truth = brute_force(n);
    if (!truth.solution) continue;
    Certificate c;
    c.bound = truth.cost + rng.between(-30, 5);
    for (uint64_t steps = rng.below(4); steps > 0; --steps) {
      Certificate::Step step{random_messages(rng, n), {}};
      if (n.limit && rng.below(2) == 0)
        for (int64_t t = 0; t < 20; ++t)
          if (rng.below(4) == 0) step.sweep.multipliers.push_back({t, rng.between(0, 3) * step.sweep.scale});
      for (uint64_t d = rng.below(30); d > 0; --d) {
        const int v = static_cast<int>(rng.below(n.costs.size()));
        if (n.domain(v) < 2) continue;
        const int x = static_cast<int>(rng.below(n.costs[v].size()));
        step.dominated.push_back(
            {v, x, static_cast<int>((x + 1 + rng.below(n.costs[v].size() - 1)) % n.costs[v].size())});
      }
      // Keeps those that hold if the checker leaves out all others.
      std::erase_if(step.dominated, [&](const auto& d) {
        Certificate alone;
        alone.bound = -kForbidden;
        alone.steps = {{{}, {d}}};
        alone.leaves.emplace_back();
        try {
          return !check(n, alone) && rng.below(20) != 0;
        } catch (const Error&) {
          return rng.below(20) != 0;
        }
      });
      c.steps.push_back(std::move(step));
    }
    Certificate::Leaf leaf;
    if (rng.below(3) == 0) {
      leaf = random_messages(rng, n);
    } else {
      for (int v = 0; v < n.variables(); ++v) leaf.order.push_back(v);
      for (size_t i = leaf.order.size(); i > 1; --i) std::swap(leaf.order[i - 1], leaf.order[rng.below(i)]);
    }
    c.leaves = {std::move(leaf)};
    try {
      const auto proved = check(n, c);
      ASSERT_TRUE(proved);
      EXPECT_LE(*proved, truth.cost);
      ++accepted;
      true_claims += *c.bound == truth.cost;
    } catch (const Error&) {
      ++refused;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(true_claims, 50);
  EXPECT_GT(refused, 300);
}

// Sums that need more than 128 bits prove nothing.
TEST(Steps, HugeSums) {
  const int64_t huge = INT64_MAX;
  Network used;
  used.costs = {{0}};
  used.uses = {{0, 0, 3, {int64_t{1} << 62}}};
  used.limit = int64_t{1} << 62;
  Certificate none;  // that there is no solution
  none.leaves.push_back({1, {}, {}, {{0, huge}, {1, huge}, {2, 2}}, {0}});
  EXPECT_THROW(check(used, none), Error);

  Network costly;
  costly.costs = {{0}, {0}};
  for (int i = 0; i < 10; ++i) costly.edges.push_back({{0, 1}, std::make_shared<const Table>(Table{kForbidden - 1})});
  none.leaves = {{huge, {}, {}, {}, {0, 1}}};
  EXPECT_THROW(check(costly, none), Error);

  Certificate low;
  low.bound = -(Wide{1} << 126) * 2;
  low.steps.emplace_back();
  low.leaves.emplace_back();
  EXPECT_THROW(check(costly, low), Error);
}

// Two values could each go for the other: only one goes.
TEST(Steps, NeverBothOfTwo) {
  Network n;
  n.costs = {{1, 1, 5}, {0, 0}};
  n.edges.push_back({{0, 1}, std::make_shared<const Table>(Table{0, 2, 0, 2, 3, 3})});
  Certificate c;
  c.bound = 2;  // it is 1
  c.leaves.push_back({1, {}, {}, {}, {0, 1}});
  c.steps = {{{}, {{0, 0, 1}}}};
  EXPECT_THROW(check(n, c), Error);
  c.steps[0].dominated.push_back({0, 1, 0});
  EXPECT_THROW(check(n, c), Error);
  c.steps[0].dominated = {{0, 1, 2}};
  EXPECT_THROW(check(n, c), Error);
  c.bound = 1;
  c.steps.clear();
  EXPECT_EQ(to_string(*check(n, c)), "1");
  for (const std::vector<int>& order : {std::vector<int>{0}, {0, 0}, {0, 2}, {0, 1, 1}, {-1, 0}}) {
    c.leaves[0].order = order;
    EXPECT_THROW(check(n, c), Error) << fmt::format("{}", fmt::join(order, ","));
  }
}

TEST(Steps, OfVariablesAlone) {
  Network n;
  n.costs = {{3, 1, 2}, {5, 4}};
  const Result r = solve_in_steps(n, {0, 0}, {}, {});
  EXPECT_EQ(to_string(r.cost), "5");
  EXPECT_EQ(to_string(r.bound.value()), "5");
  EXPECT_TRUE(is_closed(r, 0));
}

}  // namespace
}  // namespace partita::solver

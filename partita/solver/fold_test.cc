// Tests folded networks against the whole ones, assignment by assignment.
#include "partita/solver/fold.h"

#include <gtest/gtest.h>

#include <atomic>

#include "partita/base/rng.h"
#include "partita/network/testing/random_networks.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/solver.h"

namespace partita::solver {
namespace {

std::shared_ptr<const Table> table_of(Table t) { return std::make_shared<const Table>(std::move(t)); }

// A run of equal variables, each tied to the next by one table.
Network chain(int length) {
  Network n;
  const auto table = table_of({0, 3, 1, 2});
  for (int v = 0; v < length; ++v) n.costs.push_back({1, 2});
  for (int v = 0; v + 1 < length; ++v) n.edges.push_back({{v, v + 1}, table});
  return n;
}

// Makes a network of few different costs and tables, so that many variables look alike. Edges are over one, two and
// three variables, some over one twice.
Network repeated_network(Rng& rng) {
  Network n;
  const int variables = 4 + static_cast<int>(rng.below(8)), values = 2;
  auto cost = [&]() -> int64_t { return rng.below(8) == 0 ? kForbidden : rng.between(-5, 9); };
  std::vector<Table> costs(2, Table(values));
  for (Table& t : costs)
    for (int64_t& c : t) c = cost();
  for (int v = 0; v < variables; ++v) n.costs.push_back(costs[rng.below(costs.size())]);
  std::vector<std::vector<std::shared_ptr<const Table>>> tables(4);
  for (int count = 1; count <= 3; ++count)
    for (int i = 0; i < 2; ++i) {
      Table t(size_t{1} << count);
      for (int64_t& c : t) c = cost();
      tables[count].push_back(table_of(std::move(t)));
    }
  for (int e = 0; e < 2 * variables; ++e) {
    const int count = rng.below(6) == 0 ? static_cast<int>(1 + rng.below(3)) : 2;
    Network::Edge edge;
    for (int i = 0; i < count; ++i) edge.variables.push_back(static_cast<int>(rng.below(variables)));
    edge.table = tables[count][rng.below(2)];
    n.edges.push_back(edge);
  }
  for (int u = 0; u < variables; ++u) {
    const int64_t lower = rng.between(0, 6);
    n.uses.push_back({static_cast<int>(rng.below(variables)),
                      lower,
                      lower + rng.between(0, 4),
                      {rng.between(0, 1), rng.between(2, 4)}});
  }
  n.limit = rng.between(0, 30);
  return n;
}

TEST(Folding, TellsTheCopiesNearTheEndsOfARunApart) {
  const Network n = chain(12);
  Folding folding(n);
  EXPECT_EQ(folding.classes(), 1);
  for (int depth = 1; depth <= 5; ++depth) {
    EXPECT_TRUE(folding.refine());
    EXPECT_EQ(folding.classes(), 2 * depth + 1) << depth;
  }
  EXPECT_TRUE(folding.refine());
  EXPECT_EQ(folding.classes(), 12);
  EXPECT_FALSE(folding.refine());
}

TEST(Folding, CostsAndUsesAreThoseOfTheWhole) {
  const uint64_t seed = 20261122;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int shared = 0;
  for (int i = 0; i < 500; ++i) {
    const Network n = repeated_network(rng);
    Folding folding(n);
    for (bool finer = true; finer; finer = folding.refine()) {
      const Folding::Folded once = folding.folded();
      const Network folded = once.network();
      validate(folded);
      ASSERT_EQ(folded.variables(), folding.classes());
      shared += folding.classes() < n.variables();
      for (int k = 0; k < 10; ++k) {
        Assignment y;
        for (int v = 0; v < folded.variables(); ++v) y.push_back(static_cast<int>(rng.below(folded.costs[v].size())));
        const Assignment x = once.of_whole(y);
        EXPECT_EQ(once.of_folded(x), y);
        const Evaluation part = evaluate(folded, y), whole = evaluate(n, x);
        ASSERT_EQ(part.feasible, whole.feasible) << "seed " << seed << ", network " << i;
        ASSERT_EQ(part.forbidden == 0, whole.forbidden == 0) << "seed " << seed << ", network " << i;
        if (whole.forbidden == 0) {
          ASSERT_EQ(to_string(part.cost), to_string(whole.cost)) << "seed " << seed << ", network " << i;
        }
        ASSERT_EQ(to_string(part.peak.value_or(-1)), to_string(whole.peak.value_or(-1)))
            << "seed " << seed << ", network " << i;
      }
    }
  }
  EXPECT_GT(shared, 300);
}

TEST(Folding, WhatComesToForbiddenIsForbidden) {
  Network n;
  const auto table = table_of({kForbidden / 2, 1, -3, 0});
  for (int part = 0; part < 3; ++part) {
    n.costs.insert(n.costs.end(), {{kForbidden / 3 + 1, 7}, {0, 0}});
    n.edges.push_back({{2 * part, 2 * part + 1}, table});
  }
  const Folding::Folded folded = Folding(n).folded();
  EXPECT_EQ(folded.times, std::vector<int64_t>{3});
  EXPECT_EQ(folded.once.costs, (std::vector<Table>{{kForbidden, 21}, {0, 0}}));
  EXPECT_EQ(folded.once.edges[0].table, table);
  EXPECT_EQ(*folded.network().edges[0].table, (Table{kForbidden, 3, -9, 0}));
}

// Makes equal parts of two variables around a ring, some with a part that is not like the others; all use something for
// a while.
Network ring_of_parts(Rng& rng) {
  Network n;
  const int parts = 5 + static_cast<int>(rng.below(2));
  auto table = [&](size_t size) {
    Table t(size);
    for (int64_t& c : t) c = rng.below(12) == 0 ? kForbidden : rng.between(-5, 30);
    return t;
  };
  const Table costs[] = {table(2), table(3)};
  const auto within = table_of(table(6)), next = table_of(table(6)), over = table_of(table(9));
  for (int p = 0; p < parts; ++p) {
    n.costs.push_back(costs[0]);
    n.costs.push_back(costs[1]);
  }
  if (rng.below(3) == 0) n.costs[0] = table(2);
  for (int p = 0; p < parts; ++p) {
    const int a = 2 * p, b = a + 1, c = 2 * ((p + 1) % parts);
    n.edges.push_back({{a, b}, within});
    n.edges.push_back({{c, b}, next});
    n.edges.push_back({{b, c + 1}, over});
  }
  for (int p = 0; p < parts; ++p) n.uses.push_back({2 * p + 1, p, p + 3, {0, 1, 2}});
  if (rng.below(2) == 0) n.limit = rng.between(1, 6);
  return n;
}

// A search that begins with a folding's likeliest values and is narrowed first, against brute force.
TEST(Folding, NothingBetterIsLeftOut) {
  const uint64_t seed = 20261124;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int folded = 0, narrowed = 0;
  for (int i = 0; i < 400; ++i) {
    const Network n = ring_of_parts(rng);
    Options options;
    options.certify = false;
    options.elimination_bytes = 0;
    options.large = 0;
    const Result r = solve(n, options);
    const BruteForce truth = brute_force(n);
    ASSERT_EQ(r.status, truth.solution ? Status::kOptimal : Status::kInfeasible)
        << "seed " << seed << ", network " << i;
    if (truth.solution) {
      ASSERT_TRUE(r.solution && r.cost == truth.cost && r.bound == truth.cost) << "seed " << seed << ", network " << i;
    }
    folded += r.counters.contains("folded");
    narrowed += r.counters.contains("folded") && r.counters.contains("narrowed");
  }
  RecordProperty("folded", folded);
  RecordProperty("narrowed", narrowed);
  EXPECT_GT(folded, 50);
  EXPECT_GT(narrowed, 5);
}

TEST(Folding, FindsTheBestOfARunAtOnce) {
  const Network n = random_network({.family = Family::kLayered, .size = 400, .values = 6}, 3);
  Options options;
  options.at_once = 0;
  options.max_steps = 1;
  const Result r = solve(n, options);
  ASSERT_TRUE(r.solution);
  EXPECT_GE(r.counters.at("folded"), 1);
  EXPECT_LT(r.counters.at("folded_variables"), n.variables() / 3);
  options.max_steps.reset();
  const Result best = solve(n, options);
  EXPECT_EQ(best.status, Status::kOptimal);
  EXPECT_LE(static_cast<double>(r.cost), 1.02 * static_cast<double>(best.cost));
}

TEST(Folding, StoppedAtOnceTheSolverKeepsWhatItBeganWith) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const Network n = ring_of_parts(rng);
    Options options;
    options.at_once = 0;
    options.certify = false;
    options.large = 0;
    options.max_steps = 100;
    const Result whole = solve(n, options);
    ASSERT_TRUE(whole.solution);
    const std::atomic<bool> stop = true;
    options.stop = &stop;
    options.start = whole.solution;
    const Result r = solve(n, options);
    ASSERT_TRUE(r.solution);
    EXPECT_EQ(r.cost, whole.cost);
    if (r.bound) {
      EXPECT_LE(*r.bound, r.cost);
    }
  }
}

// A ring of alike parts, in which no finer folding separates more.
TEST(Folding, OfARingIsSolvedThoughItGetsNoFiner) {
  Rng rng(5);
  auto table = [&](size_t size) {
    Table t(size);
    for (int64_t& c : t) c = rng.between(0, 100'000);
    return table_of(std::move(t));
  };
  const int values = 40, parts = 12;
  const auto inside = table(values * values), out = table(values * 2), next = table(4);
  Network n;
  for (int k = 0; k < parts; ++k) {
    n.costs.insert(n.costs.end(), {Table(values, 0), Table(values, 0), Table{0, 3}});
    n.edges.push_back({{3 * k, 3 * k + 1}, inside});
    n.edges.push_back({{3 * k, 3 * k + 2}, out});
    n.edges.push_back({{3 * k + 2, 3 * ((k + 1) % parts) + 2}, next});
  }
  Options options;
  options.at_once = 0;
  options.large = 1000;
  options.max_steps = 10;
  const Result r = solve(n, options);
  EXPECT_EQ(r.status, Status::kOptimal);
  EXPECT_GE(r.counters.at("folded"), 1);
}

// Edges over three variables, two of which are folded into one, before pairs of other sizes.
TEST(Folding, EdgesThatNameAClassTwice) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    auto table = [&](int size) {
      Table t(static_cast<size_t>(size));
      for (int64_t& c : t) c = rng.between(0, 100);
      return table_of(std::move(t));
    };
    const int around = 20, x = 3, w = 5, u = 5 + 4 * static_cast<int>(seed % 3);
    const auto three = table(x * x * w), a = table(w * u), b = table(u * 2), c = table(2 * w), d = table(x * w);
    Network n;
    for (int i = 0; i < around; ++i) {
      n.costs.insert(n.costs.end(), {Table(x, 0), Table(w, 0), Table(u, 1), Table(2, 0)});
      n.edges.push_back({{4 * i, 4 * ((i + 1) % around), 4 * i + 1}, three});
      n.edges.push_back({{4 * i + 1, 4 * i + 2}, a});
      n.edges.push_back({{4 * i + 2, 4 * i + 3}, b});
      n.edges.push_back({{4 * i + 3, 4 * i + 1}, c});
      n.edges.push_back({{4 * i, 4 * i + 1}, d});
    }
    const auto truth = eliminate(n, *plan_elimination(n, 1 << 28));
    for (const int64_t large : {int64_t{1}, int64_t{1'000'000}}) {
      Options options;
      options.at_once = 0;
      options.large = large;
      options.max_steps = 20;
      const Result r = solve(n, options);
      ASSERT_TRUE(r.solution && r.bound);
      EXPECT_LE(*r.bound, truth->cost);
      EXPECT_GE(r.cost, truth->cost);
      EXPECT_LE(check(n, r.certificate).value(), truth->cost);
    }
  }
}

TEST(Folding, WhatIsProvedInStepsIsToldBefore) {
  const uint64_t seed = 20261125;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int told = 0, answers = 0;
  for (int i = 0; i < 100; ++i) {
    const Network n = ring_of_parts(rng);
    std::vector<Assignment> proving;
    Options options;
    options.at_once = 0;
    options.max_steps = 100;
    options.proving = [&](const Assignment& x) { proving.push_back(x); };
    const Result r = solve(n, options);
    ASSERT_LE(proving.size(), 1u);
    if (proving.empty()) continue;
    ++told;
    const Evaluation e = evaluate(n, proving[0]);
    ASSERT_TRUE(r.solution && e.feasible && e.cost >= r.cost) << "seed " << seed << ", network " << i;
    answers += proving[0] == *r.solution;
  }
  EXPECT_GT(told, 30);
  EXPECT_GT(answers, told / 2);
}

}  // namespace
}  // namespace partita::solver

// Tests messages in both kinds of vectors, lowered by a reduction and lifted from a folded network, against the checker
// of certificates.
#include <gtest/gtest.h>

#include "partita/base/rng.h"
#include "partita/network/testing/random_networks.h"
#include "partita/solver/lift.h"
#include "partita/solver/reduce.h"
#include "partita/solver/subset.h"
#include "partita/solver/vectors.h"

namespace partita::solver {
namespace {

// A search must not depend on the processor that it runs on.
TEST(Dual, HasTheSameNumbersInBothKindsOfVectors) {
  if (!PARTITA_HAS_WIDE) GTEST_SKIP() << "this processor has no vectors of 64 bytes";
  constexpr uint64_t kSeed = 9;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (int i = 0; i < 100; ++i) {
    const Network n =
        random_network({.family = kFamilies[i % 5], .size = 20, .values = 12, .limited = i % 2 == 0}, rng.next());
    std::vector<int64_t> times(n.edges.size());
    for (int64_t& t : times) t = rng.between(1, 7);
    PairTables tables;
    const Model model = compile_apart(n, times, tables);
    Dual wide(model, true), halved(model, false);
    for (int pass = 0; pass < 20; ++pass) {
      ASSERT_EQ(wide.pass(), halved.pass()) << i << ", pass " << pass;
      wide.move_prices(1e9, 0, 0.5);
      halved.move_prices(1e9, 0, 0.5);
    }
    ASSERT_EQ(wide.state().messages, halved.state().messages) << i;
    ASSERT_EQ(wide.state().prices, halved.state().prices) << i;
  }
}

TEST(Reduction, LoweredMessagesProveNoLess) {
  constexpr uint64_t kSeed = 7;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  int reduced = 0, more = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    const Network n = random_network(
        {.family = kFamilies[i % 5], .size = 10, .values = 4, .forbidden = i % 2 ? 0 : 0.1, .limited = i % 3 == 0}, i);
    const Reduction reduction(n);
    const Certificate::Leaf leaf = random_messages(rng, n);
    const std::optional<Wide> before = LeafChecker(n).bound(leaf),
                              after = LeafChecker(reduction.reduced(), largest_total_cost(n))
                                          .bound(reduction.lowered(leaf));
    if (!before || !after) continue;  // without a solution any bound holds
    EXPECT_GE(*after, *before) << i;
    reduced += reduction.reduced().variables() < n.variables();
    more += *after > *before;
  }
  EXPECT_GT(reduced, 200);
  EXPECT_GT(more, 100);
}

// Makes a ring of two kinds of variables in turn: a variable's neighbours on both sides are alike, but not its ties to
// them.
Network ring(Rng& rng, int length) {
  Network n;
  auto table = [&](size_t size) {
    Table t(size);
    for (int64_t& c : t) c = rng.between(0, 1000);
    return t;
  };
  const Table costs[] = {table(4), table(3)};
  const auto there = std::make_shared<const Table>(table(12)), back = std::make_shared<const Table>(table(12));
  for (int v = 0; v < length; ++v) n.costs.push_back(costs[v % 2]);
  for (int v = 0; v < length; v += 2) {
    n.edges.push_back({{v, v + 1}, there});
    n.edges.push_back({{(v + 2) % length, v + 1}, back});
  }
  return n;
}

TEST(LiftedDual, OfCopiesThatSeeTheSameItProvesTheSameAsTheWholes) {
  constexpr uint64_t kSeed = 8;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  for (int i = 0; i < 50; ++i) {
    const Network n = ring(rng, 40);
    Folding folding(n);
    EXPECT_FALSE(folding.refine());
    ASSERT_EQ(folding.classes(), 2);
    PairTables tables;
    LiftedDual lifted(folding.folded(), tables);
    EXPECT_EQ(lifted.sweep_of_whole(),
              static_cast<double>(LiftedDual(Folding::Folded::not_at_all(n), tables).model().sweep));
    lifted.run(400, std::nullopt, [] { return false; });
    const Model model = compile(n);
    Dual dual(model), warm(model);
    double cold = -kInfinity;
    for (int pass = 0; pass < 2000; ++pass) cold = std::max(cold, dual.pass());
    const std::optional<Wide> bound = LeafChecker(n).bound(lifted.of_whole(n));
    ASSERT_TRUE(bound);
    EXPECT_NEAR(static_cast<double>(*bound), cold, 0.01 * cold) << i;
    warm.begin(lifted.of_whole(n));
    EXPECT_GE(warm.pass(), static_cast<double>(*bound) - 1) << i;
    // Together the two edges are one table of the folded network, whose messages then prove as much or more.
    const std::optional<Wide> merged = LeafChecker(lifted.folded().network()).bound(lifted.of_folded());
    ASSERT_TRUE(merged);
    EXPECT_GE(*merged, *bound - 1) << i;
  }
}

// Tables of edges that name a variable twice are made anew, and may be gone when others are asked for.
TEST(PairTables, AreThoseOfTablesThatStay) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    auto table = [&](size_t size) {
      Table t(size);
      for (int64_t& c : t) c = rng.between(0, 100);
      return std::make_shared<const Table>(std::move(t));
    };
    Network twice, once;
    for (int v = 0; v < 8; ++v) twice.costs.push_back(Table(4, 0)), once.costs.push_back(Table(6, 0));
    for (int v = 0; v + 1 < 8; ++v) {
      twice.edges.push_back({{v, v + 1, v}, table(64)});
      twice.edges.push_back({{v, v + 1}, table(16)});
      once.edges.push_back({{v, v + 1}, table(36)});
    }
    PairTables tables;
    LiftedDual(Folding::Folded::not_at_all(twice), tables, false);
    const Subset some(once, std::vector<std::vector<int>>(8, {0, 2, 3, 5}));
    const Model with = compile(some.network(), &tables), without = compile(some.network());
    for (size_t p = 0; p < with.pairs.size(); ++p)
      for (int x = 0; x < 4; ++x)
        for (int y = 0; y < 4; ++y)
          ASSERT_EQ(with.table(static_cast<int>(p)).at(x, y), without.table(static_cast<int>(p)).at(x, y)) << seed;
  }
}

// A pair table serves edges in both directions.
TEST(PairTables, ServeEdgesBothWays) {
  Rng rng(11);
  Table t(12);
  for (int64_t& c : t) c = rng.between(0, 100);
  const auto shared = std::make_shared<const Table>(std::move(t));
  Network n;
  n.costs = {Table(3, 0), Table(4, 0), Table(3, 0)};
  n.edges = {{{0, 1}, shared}, {{2, 1}, shared}};
  PairTables tables;
  const LiftedDual dual(Folding::Folded::not_at_all(n), tables, false);
  const Model with = compile(n, &tables), without = compile(n);
  EXPECT_EQ(with.tables[static_cast<size_t>(with.pairs[0].table)], (tables.begin()->second));
  for (int p : {0, 1})
    for (int x = 0; x < n.domain(with.pairs[static_cast<size_t>(p)].a); ++x)
      for (int y = 0; y < n.domain(with.pairs[static_cast<size_t>(p)].b); ++y)
        EXPECT_EQ(with.table(p).at(x, y), without.table(p).at(x, y));
}

TEST(LiftedDual, PassesOverLikelyValuesRaiseTheBoundOrChangeNothing) {
  constexpr uint64_t kSeed = 9;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  int raised = 0, undone = 0;
  for (int i = 0; i < 300; ++i) {
    const Network n =
        random_network({.family = kFamilies[i % 5], .size = 20, .values = 8, .forbidden = i % 2 ? 0 : 0.1}, rng.next());
    PairTables tables;
    LiftedDual dual(Folding::Folded::not_at_all(n), tables, false);
    dual.run(static_cast<int>(rng.between(1, 30)), std::nullopt, [] { return false; });
    auto messages = [&] {
      Certificate c;
      c.leaves = {dual.of_whole(n)};
      return c;
    };
    const Certificate before = messages();
    std::optional<Assignment> kept;
    if (i % 3 == 0) kept.emplace(n.costs.size(), 0);
    const bool has_raised = dual.run_narrowed(rng.between(1, 9) / 10.0, 50, kept, [] { return false; });
    const Certificate after = messages();
    (has_raised ? raised : undone) += 1;
    if (!has_raised) {
      ASSERT_EQ(print_certificate(after), print_certificate(before)) << i;
      continue;
    }
    const std::optional<Wide> least = LeafChecker(n).bound(before.leaves[0]),
                              now = LeafChecker(n).bound(after.leaves[0]);
    if (least && now) {
      EXPECT_GE(*now, *least) << i;
    }
  }
  EXPECT_GT(raised, 30);
  EXPECT_GT(undone, 30);
}

}  // namespace
}  // namespace partita::solver

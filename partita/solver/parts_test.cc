// Tests networks cut into parts against their true costs.
#include "partita/solver/parts.h"

#include <gtest/gtest.h>

#include <map>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/network/certificate.h"
#include "partita/solver/eliminate.h"

namespace partita::solver {
namespace {

using TablePtr = std::shared_ptr<const Table>;

// Makes equal triangles around a ring or in a row, numbered anyhow. Neighbours in a triangle pay for being alike, which
// two of them must be: half and half of everything costs a relaxation nothing.
Network triangles(Rng& rng, int count, bool ring, bool limited) {
  auto table = [&](int64_t alike, int64_t most) {
    Table t;
    for (int x = 0; x < 2; ++x)
      for (int y = 0; y < 2; ++y) t.push_back((x == y ? alike : 0) + rng.between(0, most));
    return std::make_shared<const Table>(std::move(t));
  };
  const TablePtr sides[] = {table(100, 9), table(100, 9), table(100, 9)}, next[] = {table(0, 40), table(0, 40)};
  const Table costs[] = {{rng.between(0, 9), rng.between(0, 9)},
                         {rng.between(0, 9), rng.between(0, 9)},
                         {rng.between(0, 9), rng.between(0, 9)}};
  std::vector<int> number(3 * count);
  for (int v = 0; v < 3 * count; ++v) {
    const auto at = static_cast<int>(rng.below(v + 1));
    number[v] = number[at];
    number[at] = v;
  }
  Network n;
  n.costs.resize(3 * count);
  auto connect = [&](int v, int w, const TablePtr& t) { n.edges.push_back({{number[v], number[w]}, t}); };
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < 3; ++i) {
      n.costs[number[3 * k + i]] = costs[i];
      connect(3 * k + i, 3 * k + (i + 1) % 3, sides[i]);
      if (i < 2 && (ring || k + 1 < count)) connect(3 * k + i, 3 * ((k + 1) % count) + i + 1, next[i]);
      if (limited) n.uses.push_back({number[3 * k + i], 0, 1, {0, 1 + i}});
    }
  if (limited) n.limit = 3 * count;
  return n;
}

struct Halves {
  explicit Halves(const Network& n, bool priced) : folding(n) {
    folding.refine();
    alike = folding.folded().class_of;
    folding.refine();
    dual = std::make_unique<LiftedDual>(folding.folded(), tables, priced);
    dual->run(60, std::nullopt, [] { return false; });
  }
  Folding folding;
  PairTables tables;
  std::vector<int> alike;
  std::unique_ptr<LiftedDual> dual;
};

// Cuts apart all repeated parts.
SolvedParts solved_apart(const Network& n, const Halves& halves, const Assignment& given, const Options& options) {
  return solve_parts_separately(n, halves.alike, parts_of(n, halves.alike), *halves.dual, given, options, halves.tables,
                                1, 1);
}

TEST(Parts, BoundWhatNoRelaxationOfTheWholeCan) {
  const uint64_t seed = 20261127;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int tighter = 0, exact = 0, together = 0;
  for (int i = 0; i < 60; ++i) {
    const bool ring = i % 2, limited = i % 3 == 0;
    const Network n = triangles(rng, 5, ring, limited);
    const Halves halves(n, limited);
    const SolvedParts parts = solved_apart(n, halves, Assignment(n.costs.size(), 0), {});
    const BruteForce truth = brute_force(n);
    ASSERT_TRUE(truth.solution && parts.bound) << "seed " << seed << ", network " << i;
    ASSERT_LE(*parts.bound, truth.cost) << "seed " << seed << ", network " << i;
    const auto proved = check(n, parts.certificate);
    ASSERT_TRUE(proved && *proved >= *parts.bound && *proved <= truth.cost) << "seed " << seed << ", network " << i;
    if (parts.together) {
      const Evaluation e = evaluate(n, *parts.together);
      ASSERT_TRUE(!e.feasible || e.cost >= truth.cost) << "seed " << seed << ", network " << i;
      together += e.feasible && e.cost == truth.cost;
    }
    const auto relaxed = LeafChecker(n).bound(halves.dual->of_whole(n));
    tighter += relaxed && *parts.bound > *relaxed + 100;
    exact += *parts.bound == truth.cost;
  }
  std::printf("of 60: %d tighter than the relaxation, %d exact, the parts' solutions together optimal %d times\n",
              tighter, exact, together);
  EXPECT_GT(tighter, 50);
  EXPECT_GT(exact, 10);
  EXPECT_GT(together, 10);
}

// Every wrong change of a certificate of parts is refused.
TEST(Parts, MutantsAreRefused) {
  const uint64_t seed = 20261129;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(fmt::format("seed {}, network {}", seed, i));
    const Network n = triangles(rng, 5, i % 2, i % 3 == 0);
    const Halves halves(n, i % 3 == 0);
    const Certificate c = solved_apart(n, halves, Assignment(n.costs.size(), 0), {}).certificate;
    const Wide truth = brute_force(n).cost;
    ASSERT_FALSE(c.parts.empty());
    EXPECT_EQ(print_certificate(parse_certificate(print_certificate(c), "file")), print_certificate(c));
    auto expect_refused = [&](const char* what, auto&& change) {
      Certificate mutant = c;
      change(mutant);
      EXPECT_THROW(check(n, mutant), Error) << what;
    };
    expect_refused("too much", [&](Certificate& m) { m.bound = truth + 1; });
    expect_refused("no bound", [&](Certificate& m) { m.bound.reset(); });
    expect_refused("a part's bound", [&](Certificate& m) { *m.parts[0].proof.bound += 1000; });
    expect_refused("a part missing", [&](Certificate& m) { m.parts.pop_back(); });
    expect_refused("a copy twice", [&](Certificate& m) { m.parts[0].copies.push_back(m.parts[0].copies[0]); });
    expect_refused("a variable missing", [&](Certificate& m) { m.parts[0].copies[0].pop_back(); });
    expect_refused("one that is not there", [&](Certificate& m) { m.parts[0].copies[0][0] = n.variables(); });
    expect_refused("leaves too", [&](Certificate& m) { m.leaves.emplace_back(); });
    expect_refused("a cut with an order", [&](Certificate& m) { m.cut.order.push_back(0); });
    expect_refused("scale", [&](Certificate& m) { m.cut.scale = 0; });
    if (c.parts[0].copies.size() > 1 && c.parts[0].copies[0].size() > 1)
      expect_refused("other copies",
                     [&](Certificate& m) { std::swap(m.parts[0].copies[1][0], m.parts[0].copies[1][1]); });
    for (int change = 0; change < 20; ++change) {  // messages may be any
      Certificate mutant = c;
      for (Certificate::Message& m : mutant.cut.messages)
        for (auto& end : m.ends)
          for (int64_t& value : end) value += rng.between(-30, 30) * mutant.cut.scale;
      mutant.bound = *c.bound + rng.between(-100, 10);
      try {
        EXPECT_LE(check(n, mutant).value_or(truth + 1), truth);
      } catch (const Error&) {
      }
    }
    if (HasFailure()) return;
  }
}

// Edges over one variable count in its part, once.
TEST(Parts, EdgesOverOneVariable) {
  Network n;
  n.costs = {{0}, {0}};
  n.edges = {{{0}, std::make_shared<const Table>(Table{5})}, {{1, 1}, std::make_shared<const Table>(Table{7})}};
  Certificate c;
  for (int v : {0, 1}) {
    Certificate proof;
    proof.bound = v == 0 ? 5 : 7;
    proof.leaves.emplace_back();
    c.parts.push_back({{{v}}, std::move(proof)});
  }
  c.bound = 13;
  EXPECT_THROW(check(n, c), Error);
  c.bound = 12;
  EXPECT_EQ(to_string(*check(n, c)), "12");
  c.parts[0].proof.parts = c.parts;
  EXPECT_THROW(check(n, c), Error);
}

// The numbering of variables and edges does not matter.
TEST(Parts, SolvesWhatIsAlikeOnce) {
  const uint64_t seed = 20261128;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  for (int i = 0; i < 20; ++i) {
    const Network n = triangles(rng, 30, true, false);
    const Halves halves(n, false);
    const SolvedParts parts = solved_apart(n, halves, Assignment(n.costs.size(), 0), {});
    ASSERT_TRUE(parts.bound) << "seed " << seed << ", network " << i;
    EXPECT_EQ(parts.different, 1) << "seed " << seed << ", network " << i;
  }
}

// Makes a row of many equal triangles, and then one of fewer, of another kind: those fall to the last part, which is
// cut apart again.
Network two_rows(Rng& rng, int many, int few) {
  const Network first = triangles(rng, many, false, false), second = triangles(rng, few, false, false);
  Network n = first;
  n.costs.insert(n.costs.end(), second.costs.begin(), second.costs.end());
  for (Network::Edge e : second.edges) {
    for (int& v : e.variables) v += first.variables();
    n.edges.push_back(std::move(e));
  }
  n.edges.push_back({{static_cast<int>(rng.below(first.variables())),
                      first.variables() + static_cast<int>(rng.below(second.variables()))},
                     std::make_shared<const Table>(Table{0, 30, 20, 5})});
  return n;
}

TEST(Parts, LargeOnesAreCutApartAgain) {
  const uint64_t seed = 20261131;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int nested = 0, exact = 0, better = 0;
  for (int i = 0; i < 40; ++i) {
    const Network n = two_rows(rng, 12, 8);
    const Halves halves(n, false);
    const auto truth = eliminate(n, *plan_elimination(n, int64_t{1} << 24));
    const Assignment given(n.costs.size(), 0);
    Options loose, tight;
    loose.gap = 1;
    for (const Options& options : {loose, tight}) {
      const SolvedParts parts = solved_apart(n, halves, given, options);
      ASSERT_TRUE(truth->solution && parts.bound) << "seed " << seed << ", network " << i;
      const auto proved = check(n, parts.certificate);
      ASSERT_TRUE(proved && *proved >= *parts.bound && *proved <= truth->cost) << "seed " << seed << ", network " << i;
      if (parts.together) {
        const Evaluation e = evaluate(n, *parts.together);
        ASSERT_TRUE(e.feasible && e.cost >= truth->cost && e.cost < evaluate(n, given).cost)
            << "seed " << seed << ", network " << i;
        better += options.gap == 0 && e.cost == truth->cost;
      }
      const auto& list = parts.certificate.parts;
      nested += options.gap == 1 && std::any_of(list.begin(), list.end(),
                                                [](const Certificate::Part& p) { return !p.proof.parts.empty(); });
      exact += options.gap == 0 && *parts.bound == truth->cost;
    }
  }
  std::printf("of 40: in parts again %d, exact %d, the parts' solutions together optimal %d times\n", nested, exact,
              better);
  EXPECT_GT(nested, 20);
  EXPECT_GT(exact, 5);
  EXPECT_GT(better, 10);
}

// If everything is free, parts can lack nothing.
TEST(Parts, OfNoCost) {
  Rng rng(20261135);
  Network n = two_rows(rng, 12, 8);
  for (Table& costs : n.costs) costs.assign(costs.size(), 0);
  std::map<const Table*, TablePtr> zeros;
  for (Network::Edge& e : n.edges) {
    TablePtr& zero = zeros[e.table.get()];
    if (!zero) zero = std::make_shared<const Table>(Table(e.table->size(), 0));
    e.table = zero;
  }
  const Halves halves(n, false);
  const SolvedParts parts = solved_apart(n, halves, Assignment(n.costs.size(), 0), {});
  ASSERT_TRUE(parts.bound);
  EXPECT_EQ(to_string(*parts.bound), "0");
}

TEST(Parts, ThreadsChangeNothing) {
  const uint64_t seed = 20261133;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  for (int i = 0; i < 10; ++i) {
    const Network n = two_rows(rng, 12, 8);
    const Halves halves(n, false);
    Options options;
    std::vector<std::string> made;
    for (const int threads : {1, 2, 5}) {
      options.threads = threads;
      made.push_back(print_certificate(solved_apart(n, halves, Assignment(n.costs.size(), 0), options).certificate));
    }
    EXPECT_EQ(made[0], made[1]) << "seed " << seed << ", network " << i;
    EXPECT_EQ(made[0], made[2]) << "seed " << seed << ", network " << i;
  }
}

// The share of table entries across stays below its maximum.
TEST(Parts, NothingWhereTooMuchLiesAcross) {
  const uint64_t seed = 20261132;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  const Network n = triangles(rng, 10, true, false);  // of 5 edges a triangle, 2 lie across
  const Halves halves(n, false);
  EXPECT_TRUE(parts_of(n, halves.alike, 0.4).empty());
  EXPECT_FALSE(parts_of(n, halves.alike, 0.45).empty());
}

TEST(Parts, NothingWhereOneIsMostOfAll) {
  const uint64_t seed = 20261134;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  const Network n = two_rows(rng, 12, 8);  // 36 variables and 24, which are one part with the last of the 12
  const Halves halves(n, false);
  EXPECT_TRUE(parts_of(n, halves.alike, 1, 0.4).empty());
  EXPECT_FALSE(parts_of(n, halves.alike, 1, 0.5).empty());
}

TEST(Parts, NothingIsRepeated) {
  Network n;
  n.costs = {{1, 2}, {3, 5}};
  n.edges.push_back({{0, 1}, std::make_shared<const Table>(Table{1, 2, 3, 4})});
  const Halves halves(n, false);
  EXPECT_TRUE(parts_of(n, halves.alike).empty());
}

}  // namespace
}  // namespace partita::solver

// Tests the solver against brute force, and its certificates with their checker, on random small networks.
#include "partita/solver/solver.h"

#include <gtest/gtest.h>

#include <set>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/network/testing/random_networks.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/model.h"
#include "partita/solver/reduce.h"

namespace partita::solver {
namespace {

struct Shape {
  int variables = 5, values = 3;
  double density = 0.6, forbidden = 0.15;
  int64_t largest = 20;
  bool limited = true, wide = false;
};

// Makes parallel and turned edges, edges over one variable, over three, and over one variable twice; uses that are
// empty, several per variable; limits from those nothing fits to those that never matter.
Network random_network(Rng& rng, const Shape& s) {
  Network n;
  auto cost = [&]() -> int64_t {
    if (rng.uniform() < s.forbidden) return kForbidden;
    return rng.between(rng.below(4) == 0 ? -s.largest : 0, s.largest);
  };
  auto any = [&] { return static_cast<int>(rng.below(s.variables)); };
  for (int v = 0; v < s.variables; ++v) {
    n.costs.emplace_back(1 + rng.below(s.values));
    for (int64_t& c : n.costs.back()) c = cost();
  }
  const int edges = static_cast<int>(s.density * s.variables * (s.variables - 1) / 2);
  for (int e = 0; e < edges; ++e) {
    Network::Edge edge;
    const uint64_t kind = rng.below(20);
    const int count = kind == 0 ? 1 : s.wide && kind < 6 ? 3 : 2;
    for (int i = 0; i < count; ++i) edge.variables.push_back(any());
    if (!s.wide && count == 2)
      while (edge.variables[1] == edge.variables[0]) edge.variables[1] = any();
    size_t size = 1;
    for (int v : edge.variables) size *= n.costs[v].size();
    Table table(size);
    for (int64_t& c : table) c = cost();
    edge.table = std::make_shared<const Table>(table);
    if (!n.edges.empty() && rng.below(5) == 0 && n.edges.back().table->size() == size)
      edge.table = n.edges.back().table;
    n.edges.push_back(std::move(edge));
  }
  if (!s.limited) return n;
  int64_t all = 0;
  for (int u = 0; u < s.variables + 2; ++u) {
    Network::Use use{any(), rng.between(-5, 10), 0, {}};
    use.upper = use.lower + rng.between(-1, 8);
    use.amounts.resize(n.costs[use.variable].size());
    for (int64_t& a : use.amounts) a = rng.between(0, 9), all += a;
    n.uses.push_back(use);
  }
  n.limit = rng.between(-1, std::max<int64_t>(2, all / 3));
  return n;
}

// Solves, without elimination unless told otherwise, and compares the result with brute force and the checker.
Result expect_solved(const Network& n, const std::string& which, Options options = {.elimination_bytes = 0}) {
  SCOPED_TRACE(which);
  const BruteForce truth = brute_force(n);
  options.max_steps = 100000;
  Result r = solve(n, options);
  EXPECT_EQ(r.status, truth.solution ? Status::kOptimal : Status::kInfeasible);
  EXPECT_EQ(r.solution.has_value(), truth.solution.has_value());
  if (r.solution && truth.solution) {
    const Evaluation e = evaluate(n, *r.solution);
    EXPECT_TRUE(e.feasible);
    EXPECT_TRUE(e.cost == r.cost);
    EXPECT_EQ(to_string(r.cost), to_string(truth.cost));
    EXPECT_EQ(to_string(r.bound.value_or(-1)), to_string(truth.cost));
  }
  const auto proved = check(n, r.certificate);
  EXPECT_EQ(proved.has_value(), truth.solution.has_value());
  if (proved && truth.solution) {
    EXPECT_EQ(to_string(*proved), to_string(truth.cost));
  }
  return r;
}

TEST(Solver, EqualsBruteForce) {
  int feasible = 0, split = 0, ordered = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    Shape s;
    s.variables = static_cast<int>(rng.between(1, 6));
    s.values = static_cast<int>(rng.between(1, 4));
    s.density = 0.3 + rng.uniform();
    s.forbidden = rng.below(3) == 0 ? 0 : 0.25 * rng.uniform();
    s.largest = seed % 5 == 0 ? kForbidden - 1 : seed % 5 == 1 ? 1'000'000'000'000 : 20;
    s.limited = rng.below(4) != 0;
    s.wide = rng.below(4) == 0;
    const Network n = random_network(rng, s);
    const Result r = expect_solved(n, fmt::format("seed {}", seed));
    feasible += r.solution.has_value();
    split += r.certificate.leaves.size() > 1;
    ordered +=
        !expect_solved(n, fmt::format("seed {}, eliminated", seed), {.at_once = 0}).certificate.leaves[0].order.empty();
    if (HasFailure()) return;
  }
  EXPECT_GT(feasible, 600);
  EXPECT_GT(split, 60);
  EXPECT_GT(ordered, 60);
}

// Against brute force; if the limit forbids the result of elimination, the other stages go on.
TEST(Solver, EliminatesAtOnceWhereThatIsAll) {
  const uint64_t first = 20261130;
  RecordProperty("seed", std::to_string(first));
  int alone = 0, not_alone = 0, stayed = 0, none = 0;
  for (uint64_t seed = first; seed < first + 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    Shape s;
    s.variables = static_cast<int>(rng.between(1, 6));
    s.density = 0.3 + rng.uniform();
    s.forbidden = rng.below(3) == 0 ? 0 : 0.1 * rng.uniform();
    s.largest = seed % 5 == 0 ? kForbidden - 1 : seed % 5 == 1 ? 1'000'000'000'000 : 1;
    s.limited = rng.below(3) != 0;
    s.wide = rng.below(4) == 0;
    const Network n = random_network(rng, s);
    const BruteForce truth = brute_force(n);
    Options options;
    options.start = truth.solution;
    const Result r = expect_solved(n, "with a start", options);
    if (HasFailure()) return;
    if (r.counters.contains("rounds")) {
      ++not_alone;
      continue;
    }
    ++alone;
    none += !truth.solution;
    if (!truth.solution) continue;
    EXPECT_EQ(*r.solution, *truth.solution);  // the start
    const Result again = expect_solved(n, "without", {});
    if (HasFailure()) return;
    stayed += *again.solution != *truth.solution;
  }
  std::printf("by elimination alone %d (without a solution %d; the start stayed %d times), otherwise %d\n", alone, none,
              stayed, not_alone);
  EXPECT_GT(alone, 200);
  EXPECT_GT(none, 10);
  EXPECT_GT(stayed, 10);
  EXPECT_GT(not_alone, 50);
}

// Makes a leaf with random decisions, messages and prices; messages only for values that propagation leaves.
Certificate::Leaf random_leaf(Rng& rng, const Network& n) {
  Certificate::Leaf leaf{static_cast<int64_t>(1 + rng.below(8)), {}, {}, {}};
  for (int v = 0; v < n.variables(); ++v) {
    if (rng.below(4) != 0) continue;
    leaf.decisions.push_back({v, {}});
    for (int x = 0; x < n.domain(v); ++x)
      if (rng.below(3) != 0) leaf.decisions.back().values.push_back(x);
  }
  const Model model = compile(n);
  Alive alive(model.unary.size(), 1);
  for (const Certificate::Decision& d : leaf.decisions)
    for (int x = 0; x < n.domain(d.variable); ++x)
      alive[model.offset[d.variable] + x] = std::binary_search(d.values.begin(), d.values.end(), x);
  if (!propagate(model, alive)) return leaf;
  std::set<std::vector<int>> over;
  for (const Network::Edge& e : n.edges)
    over.insert({std::min(e.variables[0], e.variables[1]), std::max(e.variables[0], e.variables[1])});
  for (const std::vector<int>& variables : over) {
    Certificate::Message m{variables, {}};
    for (int v : variables) {
      m.ends.emplace_back();
      for (int x = 0; x < n.domain(v); ++x)
        m.ends.back().push_back(alive[model.offset[v] + x] ? rng.between(-200, 200) : kNotThere);
    }
    leaf.messages.push_back(std::move(m));
  }
  for (int64_t t : kept_times(n))
    if (rng.below(2) == 0) leaf.multipliers.push_back({t, rng.between(1, 20)});
  return leaf;
}

// The reduced network has the same optimum, every leaf proves the same in both, and elimination finds the optimum
// without the limit.
TEST(Solver, ReductionsAndEliminationLoseNothing) {
  std::map<std::string, int> fired;
  int eliminated = 0, whole = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Rng rng(seed);
    Recipe recipe{kFamilies[seed % 5], static_cast<int>(rng.between(2, 8)), static_cast<int>(rng.between(2, 3)), 0, 100,
                  rng.below(2) == 0};
    if (rng.below(2) == 0) recipe.forbidden = 0.3 * rng.uniform();
    if (rng.below(3) == 0) recipe.largest = rng.below(2) == 0 ? 3 : 1'000'000'000'000;
    if (recipe.family == Family::kLayered) recipe.values = 2;
    const Network n = random_network(recipe, seed);
    SCOPED_TRACE(fmt::format("{}, seed {}", name_of(recipe.family), seed));
    const Reduction reduction(n);
    for (const auto& [rule, times] : reduction.counts()) fired[rule] += times;
    const Network& reduced = reduction.reduced();
    validate(reduced);
    const BruteForce truth = brute_force(n), small = brute_force(reduced);
    ASSERT_EQ(truth.solution.has_value(), small.solution.has_value());
    if (truth.solution) {
      EXPECT_EQ(to_string(truth.cost), to_string(small.cost));
      const Evaluation e = evaluate(n, reduction.lifted(*small.solution)),
                       lowered = evaluate(reduced, reduction.lowered(*truth.solution));
      EXPECT_TRUE(e.feasible && e.cost == truth.cost);
      EXPECT_TRUE(lowered.feasible && lowered.cost == truth.cost);
    }
    const LeafChecker checker(n), checker_of_reduced(reduced, checker.most());
    for (int i = 0; i < 3; ++i) {
      const Certificate::Leaf leaf = random_leaf(rng, reduced);
      EXPECT_EQ(checker_of_reduced.bound(leaf), checker.bound(reduction.lifted(leaf)));
    }
    const auto plan = plan_elimination(reduced, 1 << 20);
    ASSERT_TRUE(plan);
    const auto found = eliminate(reduced, *plan);
    ASSERT_TRUE(found);
    Network free = n;
    free.limit.reset();
    const BruteForce least = n.limit ? brute_force(free) : truth;
    ASSERT_EQ(found->solution.has_value(), least.solution.has_value());
    if (least.solution && !n.limit) {
      EXPECT_EQ(to_string(found->cost), to_string(least.cost));
      EXPECT_EQ(evaluate(n, reduction.lifted(*found->solution)).cost, least.cost);
    }
    EXPECT_FALSE(plan_elimination(n, 8));
    expect_solved(n, "whole");
    Options without_proof;
    without_proof.certify = false;
    without_proof.at_once = 0;
    without_proof.large = 0;
    const Result r = solve(n, without_proof);
    EXPECT_EQ(r.status, truth.solution ? Status::kOptimal : Status::kInfeasible);
    if (truth.solution) {
      EXPECT_TRUE(r.solution && r.cost == truth.cost && r.bound == truth.cost);
    }
    if (!r.certificate.leaves.empty()) check(n, r.certificate);
    eliminated += r.counters.contains("eliminated");
    whole += static_cast<int>(r.counters.at("reduced_variables")) == n.variables();
    if (HasFailure()) return;
  }
  RecordProperty("eliminated", eliminated);
  for (const auto& [rule, times] : fired) RecordProperty(rule, times);
  for (const char* rule : {"fixed", "degree_one", "degree_two", "dominated"}) EXPECT_GT(fired[rule], 300) << rule;
  EXPECT_GT(eliminated, 150);
  EXPECT_GT(whole, 30);
}

// Tests bounds after values were left out that, by the messages, nothing better can take: against elimination, and
// within a limit against a certificate. Leaves of the reduced network prove the same in the whole one, even if much of
// it is reduced too.
TEST(Solver, NarrowingLosesNothing) {
  int narrowed = 0, first = 0, limited = 0, cores = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed);
    const Recipe recipe{
        kFamilies[seed % 5], static_cast<int>(rng.between(12, 30)), static_cast<int>(rng.between(3, 5)), 0.1, 1000,
        seed % 3 == 0};
    const Network n = random_network(recipe, seed);
    SCOPED_TRACE(fmt::format("{}, seed {}", name_of(recipe.family), seed));
    const Reduction reduction(n);
    const LeafChecker checker(n), checker_of_reduced(reduction.reduced(), checker.most());
    for (int i = 0; i < 3; ++i) {
      const Certificate::Leaf leaf = random_leaf(rng, reduction.reduced());
      ASSERT_EQ(checker_of_reduced.bound(leaf), checker.bound(reduction.lifted(leaf)));
    }
    Options options;
    options.certify = false;
    options.elimination_bytes = 0;
    options.max_steps = 3000;
    if (seed % 2) options.large = 0;
    std::vector<std::string> told;
    options.tell = [&](const std::string& said) {
      if (said.starts_with("narrowed") || said.starts_with("reduced")) told.push_back(said);
    };
    const Result r = solve(n, options);
    first += !told.empty() && told[0].starts_with("narrowed");
    if (r.solution) {
      const Evaluation e = evaluate(n, *r.solution);
      EXPECT_TRUE(e.feasible && e.cost == r.cost);
    }
    std::optional<Wide> truth;
    if (n.limit) {
      options.certify = true;
      const Result proved = solve(n, options);
      check(n, proved.certificate);
      if (proved.status != Status::kOptimal || proved.certificate.bound != proved.cost) continue;
      truth = proved.cost;
    } else {
      const auto plan = plan_elimination(n, 1 << 28);
      ASSERT_TRUE(plan);
      const auto found = eliminate(n, *plan);
      ASSERT_TRUE(found);
      if (found->solution) truth = found->cost;
    }
    ASSERT_EQ(r.solution.has_value(), truth.has_value());
    if (!truth) continue;
    EXPECT_EQ(r.status, Status::kOptimal);
    EXPECT_EQ(to_string(r.cost), to_string(*truth));
    EXPECT_EQ(to_string(r.bound.value_or(0)), to_string(*truth));
    narrowed += r.counters.contains("narrowed");
    limited += n.limit && r.counters.contains("narrowed");
    cores += r.counters.contains("cores");
  }
  RecordProperty("narrowed", narrowed);
  RecordProperty("first", first);
  RecordProperty("cores", cores);
  EXPECT_GT(narrowed, 20);
  EXPECT_GT(limited, 3);
  EXPECT_GT(cores, 0);
}

// One table for two pairs of different shapes.
TEST(Solver, SharedTablesOfTwoShapes) {
  Network n;
  n.costs = {{0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0}};
  const auto table = std::make_shared<const Table>(Table{5, 3, 9, 2, 8, 1});
  n.edges = {{{0, 1}, table}, {{2, 3}, table}, {{1, 3}, table}, {{2, 0}, table}};
  expect_solved(n, "shapes");
}

TEST(Solver, StopsWithinTheGap) {
  int optimal = 0, near = 0, none = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Recipe recipe{.family = kFamilies[seed % 5],
                        .size = 30,
                        .values = 5,
                        .forbidden = seed % 4 ? 0 : 0.1,
                        .limited = seed % 3 == 0};
    const Network n = random_network(recipe, seed);
    SCOPED_TRACE(fmt::format("{}, seed {}", name_of(recipe.family), seed));
    Options options;
    options.certify = seed % 2;
    options.elimination_bytes = 0;  // else it would be quicker than any bound
    options.max_steps = 3000;
    if (seed % 7 < 3) options.large = 0;
    const Result best = solve(n, options);
    options.gap = 0.1;
    const Result r = solve(n, options);
    ASSERT_EQ(r.solution.has_value(), best.solution.has_value());
    if (!r.solution) {
      ++none;
      continue;
    }
    const Evaluation e = evaluate(n, *r.solution);
    ASSERT_TRUE(e.feasible && e.cost == r.cost && r.bound);
    if (best.status != Status::kOptimal) continue;
    EXPECT_LE(*r.bound, best.cost);
    EXPECT_GE(r.cost, best.cost);
    EXPECT_LE(static_cast<double>(r.cost - *r.bound), 0.1 * static_cast<double>(r.cost));
    if (options.certify && !r.certificate.empty()) {
      EXPECT_LE(check(n, r.certificate).value(), best.cost);
    }
    (r.cost == *r.bound ? optimal : near) += 1;
  }
  std::printf("optimal %d times, near %d, no solution %d\n", optimal, near, none);
  EXPECT_GT(near, 20);
}

TEST(Solver, ThreadsChangeNothing) {
  Rng rng(7);
  Shape s;
  s.variables = 40;
  s.values = 5;
  s.density = 0.1;
  s.forbidden = 0.05;
  s.largest = 1000;
  const Network n = random_network(rng, s);
  Options options;
  options.max_steps = 12;
  options.at_once = 0;
  options.threads = 1;
  const Result one = solve(n, options);
  options.threads = 2;
  options.progress = [](const Progress&) {};  // it proves bounds in between for this
  const Result two = solve(n, options);
  EXPECT_EQ(one.solution, two.solution);
  EXPECT_EQ(print_certificate(one.certificate), print_certificate(two.certificate));
}

TEST(Certificates, ReadAsTheyWerePrinted) {
  Rng rng(3);
  const Network n = random_network(rng, {.variables = 6, .density = 1, .largest = 1000});
  const Result r = solve(n, {.max_steps = 1000, .elimination_bytes = 0});
  const std::string text = print_certificate(r.certificate);
  EXPECT_EQ(print_certificate(parse_certificate(text, "file")), text);
}

// The result of elimination, at once or after steps, is certified even if messages and branching do not prove it in any
// time.
TEST(Certificates, OfWhatIsComputed) {
  int in_steps = 0, at_once = 0;
  for (Family family : kFamilies)
    for (uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", name_of(family), seed));
      const Network n = random_network(Recipe{.family = family, .size = 40, .values = 6}, seed);
      Options options{.max_steps = 200, .at_once = 0};
      const Result first = solve(n, options);
      ASSERT_EQ(first.status, Status::kOptimal);
      if (seed % 2 == 0) options.elimination_bytes = 20'000;  // of all tables, existing ones included
      const Result r = solve(n, options);
      const auto proved = check(n, r.certificate);
      ASSERT_TRUE(proved && r.solution);
      EXPECT_LE(*proved, r.cost);
      EXPECT_LE(first.cost, r.cost);
      if (r.status != Status::kOptimal) continue;
      EXPECT_EQ(to_string(*proved), to_string(r.cost));
      EXPECT_EQ(to_string(r.cost), to_string(first.cost));
      in_steps += !r.certificate.steps.empty();
      at_once += r.certificate.steps.empty() && !r.certificate.leaves[0].order.empty();
    }
  EXPECT_GT(in_steps, 3);
  EXPECT_GT(at_once, 10);
}

// Every change that could raise the bound is refused, or does not raise it.
TEST(Certificates, MutantsAreRefused) {
  int refused = 0, tried = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const Network n =
        random_network(rng, {.variables = 6, .values = 4, .density = 0.8, .forbidden = 0.05, .largest = 100});
    const Result r = solve(n, {.max_steps = 100000, .elimination_bytes = 0});
    if (!r.solution) continue;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    auto expect_refused = [&](const Certificate& c) { EXPECT_THROW(check(n, c), Error); };
    Certificate c = r.certificate;
    *c.bound += 1;
    expect_refused(c);
    c.bound.reset();
    expect_refused(c);
    for (size_t l = 0; l < r.certificate.leaves.size() && r.certificate.leaves.size() > 1; ++l) {
      c = r.certificate;
      c.leaves.erase(c.leaves.begin() + static_cast<long>(l));
      expect_refused(c);
    }
    // A raised message takes from the factor what it gives to the variable: it never proves more than the truth.
    c = r.certificate;
    for (Certificate::Leaf& leaf : c.leaves)
      for (Certificate::Message& m : leaf.messages)
        for (auto& end : m.ends)
          for (int64_t& value : end) value += rng.between(-50, 50) * leaf.scale;
    ++tried;
    try {
      const auto proved = check(n, c);
      EXPECT_TRUE(proved && *proved <= r.cost);
    } catch (const Error&) {
      ++refused;
    }
    for (Certificate::Leaf& leaf : c.leaves)
      for (Certificate::Multiplier& m : leaf.multipliers) m.value = -m.value;
    if (std::any_of(c.leaves.begin(), c.leaves.end(), [](const auto& l) { return !l.multipliers.empty(); }))
      expect_refused(c);
    if (HasFailure()) return;
  }
  EXPECT_GT(refused, tried / 2);
}

// By then, a large network may have no proof, and the best so far is still the answer.
TEST(Solver, ADeadlineThatIsOverLeavesTheBestSoFar) {
  Rng rng(20261129);
  Network n;
  auto table = std::make_shared<Table>();
  for (int i = 0; i < 300 * 300; ++i) table->push_back(rng.between(0, 1000));
  for (int v = 0; v < 40; ++v) {
    n.costs.emplace_back(300);
    for (int64_t& c : n.costs.back()) c = rng.between(0, 1000);
    for (int w = std::max(0, v - 3); w < v; ++w) n.edges.push_back({{w, v}, table});
  }
  Options options;
  options.certify = false;
  options.start = Assignment(n.costs.size(), 0);
  options.deadline = std::chrono::steady_clock::now();
  const Result r = solve(n, options);
  ASSERT_TRUE(r.solution);
  EXPECT_LE(r.cost, evaluate(n, *options.start).cost);
  EXPECT_TRUE(!r.bound || *r.bound <= r.cost);
}

}  // namespace
}  // namespace partita::solver

// Tests coarse problems by hand and of random problems: merges as the header says, and schedules expanded to the fine
// one.
#include "partita/device_placement/coarsen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "partita/base/error.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/memory.h"
#include "partita/device_placement/testing/random_problem.h"
#include "partita/device_placement/testing/unrolled_problem.h"

namespace partita {
namespace {

const CoarsenOptions kNoCaps{.time_share = 1, .memory_share = 1};

// The example of coarsen.h.
PlacementProblem figure6() {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 2;
  p.routes = {{{}, {0, 1, 0.01}}, {{1, 1, 0.01}, {}}};
  p.ops = {{"a", {1, 1}, 10, -1, {}},
           {"b", {1, 1}, 10, -1, {}},
           {"c", {1, 1}, 10, -1, {0, 1}},
           {"d", {1, 1}, 10, -1, {0, 1}}};
  p.values = {{100, 0, {2, 3}}, {100, 1, {2, 3}}};
  validate(p);
  return p;
}

std::vector<std::string> names(const PlacementProblem& p) {
  std::vector<std::string> found;
  for (const PlacedOp& op : p.ops) found.push_back(op.name);
  return found;
}

TEST(Coarsen, TheExample) {
  const PlacementProblem fine = figure6();
  const Coarse three = coarsen(fine, 3, kNoCaps);
  validate(three.problem);
  EXPECT_EQ(names(three.problem), (std::vector<std::string>{"b", "a+1", "d"}));
  EXPECT_EQ(three.vertex, (std::vector<int>{1, 0, 1, 2}));
  EXPECT_EQ(three.problem.ops[1].ns, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(three.problem.ops[1].bytes, 20);
  EXPECT_EQ(three.problem.values[1].readers, (std::vector<int>{1, 2}));
  const Coarse two = coarsen(fine, 2, kNoCaps);
  EXPECT_EQ(names(two.problem), (std::vector<std::string>{"b", "a+2"}));
  EXPECT_EQ(two.value, (std::vector<int>{-1, 0}));
  EXPECT_EQ(two.problem.values[0].readers, std::vector<int>{1});
  EXPECT_EQ(coarsen(fine, 1, kNoCaps).problem.ops.size(), 1U);
  EXPECT_EQ(expanded_placement(two, {1, 0}), (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(expanded_order(two, {0, 1}), (std::vector<int>{1, 0, 2, 3}));
  EXPECT_EQ(first_come(fine, expanded_placement(two, {1, 0}), {1, 0, 2, 3}).end, 5);  // b, its value 2, c, d
}

// Values weigh as the seed draws: equal seeds merge alike, others do not.
TEST(Coarsen, SeedsDrawMerges) {
  constexpr uint64_t kSeed = 49;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem fine = random_problem(rng, {.ops = 200});
  std::set<std::vector<int>> merges;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CoarsenOptions options = kNoCaps;
    options.seed = seed;
    const Coarse coarse = coarsen(fine, 50, options);
    validate(coarse.problem);
    EXPECT_EQ(coarse.problem.ops.size(), 50U);
    EXPECT_EQ(coarsen(fine, 50, options).vertex, coarse.vertex);
    merges.insert(coarse.vertex);
  }
  EXPECT_EQ(merges.size(), 5U);
}

TEST(Coarsen, KeepsWindowsApart) {
  constexpr uint64_t kSeed = 50;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem fine = random_problem(rng, {.ops = 200});
  CoarsenOptions options = kNoCaps;
  options.placement = random_placement(rng, fine);
  for (size_t o = 0; o < fine.ops.size(); ++o) options.window.push_back(static_cast<int>(o) / 50);
  const Coarse coarse = coarsen(fine, 20, options);
  validate(coarse.problem);
  EXPECT_LT(coarse.problem.ops.size(), 100U);
  std::map<int, std::set<std::pair<int, int>>> of_vertex;
  for (size_t o = 0; o < fine.ops.size(); ++o)
    of_vertex[coarse.vertex[o]].insert({options.placement[o], options.window[o]});
  for (const auto& [vertex, alike] : of_vertex) EXPECT_EQ(alike.size(), 1U) << vertex;
}

TEST(Coarsen, CapsTypesAndGroups) {
  PlacementProblem p = figure6();
  // {a, c}, b and d: together, b and d would need {a, c} and it them.
  EXPECT_EQ(coarsen(p, 1, {.time_share = 0.5, .memory_share = 1}).problem.ops.size(), 3U);
  EXPECT_EQ(coarsen(p, 1, {.time_share = 1, .memory_share = 0.5}).problem.ops.size(), 3U);
  EXPECT_EQ(coarsen(p, 1, {.time_share = 0.2, .memory_share = 1}).problem.ops.size(), 4U);
  p.ops[0].group = p.ops[3].group = 7;
  p.ops[1].group = p.ops[2].group = 3;
  const Coarse grouped = coarsen(p, 3, kNoCaps);  // a and c: all are together
  for (const PlacedOp& op : grouped.problem.ops) EXPECT_EQ(op.group, 0);
  // Groups are half of all each: nothing joins two, each becomes one vertex if no cycle is in the way.
  const Coarse half = coarsen(p, 1, {.time_share = 0.5, .memory_share = 1});
  EXPECT_EQ(half.problem.ops.size(), 3U);
  p = figure6();
  p.ops[0].ns = p.ops[1].ns = {1, -1};
  EXPECT_EQ(names(coarsen(p, 1, kNoCaps).problem), (std::vector<std::string>{"a+1", "c+1"}));  // by height
}

// x, whose group y is at a greater height, may be merged with neither a nor b, and a and b may with each other.
TEST(Coarsen, ALighterNeighbourOfAnotherGroupHidesNothing) {
  PlacementProblem p;
  p.devices = {{"host", 100}, {"gpu0", 100}, {"gpu1", 100}};
  p.routes = {{{}, {0, 1, 0.01}, {1, 1, 0.01}}, {{2, 1, 0.01}, {}, {3, 1, 0.01}}, {{4, 1, 0.01}, {5, 1, 0.01}, {}}};
  p.queues = 6;
  p.ops = {{"x", {-1, 1, 1}, 0, 0, {}},
           {"load", {1, -1, -1}, 0, -1, {}},
           {"y", {-1, 5, 5}, 0, 0, {0}},
           {"a", {-1, 2, 2}, 0, 1, {}},
           {"b", {-1, 2, 2}, 0, 1, {}}};
  p.values = {{100, 1, {2}}};
  validate(p);
  EXPECT_EQ(names(coarsen(p, 1, {.time_share = 0.6, .memory_share = 1}).problem),
            (std::vector<std::string>{"x", "load", "y", "a+1"}));
}

TEST(Coarsen, ValuesThatGoTheSameWayAreJoined) {
  PlacementProblem p = figure6();
  p.ops = {{"a", {9, 9}, 0, -1, {}}, {"b", {9, 9}, 0, -1, {}}, {"c", {1, -1}, 0, -1, {0, 1}}};
  p.values = {{100, 0, {2}}, {50, 1, {2}}};
  const Coarse apart = coarsen(p, 2, kNoCaps);
  EXPECT_EQ(apart.problem.values.size(), 2U);
  const Coarse joined = coarsen(p, 2, {.time_share = 1, .memory_share = 1, .join_values = true});
  ASSERT_EQ(joined.problem.values.size(), 1U);
  EXPECT_EQ(joined.problem.values[0].bytes, 150);
  EXPECT_EQ(joined.value, (std::vector<int>{0, 0}));
  validate(joined.problem);
}

struct Load {
  int64_t ns = 0, bytes = 0;
  int ops = 0;
  std::set<int> classes;  // of the fine problem: groups, and single operations
  void add(const PlacementProblem& p, int op) {
    const PlacedOp& o = p.ops[static_cast<size_t>(op)];
    int64_t least = INT64_MAX;
    for (int64_t t : o.ns)
      if (t > 0) least = std::min(least, t);
    ns += least;
    bytes += o.bytes;
    ++ops;
    classes.insert(o.group >= 0 ? o.group : -1 - op);
  }
};

// Sums, types, groups and caps.
void check_vertices(const PlacementProblem& fine, const Coarse& c, const CoarsenOptions& options) {
  validate(c.problem);
  ASSERT_EQ(c.vertex.size(), fine.ops.size());
  std::vector<std::vector<int64_t>> ns(c.problem.ops.size(), std::vector<int64_t>(fine.devices.size(), 0));
  std::vector<Load> vertices(c.problem.ops.size());
  std::map<int, Load> classes;
  std::map<int, std::set<int>> vertices_of_group;
  Load all;
  for (size_t o = 0; o < fine.ops.size(); ++o) {
    const auto v = static_cast<size_t>(c.vertex[o]);
    const int op = static_cast<int>(o), group = c.problem.ops[v].group;
    all.add(fine, op);
    vertices[v].add(fine, op);
    classes[group >= 0 ? group : -1 - static_cast<int>(v)].add(fine, op);
    if (fine.ops[o].group >= 0) vertices_of_group[fine.ops[o].group].insert(c.vertex[o]);
    for (size_t d = 0; d < ns[v].size(); ++d) {
      ASSERT_EQ(fine.ops[o].ns[d] > 0, c.problem.ops[v].ns[d] > 0);
      ns[v][d] += fine.ops[o].ns[d] > 0 ? fine.ops[o].ns[d] : 0;
    }
  }
  const auto within = [&](const Load& load) {
    return static_cast<double>(load.ns) <= options.time_share * static_cast<double>(all.ns) &&
           static_cast<double>(load.bytes) <= options.memory_share * static_cast<double>(all.bytes);
  };
  for (size_t v = 0; v < vertices.size(); ++v) {
    ASSERT_GT(vertices[v].ops, 0);
    ASSERT_TRUE(vertices[v].ops == 1 || within(vertices[v]));
    ASSERT_EQ(vertices[v].bytes, c.problem.ops[v].bytes);
    for (size_t d = 0; d < ns[v].size(); ++d) ASSERT_EQ(c.problem.ops[v].ns[d], ns[v][d] == 0 ? -1 : ns[v][d]);
  }
  for (const auto& [number, load] : classes) ASSERT_TRUE(load.classes.size() == 1 || within(load));
  for (const auto& [group, of] : vertices_of_group) {
    std::set<int> coarse;
    for (int v : of) coarse.insert(c.problem.ops[static_cast<size_t>(v)].group);
    ASSERT_TRUE(of.size() == 1 || (coarse.size() == 1 && *coarse.begin() >= 0));
  }
}

// Checks which values cross, from and to; and that no vertex is before one that it reads, so that there is no cycle.
void check_values(const PlacementProblem& fine, const Coarse& c, bool join) {
  std::vector<int64_t> bytes(c.problem.values.size(), kOrderAlone);
  std::set<std::pair<int, std::vector<int>>> routes,
      orders;  // routes: of values that move, or of all if joined; orders: of the others
  int leave = 0;
  for (size_t i = 0; i < fine.values.size(); ++i) {
    const PlacedValue& value = fine.values[i];
    const int from = c.vertex[static_cast<size_t>(value.producer)];
    std::set<int> to;
    for (int r : value.readers) to.insert(c.vertex[static_cast<size_t>(r)]);
    for (int v : to) ASSERT_LE(from, v);
    to.erase(from);
    ASSERT_EQ(c.value[i] >= 0, !to.empty());
    if (to.empty()) continue;
    leave += value.moves();
    const PlacedValue& coarse = c.problem.values[static_cast<size_t>(c.value[i])];
    int64_t& sum = bytes[static_cast<size_t>(c.value[i])];
    if (value.moves()) sum = std::max<int64_t>(sum, 0) + value.bytes;
    ASSERT_EQ(coarse.producer, from);
    ASSERT_EQ(coarse.readers, std::vector<int>(to.begin(), to.end()));
    (join || value.moves() ? routes : orders).emplace(from, coarse.readers);
  }
  for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], c.problem.values[i].bytes);
  ASSERT_EQ(bytes.size(), join ? routes.size() : static_cast<size_t>(leave) + orders.size());
}

// A random placement and order of the coarse problem are schedules of the fine one, which send the same.
void check_expansion(Rng& rng, const PlacementProblem& fine, const Coarse& c, bool join) {
  const std::vector<int> device = random_placement(rng, c.problem);
  const PlacedSchedule s = list_schedule(c.problem, device, by_rank(critical_ranks(c.problem, device)), false);
  ASSERT_EQ(schedule_error(c.problem, s), "");
  const std::vector<int> fine_device = expanded_placement(c, s.device), order = expanded_order(c, order_of(s));
  const auto sent = [](const PlacementProblem& p, const PlacedSchedule& x) {
    int64_t bytes = 0;
    for (const PlacedTransfer& t : x.transfers) bytes += p.values[static_cast<size_t>(t.value)].bytes;
    return bytes;
  };
  for (const PlacedSchedule& x :
       {list_schedule(fine, fine_device, order, false), first_come(fine, fine_device, by_rank(order))}) {
    ASSERT_EQ(schedule_error(fine, x), "");
    ASSERT_EQ(sent(fine, x), sent(c.problem, s));
    ASSERT_TRUE(join || x.transfers.size() == s.transfers.size());
  }
}

// A schedule of the vertices is one of the operations, which hold no more at their fullest.
void check_memory(Rng& rng, const PlacementProblem& fine, const Coarse& c) {
  const std::vector<int> device = random_placement(rng, c.problem);
  const PlacedSchedule s = by_tails(c.problem, device);
  PlacedSchedule of_ops{expanded_placement(c, device), std::vector<int64_t>(fine.ops.size()), {}, s.end};
  std::vector<int64_t> next = s.start;
  for (size_t o = 0; o < fine.ops.size(); ++o) {
    const auto v = static_cast<size_t>(c.vertex[o]);
    of_ops.start[o] = next[v];
    next[v] += fine.ops[o].ns[static_cast<size_t>(device[v])];
  }
  for (size_t i = 0; i < fine.values.size(); ++i)
    for (const PlacedTransfer& t : s.transfers)
      if (t.value == c.value[i]) of_ops.transfers.push_back({static_cast<int>(i), t.to, t.start});
  ASSERT_EQ(schedule_error(fine, of_ops), "");
  const std::vector<int64_t> peaks = PlacedMemory(fine).peaks(of_ops), coarse = PlacedMemory(c.problem).peaks(s);
  for (size_t d = 0; d < peaks.size(); ++d) ASSERT_LE(peaks[d], coarse[d]);
}

// The device of each vertex's operations.
std::vector<int> coarse_placement(const Coarse& coarse, const std::vector<int>& placement) {
  std::vector<int> device(coarse.problem.ops.size(), -1);
  for (size_t o = 0; o < placement.size(); ++o) {
    int& d = device[static_cast<size_t>(coarse.vertex[o])];
    ensure(d < 0 || d == placement[o], "vertex '{}' has operations on two devices",
           coarse.problem.ops[static_cast<size_t>(coarse.vertex[o])].name);
    d = placement[o];
  }
  return device;
}

void random_problems(uint64_t seed, int problems) {
  SCOPED_TRACE(seed);
  Rng rng(seed);
  for (int round = 0; round < problems && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    const RandomShape shape{.ops = 2 + static_cast<int>(rng.below(12)),
                            .devices = 2 + static_cast<int>(rng.below(2)),
                            .host = rng.below(3) == 0,
                            .most_reads = 1 + static_cast<int>(rng.below(3)),
                            .groups = static_cast<int>(rng.below(3)),
                            .results = rng.below(2) == 0};
    const PlacementProblem fine = random_problem(rng, shape);
    CoarsenOptions options = kNoCaps;
    if (rng.below(2) == 0) options = {.time_share = 0.1 + rng.uniform(), .memory_share = 0.1 + rng.uniform()};
    options.join_values = rng.below(2) == 0;
    options.keep_parallel = rng.below(2) == 0;
    options.edges_alone = !options.keep_parallel && rng.below(2) == 0;
    if (rng.below(3) == 0) options.placement = random_placement(rng, fine);
    const int target = 1 + static_cast<int>(rng.below(static_cast<uint64_t>(shape.ops)));
    const Coarse c = coarsen(fine, target, options);
    check_vertices(fine, c, options);
    check_values(fine, c, options.join_values);
    ASSERT_GE(c.problem.ops.size(), static_cast<size_t>(target));
    ASSERT_TRUE(options.placement.empty() ||
                expanded_placement(c, coarse_placement(c, options.placement)) == options.placement);
    const bool free = !options.edges_alone && !shape.host && options.placement.empty() && options.time_share >= 1 &&
                      options.memory_share >= 1;
    ASSERT_TRUE(!free || c.problem.ops.size() == static_cast<size_t>(target));
    check_expansion(rng, fine, c, options.join_values);
    if (!options.join_values) check_memory(rng, fine, c);
  }
}

TEST(Coarsen, RandomProblems) { random_problems(42, 2000); }

TEST(ManyCoarsen, RandomProblems) { random_problems(43, 100'000); }

void check_levels(const PlacementProblem& fine, const CoarsenOptions& options) {
  Rng rng(44);
  const std::vector<int> targets = {10'000, 4000, 1000, 200, 50, 50};
  const std::vector<Coarse> levels = coarsen_levels(fine, targets, options);
  ASSERT_EQ(levels.size(), 4U);
  for (size_t l = 0; l < levels.size(); ++l) {
    SCOPED_TRACE(l);
    EXPECT_EQ(levels[l].problem.ops.size(), static_cast<size_t>(targets[l + 1]));
    check_vertices(fine, levels[l], options);
    check_values(fine, levels[l], false);
    check_expansion(rng, fine, levels[l], false);
    const size_t before = l == 0 ? fine.ops.size() : levels[l - 1].problem.ops.size();
    ASSERT_EQ(levels[l].inside.size(), before);
    for (size_t o = 0; o < fine.ops.size(); ++o) {
      const int finer = l == 0 ? static_cast<int>(o) : levels[l - 1].vertex[o];
      ASSERT_EQ(levels[l].inside[static_cast<size_t>(finer)], levels[l].vertex[o]);
    }
  }
}

TEST(Coarsen, LevelsAreNested) {
  const PlacementProblem fine = unrolled_problem(2, 100, 1);
  validate(fine);
  check_levels(fine, {});
  check_levels(fine, {.keep_parallel = true});
}

int64_t longest_path(const PlacementProblem& p) {
  std::vector<int64_t> end(p.ops.size(), 0);
  for (size_t o = 0; o < p.ops.size(); ++o) {
    for (int v : p.ops[o].reads)
      end[o] = std::max(end[o], end[static_cast<size_t>(p.values[static_cast<size_t>(v)].producer)]);
    end[o] += *std::max_element(p.ops[o].ns.begin(), p.ops[o].ns.end());
  }
  return *std::max_element(end.begin(), end.end());
}

// As printed: without an edge between, nothing merges, so vertices of one height stay apart. Connected vertices become
// one, however long it is (Corollary 3.6), if no cap is in the way.
TEST(Coarsen, OfEdgesAlone) {
  PlacementProblem p = figure6();
  p.ops[2].reads = {0}, p.ops[3].reads = {1};  // a-c and b-d
  p.values = {{100, 0, {2}}, {100, 1, {3}}};
  validate(p);
  CoarsenOptions options = kNoCaps;
  EXPECT_EQ(coarsen(p, 1, options).problem.ops.size(), 1U);
  options.edges_alone = true;
  EXPECT_EQ(names(coarsen(p, 1, options).problem), (std::vector<std::string>{"a+1", "b+1"}));
  EXPECT_EQ(coarsen(figure6(), 1, options).problem.ops.size(), 1U);
  // Five read one value: a batch takes one of a vertex's many neighbours, and batches follow until none has any.
  p.ops.assign(6, {"a", {1, 1}, 10, -1, {0}});
  p.ops[0].reads = {};
  p.values = {{100, 0, {1, 2, 3, 4, 5}}};
  validate(p);
  EXPECT_EQ(coarsen(p, 1, options).problem.ops.size(), 1U);
  options.time_share = 0.5;
  EXPECT_EQ(coarsen(p, 1, options).problem.ops.size(), 4U);  // three of the six in one
}

// Batches of edges alone put nearly all on one path.
TEST(Coarsen, KeepsWhatIsParallel) {
  const PlacementProblem fine = unrolled_problem(2, 100, 1);
  const PlacementProblem plain = coarsen(fine, 200, {}).problem;
  const PlacementProblem parallel = coarsen(fine, 200, {.keep_parallel = true}).problem;
  EXPECT_EQ(parallel.ops.size(), 200U);
  EXPECT_LT(longest_path(parallel), 2 * longest_path(fine));
  EXPECT_GT(longest_path(plain), 4 * longest_path(fine));
  CoarsenOptions printed = kNoCaps;
  printed.edges_alone = true;
  const PlacementProblem edges = coarsen(fine, 200, printed).problem;
  EXPECT_EQ(edges.ops.size(), 200U);
  EXPECT_GT(longest_path(edges), 4 * longest_path(fine));
}

}  // namespace
}  // namespace partita

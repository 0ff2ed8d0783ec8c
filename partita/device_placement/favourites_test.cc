// Tests favourite children by hand and against every choice of them, and schedules that keep devices for them.
#include "partita/device_placement/favourites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "partita/base/error.h"
#include "partita/device_placement/baechi.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

constexpr double kSeconds = 20;

bool has_cbc() { return std::system("command -v cbc > /dev/null 2>&1") == 0; }

PlacementProblem two_devices(int64_t latency_ns) {
  PlacementProblem p;
  p.devices = {{"gpu0", 1000}, {"gpu1", 1000}};
  p.queues = 2;
  const auto latency = static_cast<double>(latency_ns);
  p.routes = {{{}, {0, latency, 0, {}}}, {{1, latency, 0, {}}, {}}};
  return p;
}

// Adds an operation; each result is one value.
int add(PlacementProblem& p, const std::string& name, int64_t ns, const std::vector<int>& reads) {
  const int op = static_cast<int>(p.ops.size());
  p.ops.push_back({name, {ns, ns}, 10, -1, reads});
  p.values.push_back({8, op, {}});
  for (int v : reads) p.values[static_cast<size_t>(v)].readers.push_back(op);
  return op;
}

// The example of favourites.h.
TEST(FavouriteChildren, TheExample) {
  if (!has_cbc()) GTEST_SKIP() << "there is no program 'cbc'";
  PlacementProblem p = two_devices(3);
  const int a = add(p, "a", 2, {}), b = add(p, "b", 6, {a});
  add(p, "c", 2, {a});
  validate(p);
  const FavouriteChildren found = favourite_children(p, kSeconds, {});
  EXPECT_EQ(found.child, (std::vector<int>{b, -1, -1}));
  EXPECT_NEAR(found.relaxed_ns, 8, 1e-4);
  p.ops[1].ns = {2, -1};  // and the one bound to gpu1 is paid
  p.ops[0].ns = {-1, 2};
  EXPECT_EQ(favourite_children(p, kSeconds, {}).child, (std::vector<int>{2, -1, -1}));
  p.ops[0].ns = {2, 2}, p.ops[1].ns = {6, 6};
  p.ops[0].group = p.ops[2].group = 0;  // c is free, b is not paid
  EXPECT_NEAR(favourite_children(p, kSeconds, {}).relaxed_ns, 8, 1e-4);
}

// i's favourite f waits for g's result, which comes from the other device at 5. m-ETF begins k meanwhile, m-SCT keeps
// the device: k begins when i's result could be anywhere.
TEST(FavouriteChildren, ADeviceIsKeptForThem) {
  PlacementProblem p = two_devices(3);
  const int i = add(p, "i", 2, {}), g = add(p, "g", 2, {});
  const int f = add(p, "f", 20, {i, g}), k = add(p, "k", 10, {i});
  validate(p);
  std::string why;
  const auto etf = earliest_task_first(p, why);
  EXPECT_EQ(etf->start[static_cast<size_t>(k)], 2);
  EXPECT_EQ(etf->start[static_cast<size_t>(f)], 5);
  EXPECT_EQ(etf->end, 25);
  const auto sct = favourites_first(p, {f, -1, -1, -1}, why);
  EXPECT_EQ(schedule_error(p, *sct), "");
  EXPECT_EQ(sct->device[static_cast<size_t>(f)], sct->device[static_cast<size_t>(i)]);
  EXPECT_EQ(sct->start[static_cast<size_t>(f)], 5);
  EXPECT_NE(sct->device[static_cast<size_t>(k)], sct->device[static_cast<size_t>(i)]);
  EXPECT_EQ(sct->start[static_cast<size_t>(k)], 5);
}

// By parent and child: the cost if they are apart, and whether it can be spared.
struct Costs {
  std::map<std::pair<int, int>, int64_t> cost;
  std::map<std::pair<int, int>, bool> spared;
};

// All devices but a host, which is the last, are equal, and so are their routes. A host's operations run nowhere else.
Costs costs_of(const PlacementProblem& p) {
  Costs costs;
  for (const PlacedValue& v : p.values)
    for (int r : v.readers) {
      const std::pair<int, int> edge{v.producer, r};
      const PlacedOp &from = p.ops[static_cast<size_t>(v.producer)], &to = p.ops[static_cast<size_t>(r)];
      const bool both_on_host = from.ns[0] < 0 && to.ns[0] < 0;
      const bool apart = (from.ns[0] < 0) != (to.ns[0] < 0);
      const bool free = !v.moves() || both_on_host || (from.group >= 0 && from.group == to.group);
      costs.cost[edge] += free ? 0 : p.transfer_ns(p.routes[0][1], v.bytes);
      costs.spared[edge] = costs.spared[edge] || (!free && !apart);
    }
  return costs;
}

int64_t longest(const PlacementProblem& p, const Costs& costs, const std::vector<int>& child) {
  std::vector<int64_t> end(p.ops.size(), 0);
  for (size_t o = 0; o < p.ops.size(); ++o) {
    for (const auto& [edge, cost] : costs.cost)
      if (edge.second == static_cast<int>(o)) {
        const auto from = static_cast<size_t>(edge.first);
        end[o] = std::max(end[o], end[from] + (child[from] == edge.second ? 0 : cost));
      }
    end[o] += *std::max_element(p.ops[o].ns.begin(), p.ops[o].ns.end());
  }
  return *std::max_element(end.begin(), end.end());
}

// The shortest over every choice.
int64_t shortest(const PlacementProblem& p, const Costs& costs, size_t op, std::vector<int>& child) {
  if (op == p.ops.size()) return longest(p, costs, child);
  child[op] = -1;
  int64_t least = shortest(p, costs, op + 1, child);
  for (const auto& [edge, spared] : costs.spared) {
    if (edge.first != static_cast<int>(op) || !spared) continue;
    const auto before = child.begin() + static_cast<std::ptrdiff_t>(op);
    if (std::find(child.begin(), before, edge.second) != before) continue;
    child[op] = edge.second;
    least = std::min(least, shortest(p, costs, op + 1, child));
  }
  child[op] = -1;
  return least;
}

// No operation is the favourite of two. The relaxed end is no more than that of the best choice. The rounded one is a
// choice, at most ten times as long: each edge paid whole had a tenth of it paid at least. Schedules are valid.
TEST(FavouriteChildren, RandomProblems) {
  if (!has_cbc()) GTEST_SKIP() << "there is no program 'cbc'";
  constexpr uint64_t kSeed = 57;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int favourites = 0, best = 0, otherwise = 0;
  for (int round = 0; round < 60; ++round) {
    PlacementProblem p = random_problem(rng, {.ops = 3 + static_cast<int>(rng.below(6)),
                                              .devices = 2 + static_cast<int>(rng.below(3)),
                                              .host = round % 3 == 2,
                                              .groups = static_cast<int>(rng.below(3))});
    for (auto& from : p.routes)
      for (Route& route : from) route.latency_ns = 3;
    if (p.devices.size() == 2 && round % 3 == 2) continue;  // a host and one device: nothing chooses
    const FavouriteChildren found = favourite_children(p, kSeconds, {});
    const Costs costs = costs_of(p);
    std::vector<int> parents(p.ops.size(), 0), none(p.ops.size(), -1);
    for (size_t o = 0; o < p.ops.size(); ++o) {
      if (found.child[o] < 0) continue;
      ++favourites;
      ASSERT_EQ(++parents[static_cast<size_t>(found.child[o])], 1) << round;
      ASSERT_TRUE(costs.spared.at({static_cast<int>(o), found.child[o]})) << round;
    }
    const auto least = static_cast<double>(shortest(p, costs, 0, none));
    const auto rounded = static_cast<double>(longest(p, costs, found.child));
    ASSERT_LE(found.relaxed_ns, least + 1e-3) << round;
    ASSERT_LE(least, rounded) << round;
    ASSERT_LE(rounded, 10 * found.relaxed_ns + 1e-3) << round;
    best += rounded == least;
    std::string why;
    const auto schedule = favourites_first(p, found.child, why);
    ASSERT_TRUE(schedule) << round << ": " << why;
    ASSERT_EQ(schedule_error(p, *schedule), "") << round;
    otherwise += schedule->start != earliest_task_first(p, why)->start;
  }
  std::printf("%d favourites, %d roundings are a best choice, %d schedules are not m-ETF's\n", favourites, best,
              otherwise);
  EXPECT_GT(favourites, 50);
  EXPECT_GT(otherwise, 5);
}

}  // namespace
}  // namespace partita

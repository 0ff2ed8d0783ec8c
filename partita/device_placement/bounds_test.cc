// Tests bounds by hand and against the shortest schedules of small problems.
#include "partita/device_placement/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "partita/device_placement/testing/brute_force.h"
#include "partita/device_placement/testing/chain.h"
#include "partita/device_placement/testing/random_problem.h"
#include "partita/device_placement/windows.h"

namespace partita {
namespace {

TEST(Bounds, LoadAndPath) {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 1;
  p.routes = {{{}, {0, 5, 0, {}}}, {{}, {}}};
  for (int o = 0; o < 4; ++o) p.ops.push_back({"o" + std::to_string(o), {o < 3 ? 2 : 4, o < 3 ? 2 : 4}, 0, -1, {}});
  p.values = {{1, 0, {1}}, {1, 1, {2}}};
  p.ops[1].reads = {0}, p.ops[2].reads = {1};
  validate(p);
  const PlacementBounds bounds = placement_bounds(p);
  EXPECT_EQ(bounds.load_ns, 5);
  EXPECT_EQ(bounds.path_ns, 6);
}

// a and b (3 ns each), c (1 ns) reads both.
PlacementProblem two_and_one() {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 2;
  p.routes = {{{}, {0, 2, 0, {}}}, {{1, 2, 0, {}}, {}}};
  p.ops = {{"a", {3, 3}, 10, -1, {}}, {"b", {3, 3}, 10, -1, {}}, {"c", {1, 1}, 10, -1, {0, 1}}};
  p.values = {{1, 0, {2}}, {1, 1, {2}}};
  validate(p);
  return p;
}

TEST(Bounds, HeadsAndLinks) {
  PlacementProblem p = two_and_one();
  PlacementBounds bounds = placement_bounds(p);
  EXPECT_EQ(bounds.path_ns, 4);
  EXPECT_EQ(bounds.heads_ns, 6);
  p.ops[0].ns = p.ops[1].ns = {3, -1};  // and c elsewhere: at 3 and 6, or at 3 and 5, the second value has come at 8
  p.ops[2].ns = {-1, 1};
  bounds = placement_bounds(p);
  EXPECT_EQ(bounds.path_ns, 6);
  EXPECT_EQ(bounds.work_ns, 9);   // 6 ns of work, 2 of the route, 1 of c
  EXPECT_EQ(bounds.links_ns, 8);  // from 3 two values one after another, and c
  EXPECT_EQ(BruteForce(p, true).best(), 9);
}

TEST(Bounds, WhatIsTogetherHasToFit) {
  PlacementProblem p = chain_problem(40);
  EXPECT_EQ(placement_bounds(p).cut_ns, 8);
  for (PlacedDevice& d : p.devices) d.memory_bytes = 20;
  const PlacementBounds bounds = placement_bounds(p);
  EXPECT_EQ(bounds.path_ns, 8);
  EXPECT_EQ(bounds.cut_ns, 13);
  EXPECT_EQ(BruteForce(p, true).best(), 13);
}

// On one device 2 to 5, then 3 ns with a tail of 4: the one at 6 waits for nothing.
TEST(Bounds, SharedOut) {
  EXPECT_EQ(shared_out_ns({}, 2), 0);
  EXPECT_EQ(shared_out_ns({{2, 3, 0}, {0, 3, 4}, {6, 1, 0}}, 1), 7);
  EXPECT_EQ(shared_out_ns({{2, 3, 0}, {2, 3, 4}, {6, 1, 0}}, 1), 9);
  EXPECT_EQ(shared_out_ns({{2, 3, 4}, {2, 4, 4}}, 2), 10);
}

// Compares with every set of items, thresholds or not.
TEST(Bounds, SharedOutIsTheMostOfAnySet) {
  constexpr uint64_t kSeed = 63;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 500; ++round) {
    std::vector<WindowItem> items(1 + rng.below(9));
    for (WindowItem& item : items) item = {rng.between(0, 12), rng.between(1, 6), rng.between(0, 12)};
    const int machines = 1 + static_cast<int>(rng.below(3));
    int64_t most = 0;
    for (uint64_t set = 1; set < (uint64_t{1} << items.size()); ++set) {
      int64_t head = INT64_MAX, work = 0, tail = INT64_MAX;
      for (size_t i = 0; i < items.size(); ++i) {
        if (!((set >> i) & 1)) continue;
        head = std::min(head, items[i].head);
        work += items[i].ns;
        tail = std::min(tail, items[i].tail);
      }
      most = std::max(most, head + (work + machines - 1) / machines + tail);
    }
    ASSERT_EQ(shared_out_ns(items, machines), most) << round;
  }
}

// No bound is above the shortest schedule, and none is below the bounds that it contains.
TEST(Bounds, RandomProblems) {
  constexpr uint64_t kSeed = 61;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int better = 0, met = 0, none = 0;
  std::array<int, 4> most{};
  for (int round = 0; round < 600; ++round) {
    const int devices = 2 + static_cast<int>(rng.below(3));
    PlacementProblem p = random_problem(rng, {.ops = 2 + static_cast<int>(rng.below(devices == 2 ? 7 : 5)),
                                              .devices = devices,
                                              .host = rng.below(2) == 0,
                                              .groups = static_cast<int>(rng.below(3))});
    draw_memory_and_ways(rng, p);
    if (rng.below(4) == 0)
      for (PlacedOp& op : p.ops)
        for (int64_t& ns : op.ns)
          if (ns > 0) ns += static_cast<int64_t>(rng.below(5));
    const PlacementBounds bounds = placement_bounds(p);
    const int64_t best = BruteForce(p, true).best();
    ASSERT_LE(bounds.load_ns, best) << round;
    ASSERT_LE(bounds.path_ns, best) << round;
    ASSERT_LE(bounds.heads_ns, best) << round;
    ASSERT_LE(bounds.work_ns, best) << round;
    ASSERT_LE(bounds.links_ns, best) << round;
    ASSERT_LE(bounds.cut_ns, best) << round;
    ASSERT_GE(bounds.work_ns, bounds.load_ns) << round;
    ASSERT_GE(bounds.heads_ns, bounds.path_ns) << round;
    ASSERT_GE(bounds.cut_ns, std::max({bounds.heads_ns, bounds.work_ns, bounds.links_ns})) << round;
    if (best == INT64_MAX) {
      ++none;
      continue;
    }
    const int64_t before = std::max(bounds.load_ns, bounds.path_ns);
    better += bounds.ns() > before;
    met += bounds.ns() == best;
    most[0] += bounds.heads_ns > before, most[1] += bounds.work_ns > before, most[2] += bounds.links_ns > before;
    most[3] += bounds.cut_ns > std::max({before, bounds.heads_ns, bounds.work_ns, bounds.links_ns});
  }
  std::printf(
      "of 600, %d without a placement; %d bounds above load and path (%d heads, %d work, %d links), %d by the cut "
      "alone, %d are the shortest\n",
      none, better, most[0], most[1], most[2], most[3], met);
  EXPECT_GT(better, 150);
}

}  // namespace
}  // namespace partita

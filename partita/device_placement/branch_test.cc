// Tests branch and bound against the shortest schedule over all placements and orders.
#include "partita/device_placement/branch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/device_placement/decode.h"
#include "partita/device_placement/sequence.h"
#include "partita/device_placement/solve_program.h"
#include "partita/device_placement/testing/brute_force.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

// The example of sequence.h.
TEST(Sequence, TheExample) {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 2;
  p.routes = {{{}, {0, 1, 0, {}}}, {{1, 1, 0, {}}, {}}};
  p.ops = {{"a", {4, 4}, 0, -1, {}}, {"b", {2, 2}, 0, -1, {}}, {"c", {5, 5}, 0, -1, {}}, {"d", {1, 1}, 0, -1, {0, 1}}};
  p.values = {{1, 1, {3}}, {1, 2, {3}}};
  validate(p);
  const std::vector<int> device = {0, 0, 1, 1};
  const SequenceResult found = find_sequence(p, device, 7, 100, {});
  ASSERT_TRUE(found.schedule);
  EXPECT_EQ(schedule_error(p, *found.schedule), "");
  EXPECT_EQ(found.schedule->end, 6);
  EXPECT_EQ(found.schedule->start[1], 0);
  const SequenceResult none = find_sequence(p, device, 5, 100, {});
  EXPECT_FALSE(none.schedule);
  EXPECT_TRUE(none.complete);
}

// Finds the shortest schedule of each placement by bisecting the limit, and compares with every order.
TEST(Sequence, RandomProblems) {
  constexpr uint64_t kSeed = 64;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int shorter = 0;
  for (int round = 0; round < 200; ++round) {
    PlacementProblem p =
        random_problem(rng, {.ops = 3 + static_cast<int>(rng.below(4)), .devices = 2 + static_cast<int>(rng.below(2))});
    const std::vector<int> device = random_placement(rng, p);
    const PlacedSchedule start = by_tails(p, device);
    for (size_t o = 0; o < p.ops.size(); ++o)
      for (size_t d = 0; d < p.devices.size(); ++d)
        if (static_cast<int>(d) != device[o]) p.ops[o].ns[d] = -1;
    const int64_t best = BruteForce(p, true).best();
    const SequenceResult found = find_sequence(p, device, best, 100'000, {});
    ASSERT_TRUE(found.schedule) << round;
    ASSERT_EQ(schedule_error(p, *found.schedule), "") << round;
    ASSERT_EQ(found.schedule->end, best) << round;
    const SequenceResult none = find_sequence(p, device, best - 1, 100'000, {});
    ASSERT_TRUE(none.complete && !none.schedule) << round;
    shorter += best < start.end;
  }
  EXPECT_GT(shorter, 5);
}

// The example of branch.h.
TEST(Branch, TheExample) {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 2;
  p.routes = {{{}, {0, 2, 0, {}}}, {{1, 2, 0, {}}, {}}};
  p.ops = {{"a", {3, 3}, 0, -1, {}}, {"b", {4, 4}, 0, -1, {0}}, {"c", {5, 5}, 0, -1, {0}}};
  p.values = {{1, 0, {1, 2}}};
  validate(p);
  const PlacedSchedule start = list_schedule(p, {0, 0, 0}, {0, 1, 2}, true);
  EXPECT_EQ(start.end, 12);
  const BranchResult result = branch_and_bound(p, start, {}, {});
  EXPECT_EQ(result.schedule.end, 9);
  EXPECT_TRUE(result.proved());
  EXPECT_EQ(result.schedule.device[0], result.schedule.device[2]);
  const BranchResult stopped = branch_and_bound(p, start, {.nodes = 0}, {});
  EXPECT_EQ(stopped.schedule.start, start.start);
  EXPECT_LE(stopped.bound_ns, 9);
}

// Proved, and as short as the best over every placement and order.
TEST(Branch, RandomProblems) {
  constexpr uint64_t kSeed = 62;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int better = 0, solved = 0;
  int64_t nodes = 0, order_nodes = 0;
  for (int round = 0; round < 400; ++round) {
    const int devices = 2 + static_cast<int>(rng.below(3));
    PlacementProblem p = random_problem(rng, {.ops = 3 + static_cast<int>(rng.below(devices == 2 ? 7 : 5)),
                                              .devices = devices,
                                              .host = rng.below(2) == 0,
                                              .most_reads = 1 + static_cast<int>(rng.below(3)),
                                              .most_ns = rng.below(2) == 0 ? 9 : 40,
                                              .groups = static_cast<int>(rng.below(3))});
    draw_memory_and_ways(rng, p);
    std::string why;
    const auto start = best_list_schedule(p, {}, why);
    if (!start) continue;
    const BranchResult result = branch_and_bound(p, *start, {}, {});
    ASSERT_EQ(schedule_error(p, result.schedule), "") << round;
    ASSERT_TRUE(result.proved()) << round;
    ASSERT_EQ(result.schedule.end, BruteForce(p, true).best()) << round;
    ++solved;
    better += result.schedule.end < start->end;
    nodes += result.nodes, order_nodes += result.order_nodes;
  }
  std::printf("%d solved, %d shorter than their start; %lld nodes, and %lld of orders\n", solved, better,
              static_cast<long long>(nodes), static_cast<long long>(order_nodes));
  EXPECT_GT(solved, 250);
  EXPECT_GT(better, 30);
}

}  // namespace
}  // namespace partita

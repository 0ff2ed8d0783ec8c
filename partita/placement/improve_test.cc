// Changes that make schedules shorter, and what no schedule can be below.
#include "partita/placement/improve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "partita/placement/bounds.h"
#include "partita/placement/decode.h"
#include "partita/placement/testing/chain.h"
#include "partita/placement/testing/random_problem.h"

namespace partita {
namespace {

// The example of improve.h.
TEST(Improve, AChainComesToOneDevice) {
  PlacementProblem p = chain(100);
  Rng rng(1);
  const PlacedSchedule start = list_schedule(p, {0, 1, 0, 1}, {0, 1, 2, 3}, true);
  EXPECT_EQ(start.end, 23);
  EXPECT_EQ(improved(p, start, {.changes = 300}, rng, {}).end, 8);
  p.devices[0].memory_bytes = p.devices[1].memory_bytes = 20;  // two on each
  EXPECT_EQ(improved(p, start, {.changes = 300}, rng, {}).end, 13);
  EXPECT_EQ(improved(p, start, {.changes = 300, .enough_ns = 23}, rng, {}).end, 23);
}

// What comes back is a schedule, no longer than the start, no shorter than the bounds; of the best placements in all
// orders of small problems it finds nearly all.
TEST(Improve, RandomProblems) {
  constexpr uint64_t kSeed = 40;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int shorter = 0, at_bound = 0;
  for (int round = 0; round < 200; ++round) {
    PlacementProblem p = random_problem(rng, {.ops = 2 + static_cast<int>(rng.below(25)),
                                              .devices = 2 + static_cast<int>(rng.below(3)),
                                              .host = rng.below(2) == 0,
                                              .groups = static_cast<int>(rng.below(3))});
    const std::vector<int> device = random_placement(rng, p);
    std::vector<int64_t> bytes(p.devices.size(), 0);
    for (size_t o = 0; o < p.ops.size(); ++o) bytes[static_cast<size_t>(device[o])] += p.ops[o].bytes;
    for (size_t d = 0; d < bytes.size(); ++d) p.devices[d].memory_bytes = bytes[d] + 5;
    const PlacedSchedule start = list_schedule(p, device, by_rank(critical_ranks(p, device)), true);
    const PlacedSchedule s = improved(p, start, {.changes = 500}, rng, {});
    ASSERT_EQ(why_not(p, s), "") << round;
    ASSERT_LE(s.end, start.end) << round;
    ASSERT_GE(s.end, placement_bounds(p).ns()) << round;
    shorter += s.end < start.end;
    at_bound += s.end == placement_bounds(p).ns();
  }
  std::printf("of 200, %d shorter than their start, %d at the bound\n", shorter, at_bound);
  EXPECT_GT(shorter, 100);
  EXPECT_GT(at_bound, 10);
}

}  // namespace
}  // namespace partita

// Tests that moves make schedules shorter, and never below the bounds.
#include "partita/device_placement/improve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "partita/device_placement/bounds.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/memory.h"
#include "partita/device_placement/testing/chain.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

// The example of improve.h.
TEST(Improve, AChainComesToOneDevice) {
  PlacementProblem p = chain_problem(100);
  Rng rng(1);
  const PlacedSchedule start = list_schedule(p, {0, 1, 0, 1}, {0, 1, 2, 3}, true);
  EXPECT_EQ(start.end, 23);
  EXPECT_EQ(improve_schedule(p, start, {.changes = 300}, rng, {}).end, 8);
  p.devices[0].memory_bytes = p.devices[1].memory_bytes = 20;  // two on each
  EXPECT_EQ(improve_schedule(p, start, {.changes = 300}, rng, {}).end, 13);
  EXPECT_EQ(improve_schedule(p, start, {.changes = 300, .enough_ns = 23}, rng, {}).end, 23);
}

// The result is valid, no longer than the start, no shorter than the bounds. It finds nearly all best placements in all
// orders of small problems.
TEST(Improve, RandomProblems) {
  constexpr uint64_t kSeed = 40;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int shorter = 0, at_bound = 0;
  for (int round = 0; round < 200; ++round) {
    PlacementProblem p = random_problem(rng, drawn_shape(rng, 2, 25));
    const std::vector<int> device = random_placement(rng, p);
    std::vector<int64_t> bytes(p.devices.size(), 0);
    for (size_t o = 0; o < p.ops.size(); ++o) bytes[static_cast<size_t>(device[o])] += p.ops[o].bytes;
    for (size_t d = 0; d < bytes.size(); ++d) p.devices[d].memory_bytes = bytes[d] + 5;
    const PlacedSchedule start = by_tails(p, device);
    const PlacedSchedule s = improve_schedule(p, start, {.changes = 500}, rng, {});
    ASSERT_EQ(schedule_error(p, s), "") << round;
    ASSERT_LE(s.end, start.end) << round;
    ASSERT_GE(s.end, placement_bounds(p).ns()) << round;
    shorter += s.end < start.end;
    at_bound += s.end == placement_bounds(p).ns();
  }
  std::printf("of 200, %d shorter than their start, %d at the bound\n", shorter, at_bound);
  EXPECT_GT(shorter, 100);
  EXPECT_GT(at_bound, 10);
}

// From starts with a memory deficit: the result has a smaller one, mostly none if some placement fits in some order.
TEST(Improve, LessMemory) {
  constexpr uint64_t kSeed = 41;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int over = 0, fits = 0;
  for (int round = 0; round < 200; ++round) {
    PlacementProblem p = random_problem(rng, {.ops = 4 + static_cast<int>(rng.below(20)), .results = true});
    // The peak of one of some random schedules: so there is one that fits.
    std::vector<int64_t> least;
    for (int i = 0; i < 20; ++i) {
      const std::vector<int> device = random_placement(rng, p);
      const std::vector<int64_t> peaks = PlacedMemory(p).peaks(by_tails(p, device));
      if (least.empty() ||
          *std::max_element(peaks.begin(), peaks.end()) < *std::max_element(least.begin(), least.end()))
        least = peaks;
    }
    for (PlacedDevice& d : p.devices) d.memory_bytes = *std::max_element(least.begin(), least.end());
    const std::vector<int> device(p.ops.size(), 0);
    const PlacedSchedule start = by_tails(p, device);
    const int64_t lacked = PlacedMemory(p).over_bytes(start);
    if (lacked == 0) continue;
    ++over;
    const PlacedSchedule s = improve_schedule(p, start, {.changes = 1000}, rng, {});
    ASSERT_LE(PlacedMemory(p).over_bytes(s), lacked) << round;
    fits += schedule_error(p, s).empty();
  }
  std::printf("%d of %d starts that did not fit became schedules that do\n", fits, over);
  EXPECT_GT(over, 100);
  EXPECT_GT(fits, over * 9 / 10);
}

}  // namespace
}  // namespace partita

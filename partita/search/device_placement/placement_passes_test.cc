// Tests that passes shorten schedules within their limits.
#include "partita/search/device_placement/placement_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "partita/device_placement/decode.h"
#include "partita/device_placement/testing/random_problem.h"
#include "partita/device_placement/testing/unrolled_problem.h"

namespace partita {
namespace {

struct Found {
  PassReport report;
  PlacedSchedule schedule;
  bool fits = false;
};

Found passes(const PlacementProblem& p, const std::vector<int>& device, PassOptions options, const Watch& watch = {}) {
  BestSchedule best(p);
  options.starts = {best.offer(device, {}, "drawn")};
  Rng rng(5);
  Found found{improve_in_passes(p, options, rng, watch, best), {}};
  found.schedule = best.schedule();
  found.fits = best.fits();
  return found;
}

bool same(const PlacedSchedule& a, const PlacedSchedule& b) {
  return a.device == b.device && a.start == b.start && a.transfers == b.transfers;
}

// The first pass is the same with further ones behind it.
TEST(PlacementPasses, MoreAreNeverWorseAndTheSameSeedIsTheSame) {
  constexpr uint64_t kSeed = 44;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int shorter = 0;
  for (int round = 0; round < 2; ++round) {
    const PlacementProblem p = UnrolledProblem(2 + round, 3, rng.next()).take();
    const std::vector<int> device = random_placement(rng, p);
    const Found one = passes(p, device, {.further = 0}), four = passes(p, device, {.further = 3}),
                again = passes(p, device, {.further = 3});
    EXPECT_EQ(one.report.passes, 1);
    EXPECT_EQ(one.schedule.end, four.report.first_ns) << round;
    EXPECT_EQ(schedule_error(p, four.schedule), "") << round;
    EXPECT_TRUE(same(four.schedule, again.schedule)) << round;
    EXPECT_LE(four.schedule.end, one.schedule.end) << round;
    EXPECT_EQ(four.schedule.end<one.schedule.end, four.report.shorter> 0) << round;
    shorter += four.report.shorter > 0;
    std::printf("%zu ops: %lld ns, %lld after %d passes\n", p.ops.size(), static_cast<long long>(one.schedule.end),
                static_cast<long long>(four.schedule.end), four.report.passes);
  }
  EXPECT_GT(shorter, 0);
}

// Without a limit two passes in a row without a gain end them; with one they are repeated until it is used up.
TEST(PlacementPasses, UseATimeLimitAndKeepIt) {
  constexpr uint64_t kSeed = 45;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem p = random_problem(rng, {.ops = 40});
  const std::vector<int> device = random_placement(rng, p);
  const auto begin = Watch::Clock::now();
  const auto limit = std::chrono::milliseconds(1500);
  const Found found = passes(p, device, {}, {.deadline = begin + limit});
  const auto took = Watch::Clock::now() - begin;
  EXPECT_EQ(schedule_error(p, found.schedule), "");
  EXPECT_GE(took, limit);
  EXPECT_LT(took, limit + std::chrono::seconds(2));
  std::printf("%d passes\n", found.report.passes);
  EXPECT_GT(found.report.passes, 3);
  EXPECT_EQ(passes(p, device, {.enough_ns = found.schedule.end, .further = 3}).schedule.end, found.schedule.end);
}

TEST(PlacementPasses, UseChangesAndNoMore) {
  constexpr uint64_t kSeed = 46;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem p = random_problem(rng, {.ops = 40});
  const std::vector<int> device = random_placement(rng, p);
  EXPECT_EQ(passes(p, device, {.steps = 500}).report.passes, 1);
  EXPECT_EQ(passes(p, device, {.steps = most_changes(40)}).report.passes, 1);
  const int few = passes(p, device, {.steps = 2 * most_changes(40)}).report.passes,
            many = passes(p, device, {.steps = 4 * most_changes(40)}).report.passes;
  EXPECT_GT(few, 1);
  EXPECT_GT(many, few);
}

// A schedule that is enough, and a stopped watch, leave the best as it is.
TEST(PlacementPasses, EndEarly) {
  constexpr uint64_t kSeed = 47;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  const PlacementProblem p = random_problem(rng, {.ops = 60});
  const std::vector<int> device = random_placement(rng, p);
  const Found will_do = passes(p, device, {.enough_ns = INT64_MAX, .further = 3});
  EXPECT_EQ(will_do.report.passes, 1);
  const std::atomic<bool> stop = true;
  const Found stopped = passes(p, device, {}, {.stop = &stop});
  EXPECT_EQ(stopped.report.passes, 1);
  BestSchedule start(p);
  start.offer(device, {}, "drawn");
  EXPECT_EQ(stopped.schedule.end, start.schedule().end);
}

// If memory binds, some of the schedules found leave a sixteenth of it free.
TEST(PlacementPasses, SomeHaveLessMemory) {
  constexpr uint64_t kSeed = 48;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  PlacementProblem p = random_problem(rng, {.ops = 80});
  int64_t all = 0;
  for (const PlacedOp& op : p.ops) all += op.bytes;
  for (PlacedDevice& d : p.devices) d.memory_bytes = all * 55 / 100;
  const Found found = passes(p, random_placement(rng, p), {.further = 1});
  ASSERT_TRUE(found.fits);
  ASSERT_TRUE(fills_memory(p, found.schedule));
  PlacedMemory memory(p);
  const bool some = std::any_of(found.report.found.begin(), found.report.found.end(), [&](const PlacedSchedule& s) {
    const std::vector<int64_t> peaks = memory.peaks(s);
    return *std::max_element(peaks.begin(), peaks.end()) <= all * 55 / 100 * 15 / 16;
  });
  EXPECT_TRUE(some);
}

}  // namespace
}  // namespace partita

// Tests that double justification keeps the placement, and lengthens no schedule.
#include "partita/device_placement/justify.h"

#include <gtest/gtest.h>

#include <numeric>

#include "partita/device_placement/decode.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

// The example of justify.h.
TEST(Justify, TheExample) {
  PlacementProblem p;
  p.devices = {{"gpu0", 100}, {"gpu1", 100}};
  p.queues = 2;
  p.routes = {{{}, {0, 1, 0}}, {{1, 1, 0}, {}}};
  p.ops = {{"a", {3, 3}, 0, -1, {}}, {"b", {2, 2}, 0, -1, {}}, {"c", {4, 4}, 0, -1, {1}}};
  p.values = {{1, 0, {}}, {1, 1, {2}}, {1, 2, {}}};
  validate(p);
  const PlacedSchedule start = list_schedule(p, {0, 0, 1}, {0, 1, 2}, true);
  EXPECT_EQ(start.end, 10);
  EXPECT_EQ(by_latest_start(p, made_by(p), start.device, {0, 1, 2}), (std::vector<int>{1, 2, 0}));
  const PlacedSchedule justified_once = justify_schedule(p, start);
  EXPECT_EQ(schedule_error(p, justified_once), "");
  EXPECT_EQ(justified_once.end, 7);
}

TEST(Justify, RandomSchedulesAreNoLonger) {
  constexpr uint64_t kSeed = 43;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int shorter = 0;
  for (int round = 0; round < 300; ++round) {
    const PlacementProblem p = random_problem(rng, drawn_shape(rng, 1, 60));
    std::vector<int> order(p.ops.size());  // the framework's
    std::iota(order.begin(), order.end(), 0);
    const std::vector<int> device = random_placement(rng, p);
    const PlacedSchedule start = list_schedule(p, device, order, true), found = justify_schedule(p, start);
    ASSERT_EQ(schedule_error(p, found), "") << round;
    ASSERT_EQ(found.device, device) << round;
    ASSERT_LE(found.end, start.end) << round;
    shorter += found.end < start.end;
  }
  std::printf("of 300, %d shorter\n", shorter);
  EXPECT_GT(shorter, 50);
}

}  // namespace
}  // namespace partita

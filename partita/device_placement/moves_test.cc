// Tests that moves change the placement as they say, and are taken back whole.
#include "partita/device_placement/moves.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/device_placement/decode.h"
#include "partita/device_placement/list_decoder.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

int64_t most_work_ns(const PlacementProblem& p, const std::vector<int>& device) {
  std::vector<int64_t> ns(p.devices.size(), 0);
  for (size_t o = 0; o < p.ops.size(); ++o)
    ns[static_cast<size_t>(device[o])] += p.ops[o].ns[static_cast<size_t>(device[o])];
  return *std::max_element(ns.begin(), ns.end());
}

TEST(Moves, RandomChangesKeepTheRulesAndAreTakenBack) {
  constexpr uint64_t kSeed = 41;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int changed = 0;
  for (int round = 0; round < 100; ++round) {
    const PlacementProblem p = random_problem(rng, {.ops = 2 + static_cast<int>(rng.below(40)),
                                                    .devices = 2 + static_cast<int>(rng.below(3)),
                                                    .host = rng.below(2) == 0,
                                                    .groups = static_cast<int>(rng.below(4))});
    const std::vector<int> device = random_placement(rng, p);
    const PlacedSchedule start = by_tails(p, device);
    if (!schedule_error(p, start).empty()) continue;  // memory
    Moves moves(p, start);
    ListDecoder decoder(p, true);
    for (int i = 0; i < 50; ++i) {
      const std::vector<int> before = moves.device(), order = moves.order();
      if (!moves.change(rng)) {
        ASSERT_EQ(moves.device(), before);
        ASSERT_EQ(moves.order(), order);
        continue;
      }
      ++changed;
      ASSERT_EQ(moves.most_work_ns(), most_work_ns(p, moves.device()));
      const auto end = decoder.decode(moves.device(), moves.order());
      const PlacedSchedule schedule = decoder.schedule();
      ASSERT_EQ(schedule_error(p, schedule), "") << round;
      ASSERT_EQ(schedule.end, end);
      // A limit gives up longer schedules only.
      ASSERT_EQ(decoder.decode(moves.device(), moves.order(), *end), end);
      ASSERT_EQ(decoder.decode(moves.device(), moves.order(), *end - 1), std::nullopt);
      if (rng.below(2) == 0) {
        moves.keep(false);
        continue;
      }
      moves.take_back();
      ASSERT_EQ(moves.device(), before);
      ASSERT_EQ(moves.order(), order);
      ASSERT_EQ(moves.most_work_ns(), most_work_ns(p, before));
    }
  }
  std::printf("%d changes\n", changed);
  EXPECT_GT(changed, 1000);
}

}  // namespace
}  // namespace partita

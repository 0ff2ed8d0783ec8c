// Tests Baechi's rules by hand and on random problems.
#include "partita/device_placement/baechi.h"

#include <gtest/gtest.h>

#include "partita/device_placement/testing/chain.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

TEST(Baechi, TheExample) {
  std::string why;
  EXPECT_EQ(topological_placement(chain_problem(40), why),
            (std::vector<int>{0, 0, 0, 1}));  // 20 bytes and one operation more
  EXPECT_EQ(topological_placement(chain_problem(20), why), (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(earliest_task_first(chain_problem(40), why)->device, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(earliest_task_first(chain_problem(20), why)->device, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(topological_placement(chain_problem(10), why), std::nullopt);
  EXPECT_EQ(why, "'o2' needs 10 bytes, and no device has more left than 0: 10 bytes missing");
  EXPECT_EQ(earliest_task_first(chain_problem(15), why), std::nullopt);
}

TEST(Baechi, GroupsStayTogether) {
  PlacementProblem p = chain_problem(20);
  p.ops[0].group = p.ops[3].group = 4;
  std::string why;
  EXPECT_EQ(topological_placement(p, why), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(earliest_task_first(p, why)->device, (std::vector<int>{0, 1, 1, 0}));
}

// If all fits anywhere, both place all, and the checker accepts both placements.
TEST(Baechi, RandomProblems) {
  constexpr uint64_t kSeed = 39;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int tight = 0;
  for (int round = 0; round < 1000; ++round) {
    PlacementProblem p = random_problem(rng, {.ops = 1 + static_cast<int>(rng.below(25)),
                                              .devices = 2 + static_cast<int>(rng.below(3)),
                                              .host = rng.below(2) == 0,
                                              .groups = static_cast<int>(rng.below(4))});
    std::string why;
    const auto schedule = earliest_task_first(p, why);
    ASSERT_TRUE(schedule && topological_placement(p, why)) << round << ": " << why;
    ASSERT_EQ(schedule_error(p, *schedule), "") << round;
    int64_t all = 0;
    for (const PlacedOp& op : p.ops) all += op.bytes;
    for (PlacedDevice& d : p.devices) d.memory_bytes = all / 2 + 8;
    if (const auto other = earliest_task_first(p, why)) ASSERT_EQ(schedule_error(p, *other), "") << round;
    else ++tight;
    if (const auto device = topological_placement(p, why)) {
      std::vector<int64_t> bytes(p.devices.size(), 0);
      for (size_t o = 0; o < p.ops.size(); ++o) bytes[static_cast<size_t>((*device)[o])] += p.ops[o].bytes;
      for (size_t d = 0; d < bytes.size(); ++d) ASSERT_LE(bytes[d], p.devices[d].memory_bytes) << round;
    }
  }
  EXPECT_LT(tight, 500);
}

}  // namespace
}  // namespace partita

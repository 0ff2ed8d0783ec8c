// Tests schedules by hand and of random problems, with the independent checker and against all that exist.
#include "partita/device_placement/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "partita/device_placement/testing/fork.h"
#include "partita/device_placement/testing/random_problem.h"

namespace partita {
namespace {

// The example of problem.h.
PlacementProblem example() {
  PlacementProblem p = fork_problem(100, {0, 1, 0.01});
  p.ops = {{"a", {3, 3}, 10, -1, {}}, {"b", {4, 4}, 10, -1, {0}}, {"c", {5, 5}, 10, -1, {0}}};
  return p;
}

TEST(Placement, TheExample) {
  const PlacementProblem p = example();
  validate(p);
  EXPECT_EQ(first_come(p, {0, 0, 0}, {0, 1, 2}).end, 12);
  const PlacedSchedule s = first_come(p, {0, 0, 1}, {0, 1, 2});
  EXPECT_EQ(s.end, 10);
  EXPECT_EQ(s.start, (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(s.transfers, (std::vector<PlacedTransfer>{{0, 1, 3}}));
  EXPECT_EQ(schedule_error(p, s), "");
  EXPECT_EQ(tails(p, {0, 0, 1}), (std::vector<int64_t>{10, 4, 5}));
}

// The example of decode.h; there the first op sends nothing and takes no gap.
TEST(Placement, TheOrderDecidesWhatWaits) {
  PlacementProblem p = example();
  p.ops = {{"a", {4, 4}, 0, -1, {}}, {"b", {2, 2}, 0, -1, {}}, {"c", {5, 5}, 0, -1, {}}, {"d", {1, 1}, 0, -1, {0}}};
  p.values = {{100, 1, {3}}};
  const std::vector<int> device = {0, 0, 1, 1};
  EXPECT_EQ(list_schedule(p, device, {0, 1, 2, 3}, false).end, 9);
  EXPECT_EQ(list_schedule(p, device, {1, 0, 2, 3}, false).end, 6);
}

TEST(Placement, TheCheckerNamesWhatIsWrong) {
  const PlacementProblem p = example();
  const PlacedSchedule right = first_come(p, {0, 0, 1}, {0, 1, 2});
  const auto with = [&](const std::function<void(PlacedSchedule&)>& change) {
    PlacedSchedule s = right;
    change(s);
    return schedule_error(p, s);
  };
  EXPECT_EQ(with([](auto& s) { s.start[1] = 2; }), "op 'b' starts before value 0 is there");
  EXPECT_EQ(with([](auto& s) { s.start[2] = 4; }), "op 'c' starts before value 0 is there");
  EXPECT_EQ(with([](auto& s) { s.transfers.clear(); }), "value 0 does not come to op 'c'");
  EXPECT_EQ(with([](auto& s) { s.transfers.push_back({0, 1, 8}); }), "value 0 to device 1 is sent twice");
  EXPECT_EQ(with([](auto& s) { s.transfers[0].start = 2; }), "value 0 to device 1 starts before it is made");
  EXPECT_EQ(with([](auto& s) { s.device[2] = 0; }), "value 0 to device 1 has no reader there");
  EXPECT_EQ(with([](auto& s) { s.device[2] = 0, s.transfers.clear(); }), "b and c are at once on gpu0");
  EXPECT_EQ(with([](auto& s) { s.end = 11; }), "the end is 10, not 11");
  EXPECT_EQ(with([](auto& s) { s.device[0] = 2; }), "op 'a' cannot run on device 2");
  PlacementProblem small = p;
  small.devices[0].memory_bytes = 19;
  EXPECT_EQ(schedule_error(small, right), "device 'gpu0' needs 20 of 19 bytes at 0 ns");
  PlacementProblem grouped = p;
  grouped.ops[0].group = grouped.ops[2].group = 0;
  EXPECT_EQ(schedule_error(grouped, right), "op 'c' is apart from its group");
}

// Every maker's schedules are valid, and moving one to the left makes it no longer.
TEST(Placement, SchedulesOfRandomProblems) {
  constexpr uint64_t kSeed = 37;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 3000; ++round) {
    const RandomShape shape = drawn_shape(rng, 1, 30);
    const PlacementProblem p = random_problem(rng, shape);
    validate(p);
    const std::vector<int> device = random_placement(rng, p), rank = critical_ranks(p, device);
    std::vector<int> plain(p.ops.size());
    std::iota(plain.begin(), plain.end(), 0);
    const std::vector<int64_t> tail = tails(p, device);
    const int64_t longest = *std::max_element(tail.begin(), tail.end());
    for (const PlacedSchedule& s :
         {first_come(p, device, plain), first_come(p, device, rank), list_schedule(p, device, plain, false),
          list_schedule(p, device, by_rank(rank), false), list_schedule(p, device, by_rank(rank), true)}) {
      ASSERT_EQ(schedule_error(p, s), "") << round;
      ASSERT_GE(s.end, longest) << round;
      const PlacedSchedule left = pushed_left(p, s);
      ASSERT_EQ(schedule_error(p, left), "") << round;
      ASSERT_LE(left.end, s.end) << round;
    }
  }
}

// With gaps, some order gives the best schedule that any order of ops and transfers has (small problems, all orders).
TEST(Placement, SomeOrderIsTheBest) {
  constexpr uint64_t kSeed = 38;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  for (int round = 0; round < 60; ++round) {
    const PlacementProblem p = random_problem(rng, {.ops = 5, .devices = 2});
    const std::vector<int> device = random_placement(rng, p);
    std::vector<int> order(p.ops.size());
    std::iota(order.begin(), order.end(), 0);
    int64_t best = INT64_MAX, first = INT64_MAX;
    do {
      std::vector<int> rank(order.size());
      for (size_t i = 0; i < order.size(); ++i) rank[static_cast<size_t>(order[i])] = static_cast<int>(i);
      const bool topological = std::all_of(p.values.begin(), p.values.end(), [&](const PlacedValue& v) {
        return std::all_of(v.readers.begin(), v.readers.end(),
                           [&](int r) { return rank[static_cast<size_t>(r)] > rank[static_cast<size_t>(v.producer)]; });
      });
      if (!topological) continue;
      best = std::min(best, list_schedule(p, device, order, true).end);
      first = std::min(first, first_come(p, device, rank).end);
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_LE(best, first) << round;
  }
}

}  // namespace
}  // namespace partita

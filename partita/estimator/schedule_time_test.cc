// Tests times of schedules against numbers by hand, a lower bound, and a plain count of every pass.
#include "partita/estimator/schedule_time.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/rng.h"

namespace partita {
namespace {

constexpr int64_t kMs = 1'000'000;

std::vector<StageTimes> equal_stages(int stages, int64_t forward_ns, int64_t backward_ns) {
  return std::vector<StageTimes>(static_cast<size_t>(stages),
                                 {forward_ns, backward_ns, backward_ns, backward_ns, forward_ns, 0, 0});
}

// 4 ranks and 16 micro-batches of 1 ms forward and 2 ms backward: (16 + 3) x 3 ms.
TEST(ScheduleTime, OneForwardOneBackward) {
  const Pipelining p{Schedule::k1F1B, 4, 1, 16};
  EXPECT_EQ(schedule_time(p, equal_stages(4, kMs, 2 * kMs)).end_ns, 57 * kMs);
}

// Two virtual stages a rank of half the time each halve the bubble: 16 x 3 + 3 x 1.5 ms.
TEST(ScheduleTime, Interleaved) {
  const Pipelining p{Schedule::kInterleaved, 4, 2, 16};
  EXPECT_EQ(schedule_time(p, equal_stages(8, kMs / 2, kMs)).end_ns, 52'500'000);
}

// The last stage takes 1.2 times as long: 3 x 3 + 16 x 3.6 ms.
TEST(ScheduleTime, LongLastStage) {
  std::vector<StageTimes> stages = equal_stages(4, kMs, 2 * kMs);
  stages.back() = equal_stages(1, 1'200'000, 2'400'000)[0];
  EXPECT_EQ(schedule_time({Schedule::k1F1B, 4, 1, 16}, stages).end_ns, 66'600'000);
}

TEST(ScheduleTime, SendsDelayTheNextRank) {
  std::vector<StageTimes> stages = equal_stages(2, kMs, 2 * kMs);
  stages[0].send_ns = stages[1].send_ns = 10;  // forward to rank 1, and the gradient back
  EXPECT_EQ(schedule_time({Schedule::k1F1B, 2, 1, 1}, stages).end_ns, 6 * kMs + 20);
}

// When each pass ends, by asking for what it waits for: no lists of ranks run side by side.
class PlainCount {
 public:
  PlainCount(const Pipelining& p, const std::vector<StageTimes>& stages) : p_(p), stages_(stages) {
    for (int rank = 0; rank < p.ranks; ++rank) lists_.push_back(passes_of(p, rank));
  }
  int64_t end_ns() {
    int64_t end = 0;
    for (int rank = 0; rank < p_.ranks; ++rank) end = std::max(end, end_of(rank, lists_[rank].size() - 1));
    return end;
  }

 private:
  int64_t end_of(int rank, size_t place) {
    const ScheduledPass& pass = lists_[rank][place];
    const auto key = std::tuple(pass.backward, pass.stage, pass.micro_batch);
    if (const auto known = ends_.find(key); known != ends_.end()) return known->second;
    int64_t start = place > 0 ? end_of(rank, place - 1) : 0;
    if (!pass.backward && pass.stage > 0) start = std::max(start, end_of(false, pass.stage - 1, pass.micro_batch));
    if (pass.backward && pass.stage + 1 < p_.stages())
      start = std::max(start, end_of(true, pass.stage + 1, pass.micro_batch));
    const StageTimes& of = stages_[static_cast<size_t>(pass.stage)];
    return ends_[key] = start + (pass.backward ? of.backward_ns : of.forward_ns);
  }
  int64_t end_of(bool backward, int stage, int micro_batch) {
    const int rank = stage % p_.ranks;
    for (size_t place = 0;; ++place) {
      const ScheduledPass& pass = lists_[rank][place];
      if (pass.backward == backward && pass.stage == stage && pass.micro_batch == micro_batch)
        return end_of(rank, place);
    }
  }

  const Pipelining p_;
  const std::vector<StageTimes>& stages_;
  std::vector<std::vector<ScheduledPass>> lists_;
  std::map<std::tuple<bool, int, int>, int64_t> ends_;
};

std::vector<StageTimes> drawn_stages(Rng& rng, int stages) {
  std::vector<StageTimes> out;
  for (int s = 0; s < stages; ++s) {
    const int64_t forward = rng.between(1, 50), backward = rng.between(1, 100);
    out.push_back({forward, backward, backward, backward, forward, 0, 0});
  }
  return out;
}

// Long steps are extended from their first rounds, which may still be a little off the steady state.
TEST(ScheduleTime, IsThatOfAPlainCount) {
  constexpr uint64_t kSeed = 571;
  std::printf("seed %lu\n", static_cast<unsigned long>(kSeed));
  Rng rng(kSeed);
  int exact = 0;
  for (int i = 0; i < 200; ++i) {
    const int ranks = static_cast<int>(rng.between(1, 4)), chunks = static_cast<int>(rng.between(1, 3));
    const bool interleaved = ranks > 1 && chunks > 1;
    const Pipelining p{
        interleaved ? Schedule::kInterleaved : Schedule::k1F1B, ranks, interleaved ? chunks : 1,
        interleaved ? ranks * static_cast<int>(rng.between(1, 8)) : static_cast<int>(rng.between(1, 40))};
    const std::vector<StageTimes> stages = drawn_stages(rng, p.stages());
    const int64_t end = schedule_time(p, stages).end_ns, plain = PlainCount(p, stages).end_ns();
    exact += end == plain;
    EXPECT_NEAR(static_cast<double>(end), static_cast<double>(plain), 0.01 * static_cast<double>(plain))
        << ranks << " ranks of " << p.virtual_stages << ", " << p.micro_batches << " micro-batches";
  }
  EXPECT_GE(exact, 190);
}

// 1F1B: no step is shorter than a rank's own micro-batches and one of each rank before it.
TEST(ScheduleTime, KeepsTheLowerBound) {
  constexpr uint64_t kSeed = 572;
  Rng rng(kSeed);
  for (int i = 0; i < 200; ++i) {
    const int ranks = static_cast<int>(rng.between(1, 6)), m = static_cast<int>(rng.between(ranks, 40));
    const std::vector<StageTimes> stages = drawn_stages(rng, ranks);
    int64_t bound = 0, before = 0;
    for (const StageTimes& s : stages) {
      bound = std::max(bound, before + m * (s.forward_ns + s.backward_ns));
      before += s.forward_ns + s.backward_ns;
    }
    const int64_t end = schedule_time({Schedule::k1F1B, ranks, 1, m}, stages).end_ns;
    EXPECT_GE(end, bound) << "seed " << kSeed;
    EXPECT_LE(static_cast<double>(end), 1.25 * static_cast<double>(bound)) << "seed " << kSeed;
  }
}

}  // namespace
}  // namespace partita

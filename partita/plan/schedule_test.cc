// Tests the schedules' runs in unit time: that they can be carried out, how long they take, and how much is in flight.
#include "partita/plan/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "partita/base/error.h"

namespace partita {
namespace {

std::string text_of(const Pipelining& p) {
  return fmt::format("{}, {} ranks, {} chunks each, {} micro-batches", name_of(p.schedule), p.ranks, p.virtual_stages,
                     p.micro_batches);
}

std::vector<Pipelining> many() {
  std::vector<Pipelining> all;
  for (int s : {1, 2, 3, 4, 8})
    for (int m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 24}) {
      for (Schedule schedule : {Schedule::kDefault, Schedule::kGpipe, Schedule::k1F1B})
        all.push_back({schedule, s, 1, m});
      for (int v : {1, 2, 3})
        if (m % s == 0) all.push_back({Schedule::kInterleaved, s, v, m});
    }
  return all;
}

// The work of a rank in each tick: "0" the forward of micro-batch 0, "0'" its backward, "." nothing. "b0" is that of
// the second of several virtual stages.
std::string row(const Pipelining& p, int rank) {
  const TickTable table = tick_table(p);
  std::vector<std::string> ticks(table.length, ".");
  for (int c = rank; c < p.stages(); c += p.ranks)
    for (int n = 0; n < p.micro_batches; ++n) {
      const std::string name =
          (p.virtual_stages > 1 ? std::string(1, static_cast<char>('a' + c / p.ranks)) : "") + std::to_string(n);
      ticks[table.forward[c][n]] = name;
      ticks[table.backward[c][n]] = name + "'";
    }
  return fmt::format("{}", fmt::join(ticks, " "));
}

TEST(Schedules, OfTwoRanksAndThreeMicroBatches) {
  EXPECT_EQ(row({Schedule::k1F1B, 2, 1, 3}, 0), "0 1 . 0' 2 1' . 2'");
  EXPECT_EQ(row({Schedule::k1F1B, 2, 1, 3}, 1), ". 0 0' 1 1' 2 2' .");
  EXPECT_EQ(row({Schedule::kGpipe, 2, 1, 3}, 0), "0 1 2 . . 0' 1' 2'");
  EXPECT_EQ(row({Schedule::kGpipe, 2, 1, 3}, 1), ". 0 1 2 0' 1' 2' .");
  EXPECT_EQ(row({Schedule::kDefault, 2, 1, 2}, 0), "0 . . 0' 1 . . 1'");
  EXPECT_EQ(row({Schedule::kDefault, 2, 1, 2}, 1), ". 0 0' . . 1 1' .");
}

// The order of work of Narayanan et al. 2021, figure 4, lower half: 4 devices, 2 virtual stages each, 8 micro-batches.
TEST(Schedules, InterleavedAsDrawnInThePaper) {
  const Pipelining p{Schedule::kInterleaved, 4, 2, 8};
  const auto work = [&](int rank) {
    std::string text = row(p, rank);
    for (std::size_t at; (at = text.find(" .")) != std::string::npos;) text.erase(at, 2);
    return text.starts_with(". ") ? text.substr(2) : text;
  };
  EXPECT_EQ(work(0),
            "a0 a1 a2 a3 b0 b1 b2 b3 a4 a5 a6 b0' a7 b1' b4 b2' b5 b3' b6 a0' b7 a1' a2' a3' b4' b5' b6' b7' a4' a5' "
            "a6' a7'");
  EXPECT_EQ(work(3),
            "a0 a1 a2 a3 b0 b0' b1 b1' b2 b2' b3 b3' a4 a0' a5 a1' a6 a2' a7 a3' b4 b4' b5 b5' b6 b6' b7 b7' a4' a5' "
            "a6' a7'");
}

TEST(Schedules, CanBeCarriedOut) {
  for (const Pipelining& p : many()) {
    SCOPED_TRACE(text_of(p));
    ASSERT_FALSE(pipelining_error(p).has_value());
    const TickTable table = tick_table(p);
    ASSERT_EQ(table.forward.size(), static_cast<std::size_t>(p.stages()));
    std::set<std::pair<int, int>> taken;  // rank, tick
    for (int c = 0; c < p.stages(); ++c) {
      ASSERT_EQ(table.forward[c].size(), static_cast<std::size_t>(p.micro_batches));
      for (int n = 0; n < p.micro_batches; ++n) {
        const int f = table.forward[c][n], b = table.backward[c][n];
        for (int tick : {f, b}) {
          ASSERT_TRUE(tick >= 0 && tick < table.length);
          ASSERT_TRUE(taken.insert({c % p.ranks, tick}).second);
        }
        ASSERT_LT(f, b);
        if (n > 0) {
          ASSERT_LT(table.forward[c][n - 1], f);
          ASSERT_LT(table.backward[c][n - 1], b);
        }
        if (c == 0) continue;
        ASSERT_LT(table.forward[c - 1][n], f);
        ASSERT_LT(b, table.backward[c - 1][n]);
      }
    }
  }
}

TEST(Schedules, Bubble) {
  for (const Pipelining& p : many()) {
    SCOPED_TRACE(text_of(p));
    const int s = p.ranks, v = p.virtual_stages, m = p.micro_batches, length = tick_table(p).length;
    const int idle = length - 2 * m * v;  // of each rank
    EXPECT_EQ(length, p.schedule == Schedule::kDefault ? 2 * m * s : 2 * (v * m + s - 1));
    if (p.schedule != Schedule::kDefault) {
      EXPECT_EQ(idle * (v * m + s - 1), (s - 1) * length);
    }
    EXPECT_DOUBLE_EQ(bubble(p), static_cast<double>(idle) / length);
  }
}

TEST(Schedules, InFlight) {
  for (const Pipelining& p : many()) {
    SCOPED_TRACE(text_of(p));
    const int s = p.ranks, v = p.virtual_stages, m = p.micro_batches;
    const TickTable table = tick_table(p);
    for (int rank = 0; rank < s; ++rank) {
      std::vector<int> change(table.length + 1, 0);
      for (int c = rank; c < p.stages(); c += s)
        for (int n = 0; n < m; ++n) {
          ++change[table.forward[c][n]];
          --change[table.backward[c][n] + 1];
        }
      int now = 0, most = 0;
      for (int c : change) most = std::max(most, now += c);
      const std::map<Schedule, int> expected{
          {Schedule::kDefault, 1},
          {Schedule::kGpipe, m},
          {Schedule::k1F1B, std::min(m, s - rank)},
          {Schedule::kInterleaved, std::min(m * v, 2 * (s - rank - 1) + (v - 1) * s + 1)}};
      EXPECT_EQ(most, expected.at(p.schedule)) << "rank " << rank;
      EXPECT_EQ(in_flight(p, rank), most) << "rank " << rank;
    }
  }
}

// The rule of 1F1B for one stage that knows no list: a backward if one is there, else a forward while fewer than S - s
// are in flight.
TEST(Schedules, OneForwardOneBackwardIsWhatEachStageWouldDoAlone) {
  for (const Pipelining& p : many()) {
    if (p.schedule != Schedule::k1F1B) continue;
    SCOPED_TRACE(text_of(p));
    const int m = p.micro_batches, stages = p.ranks;
    std::vector<int> forwards(stages, 0), backwards(stages, 0);
    TickTable expected;
    expected.forward.resize(stages);
    expected.backward.resize(stages);
    for (; backwards[0] < m; ++expected.length) {
      const std::vector<int> f = forwards, b = backwards;
      for (int s = 0; s < stages; ++s) {
        if (b[s] < f[s] && (s == stages - 1 || b[s + 1] > b[s])) {
          expected.backward[s].push_back(expected.length);
          ++backwards[s];
        } else if (f[s] < m && (s == 0 || f[s - 1] > f[s]) && f[s] - b[s] < stages - s) {
          expected.forward[s].push_back(expected.length);
          ++forwards[s];
        }
      }
    }
    const TickTable table = tick_table(p);
    EXPECT_EQ(table.length, expected.length);
    EXPECT_EQ(table.forward, expected.forward);
    EXPECT_EQ(table.backward, expected.backward);
  }
}

TEST(Schedules, Names) {
  for (Schedule schedule : {Schedule::kDefault, Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved})
    EXPECT_EQ(find_schedule(name_of(schedule)), schedule);
  EXPECT_EQ(find_schedule("1f1b"), Schedule::k1F1B);
  EXPECT_EQ(find_schedule("1F1B"), std::nullopt);
  EXPECT_EQ(schedule_words(), "default, gpipe, 1f1b, interleaved");
}

TEST(Schedules, WhatDoesNotFit) {
  EXPECT_EQ(pipelining_error({Schedule::kInterleaved, 4, 2, 6}),
            "schedule 'interleaved' takes micro-batches in groups of as many as there are pipeline ranks, and 6 is no "
            "multiple of 4: take a multiple, or '1f1b'");
  EXPECT_EQ(pipelining_error({Schedule::k1F1B, 4, 2, 8}),
            "schedule '1f1b' has one stage a device, and not 2 virtual ones: take 'interleaved'");
  EXPECT_EQ(pipelining_error({Schedule::kGpipe, 4, 0, 8}),
            "4 pipeline ranks, 0 virtual stages and 8 micro-batches: each is at least 1");
}

}  // namespace
}  // namespace partita

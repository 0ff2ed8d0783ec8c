// Tests schedules by hand, and drawn ones run in any order that their edges allow.
#include "partita/search/estimates/swap_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "partita/base/rng.h"

namespace partita {
namespace {

using Kind = SwapAction::Kind;

// Weights that many ops read and some write, and results that are made, read for a while and gone, some only later.
SwapProgram random_program(Rng& rng) {
  SwapProgram program;
  const int ops = static_cast<int>(rng.between(1, 25)), kept = static_cast<int>(rng.between(0, 8));
  for (int b = 0; b < kept; ++b) program.blocks.push_back({"w", static_cast<int64_t>(rng.between(0, 9)), true});
  std::vector<int> alive;
  for (int i = 0; i < ops; ++i) {
    std::set<int> touched;
    std::vector<SwapUse> uses;
    auto touch = [&](int block, bool writes) {
      if (touched.insert(block).second) uses.push_back({block, writes});
    };
    for (uint64_t n = rng.below(3); n > 0 && kept > 0; --n) touch(static_cast<int>(rng.below(kept)), rng.below(4) == 0);
    for (uint64_t n = rng.below(3); n > 0 && !alive.empty(); --n) {
      const size_t back = rng.below(2) == 0 ? rng.below(alive.size()) : alive.size() - 1;
      touch(alive[back], rng.below(5) == 0);
    }
    for (uint64_t n = rng.below(3); n > 0; --n) {
      alive.push_back(static_cast<int>(program.blocks.size()));
      const bool stays = rng.below(4) == 0;
      program.blocks.push_back({"a", static_cast<int64_t>(rng.between(0, 12)), false,
                                stays ? static_cast<int>(rng.between(i, ops - 1)) : -1});
      touch(alive.back(), true);
    }
    program.ops.push_back(uses);
  }
  return program;
}

bool uses(const SwapProgram& program, size_t op, int block) {
  const auto& of_op = program.ops[op % program.ops.size()];
  return std::any_of(of_op.begin(), of_op.end(), [&](const SwapUse& u) { return u.block == block; });
}

// The blocks used soon, by the definition: the coming ops, one more as long as all their blocks fit at once.
std::set<int> soon(const SwapProgram& program, size_t op, int64_t capacity) {
  std::set<int> blocks;
  for (size_t i = op; i < op + program.ops.size(); ++i) {
    std::set<int> more = blocks;
    for (const SwapUse& u : program.ops[i % program.ops.size()]) more.insert(u.block);
    int64_t bytes = 0;
    for (int b : more) bytes += program.blocks[b].bytes;
    if (bytes > capacity) break;
    blocks = more;
  }
  return blocks;
}

// A stay of a block in memory.
struct Stay {
  int block = 0;
  int64_t begins = -1;            // the action that takes the memory; -1: it is there when the step begins
  std::vector<int> users;         // the actions that touch it, `begins` and the copy to the host included
  std::optional<int> copied_out;  // the action that frees the memory; none: after its users, or never
  bool given_up = false;
};

// Checks every rule of the header, with the actions one after another. Returns the stays in memory, with their users.
std::vector<Stay> replay(const SwapProgram& program, const SwapSchedule& schedule, int64_t capacity) {
  const int blocks = static_cast<int>(program.blocks.size()), ops = static_cast<int>(program.ops.size());
  std::vector<bool> resident = schedule.resident, clean = schedule.clean, exists(blocks), on_host(blocks);
  std::vector<Stay> stays;
  std::vector<int> stay(blocks, -1);
  auto bytes = [&](int b) { return program.blocks[b].bytes; };
  int64_t held = 0, in_bytes = 0, out_bytes = 0;
  for (int b = 0; b < blocks; ++b) {
    exists[b] = program.blocks[b].kept;
    on_host[b] = program.blocks[b].kept && (!schedule.resident[b] || schedule.clean[b]);
    if (!resident[b]) continue;
    EXPECT_TRUE(program.blocks[b].kept);
    held += bytes(b);
    stay[b] = static_cast<int>(stays.size());
    stays.push_back({b, -1, {}, {}, false});
  }
  // By block: the op that used it last; in the step before if it has not been used yet.
  std::vector<int> used(blocks, -1000);
  for (int i = 0; i < ops; ++i)
    for (const SwapUse& u : program.ops[i]) used[u.block] = i - ops;
  int next = 0;  // op
  for (size_t x = 0; x < schedule.actions.size(); ++x) {
    const SwapAction& action = schedule.actions[x];
    const int b = action.subject, id = static_cast<int>(x);
    if (action.kind == Kind::kIn) {
      EXPECT_TRUE(uses(program, next, b)) << "only the next op's blocks are brought";
      EXPECT_FALSE(resident[b]);
      EXPECT_TRUE(exists[b] && on_host[b]);
      resident[b] = true, held += bytes(b), in_bytes += bytes(b);
      stay[b] = static_cast<int>(stays.size());
      stays.push_back({b, id, {id}, {}, false});
    } else if (action.kind != Kind::kOp) {
      EXPECT_TRUE(resident[b]);
      const bool out = action.kind == Kind::kOut;
      EXPECT_EQ(out, !clean[b]) << "what the host has is dropped, what it has not is copied";
      int64_t missing = 0;
      for (const SwapUse& u : program.ops[next])
        if (!resident[u.block]) missing += bytes(u.block);
      EXPECT_GT(held + missing, capacity) << "there was room";
      const std::set<int> stays_here = soon(program, next, capacity);
      int least = -1;
      for (int c = 0; c < blocks; ++c)
        if (resident[c] && bytes(c) > 0 && !stays_here.contains(c) && (least < 0 || used[c] < used[least])) least = c;
      EXPECT_EQ(b, least) << "not the least recently used";
      if (out)
        out_bytes += bytes(b), on_host[b] = clean[b] = true, stays[stay[b]].users.push_back(id),
                               stays[stay[b]].copied_out = id;
      stays[stay[b]].given_up = true;
      resident[b] = false, held -= bytes(b);
    } else {
      EXPECT_EQ(b, next);
      for (const SwapUse& u : program.ops[b]) {
        if (!resident[u.block]) {
          EXPECT_FALSE(exists[u.block]) << "op " << b << " touches what is not there";
          held += bytes(u.block);
          stay[u.block] = static_cast<int>(stays.size());
          stays.push_back({u.block, id, {}, {}, false});
        }
        if (u.writes || !exists[u.block]) clean[u.block] = false;
        resident[u.block] = exists[u.block] = true;
        used[u.block] = b;
        stays[stay[u.block]].users.push_back(id);
      }
      EXPECT_LE(held, capacity);
      for (int c = 0; c < blocks; ++c) {
        bool again = program.blocks[c].kept || program.blocks[c].until > b;
        for (int i = b + 1; i < ops; ++i) again |= uses(program, i, c);
        if (again || !exists[c]) continue;
        if (resident[c]) held -= bytes(c), stays[stay[c]].given_up = true;
        resident[c] = exists[c] = on_host[c] = clean[c] = false;
      }
      ++next;
    }
    EXPECT_LE(held, capacity);
  }
  EXPECT_EQ(next, ops);
  EXPECT_EQ(in_bytes, schedule.in_bytes);
  EXPECT_EQ(out_bytes, schedule.out_bytes);
  if (schedule.steady) {
    EXPECT_EQ(resident, schedule.resident);
    EXPECT_EQ(clean, schedule.clean);
  }
  return stays;
}

// Actions begin and end at random, as `after` allows.
void run_at_random(const SwapProgram& program, const SwapSchedule& schedule, const std::vector<Stay>& stays,
                   int64_t capacity, Rng& rng) {
  const int n = static_cast<int>(schedule.actions.size());
  std::vector<int> state(n, 0);  // 1 running, 2 ended
  auto begins_at = [&](const Stay& s) { return s.begins < 0 || state[s.begins] > 0; };
  auto over = [&](const Stay& s) {
    if (!s.given_up) return false;
    return s.copied_out ? state[*s.copied_out] == 2
                        : std::all_of(s.users.begin(), s.users.end(), [&](int u) { return state[u] == 2; });
  };
  auto check = [&] {
    int64_t held = 0;
    for (const Stay& s : stays)
      if (begins_at(s) && !over(s)) held += program.blocks[s.block].bytes;
    ASSERT_LE(held, capacity);
  };
  while (true) {
    std::vector<int> may_begin, may_end;
    for (int x = 0; x < n; ++x) {
      if (state[x] == 1) may_end.push_back(x);
      const auto& after = schedule.actions[x].after;
      if (state[x] == 0 && std::all_of(after.begin(), after.end(), [&](int a) { return state[a] == 2; }))
        may_begin.push_back(x);
    }
    if (may_begin.empty() && may_end.empty()) break;
    if (!may_begin.empty() && (may_end.empty() || rng.below(3) > 0)) {
      const int x = may_begin[rng.below(may_begin.size())];
      if (schedule.actions[x].kind == Kind::kDrop) {
        state[x] = 2;
        continue;
      }
      state[x] = 1;
      // Actions that touched a block before and wrote, or are overwritten, have ended.
      for (const Stay& s : stays)
        for (size_t u = 0; u < s.users.size(); ++u)
          if (s.users[u] == x)
            for (size_t v = 0; v < u; ++v) {
              auto writes = [&](int a) {
                const SwapAction& action = schedule.actions[a];
                if (action.kind != Kind::kOp) return action.kind == Kind::kIn;
                for (const SwapUse& use : program.ops[action.subject])
                  if (use.block == s.block) return use.writes;
                return false;
              };
              if (writes(x) || writes(s.users[v]) || s.copied_out == x)
                ASSERT_EQ(state[s.users[v]], 2) << "action " << x << " before " << s.users[v] << " ended";
            }
      // A block comes from the host when it is whole there.
      if (schedule.actions[x].kind == Kind::kIn)
        for (const Stay& s : stays)
          if (s.block == schedule.actions[x].subject && s.copied_out && *s.copied_out < x)
            ASSERT_EQ(state[*s.copied_out], 2);
    } else {
      state[may_end[rng.below(may_end.size())]] = 2;
    }
    check();
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(std::count(state.begin(), state.end(), 2), n) << "some never begin";
}

void random_programs(uint64_t first, uint64_t last) {
  int swapped = 0, written = 0, restless = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const SwapProgram program = random_program(rng);
    int64_t all = 0, at_once = 0;
    for (const SwapBlock& b : program.blocks) all += b.bytes;
    for (const auto& op : program.ops) {
      int64_t bytes = 0;
      for (const SwapUse& u : op) bytes += program.blocks[u.block].bytes;
      at_once = std::max(at_once, bytes);
    }
    EXPECT_EQ(largest_working_set(program).bytes, at_once);
    for (int64_t capacity : {at_once, static_cast<int64_t>(rng.between(at_once, all)), all}) {
      const SwapSchedule schedule = swap_schedule(program, capacity);
      const std::vector<Stay> stays = replay(program, schedule, capacity);
      EXPECT_LE(schedule.peak_bytes, capacity);
      if (capacity == all) EXPECT_EQ(schedule.in_bytes + schedule.out_bytes, 0);
      swapped += schedule.in_bytes > 0, written += schedule.out_bytes > 0, restless += !schedule.steady;
      for (int run = 0; run < 3; ++run) run_at_random(program, schedule, stays, capacity, rng);
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_LE(restless, swapped / 1000);  // runs that go round in several steps: they are few
  EXPECT_GT(swapped, 0);
  EXPECT_GT(written, 0);
}

TEST(SwapSchedule, KeepsEveryRuleOnRandomPrograms) { random_programs(1, 300); }
TEST(LongSwapSchedule, KeepsEveryRuleOnRandomPrograms) { random_programs(1000, 20000); }

TEST(SwapSchedule, WeightsGoRoundAndAreCopiedOnce) {
  // Two weights of 6 read in turn, room for one of them and the result.
  const SwapProgram program{{{"u", 6, true}, {"v", 6, true}, {"y", 2, false}},
                            {{{0, false}, {2, true}}, {{1, false}, {2, true}}}};
  const SwapSchedule schedule = swap_schedule(program, 8);
  EXPECT_TRUE(schedule.steady);
  EXPECT_EQ(schedule.in_bytes, 12);
  EXPECT_EQ(schedule.out_bytes, 0);
  EXPECT_EQ(schedule.peak_bytes, 8);
  EXPECT_EQ(schedule.host_peak_bytes, 12);
}

// A gradient of 6 that nothing reads again makes room for a weight: it is gone, or goes to the host if it is kept.
TEST(SwapSchedule, CopiesAwayWhatIsKeptLonger) {
  for (const int until : {-1, 2}) {
    const SwapProgram program{{{"g", 6, false, until}, {"u", 6, true}, {"y", 2, false}},
                              {{{0, true}}, {{1, false}, {2, true}}, {{2, false}}}};
    const SwapSchedule schedule = swap_schedule(program, 8);
    EXPECT_EQ(schedule.out_bytes, until < 0 ? 0 : 6);
    EXPECT_EQ(schedule.host_peak_bytes, until < 0 ? 6 : 12);
  }
}

}  // namespace
}  // namespace partita

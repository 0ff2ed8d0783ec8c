// Tests replay against the full simulation of the same graph.
#include "partita/task_graph/replay.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/task_graph/testing/load_bound.h"
#include "partita/task_graph/testing/random_task_graph.h"

namespace partita {
namespace {

using testing::Exchanges;
using testing::RandomTaskGraph;

// A full simulation from nothing.
struct Whole {
  FlatTasks flat;
  Timeline timeline;
  explicit Whole(const TaskGraph& graph) : flat(flatten(graph)) { simulate_first_come(flat, timeline); }
};

TaskGraph exchanged(TaskGraph graph, const Exchanges& exchanges) {
  for (const auto& [slot, fragment] : exchanges) graph.fragments[static_cast<size_t>(slot)] = fragment;
  return graph;
}

// Longest chains behind tasks, by places from the last.
std::vector<int64_t> tails(const Whole& whole) {
  std::vector<int64_t> tails(whole.timeline.of.size());
  for (size_t i = tails.size(); i-- > 0;) {
    const size_t task = static_cast<size_t>(whole.timeline.order[i]);
    for (int e = whole.flat.tasks[task].after; e < whole.flat.tasks[task + 1].after; ++e) {
      const size_t next = static_cast<size_t>(whole.flat.after[static_cast<size_t>(e)]);
      tails[task] = std::max(tails[task], whole.flat.tasks[next].duration_ns + tails[next]);
    }
  }
  return tails;
}

std::vector<int64_t> loads_of(const Whole& whole) {
  std::vector<int64_t> load_ns(static_cast<size_t>(whole.flat.queue_count));
  for (size_t t = 0; t + 1 < whole.flat.tasks.size(); ++t)
    for (int q = whole.flat.tasks[t].queue; q < whole.flat.tasks[t + 1].queue; ++q)
      load_ns[static_cast<size_t>(whole.flat.queues[static_cast<size_t>(q)])] += whole.flat.tasks[t].duration_ns;
  return load_ns;
}

// Compares event for event.
void expect_committed(const Replay& replay, const Whole& whole) {
  const std::vector<int64_t> tail_ns = tails(whole);
  std::vector<int> place(tail_ns.size());
  for (size_t i = 0; i < place.size(); ++i) place[static_cast<size_t>(whole.timeline.order[i])] = static_cast<int>(i);
  ASSERT_EQ(replay.makespan_ns(), whole.timeline.makespan_ns);
  for (size_t slot = 0; slot + 1 < whole.flat.first.size(); ++slot)
    for (int task = whole.flat.first[slot]; task < whole.flat.first[slot + 1]; ++task) {
      const size_t t = static_cast<size_t>(task);
      const Replay::Times of = replay.times(static_cast<int>(slot), task - whole.flat.first[slot]);
      const Timeline::Times& expected = whole.timeline.of[t];
      ASSERT_EQ(of.ready_ns, expected.ready_ns) << "slot " << slot;
      ASSERT_EQ(of.start_ns, expected.start_ns) << "slot " << slot;
      ASSERT_EQ(of.end_ns, expected.end_ns) << "slot " << slot;
      ASSERT_EQ(of.tail_ns, tail_ns[t]) << "slot " << slot;
      ASSERT_EQ(of.place, place[t]) << "slot " << slot;
    }
  ASSERT_EQ(replay.load_ns(), loads_of(whole));
}

// No sweeps, short ones, those that end when tasks become many, and all to their end; few tasks or many are skipped.
ReplayOptions options_of(uint64_t seed) {
  constexpr int kMany = 1 << 30;
  const ReplayOptions all[] = {{0, kMany}, {static_cast<int64_t>(seed % 23), kMany}, {}, {0, 2}, {kMany, 1}};
  ReplayOptions options = all[seed % 5];
  options.least_skip = seed / 5 % 4 == 3 ? 8 : 1;
  options.sweep_every = seed % 3 == 0 ? 4 : 1;
  return options;
}

// Fragments that nobody else keeps.
Exchanges copies(const Exchanges& exchanges) {
  Exchanges copies;
  for (const auto& [slot, fragment] : exchanges) copies.push_back({slot, std::make_shared<Fragment>(*fragment)});
  return copies;
}

// Below the makespan, by a little and by much, nothing is returned; from it on, the makespan.
void expect_makespan(Replay& replay, const Exchanges& exchanges, const Whole& whole, Rng& rng) {
  const int64_t makespan_ns = whole.timeline.makespan_ns;
  const std::vector<int64_t> load_ns = loads_of(whole);
  ASSERT_EQ(testing::largest_load_ns(replay, exchanges), *std::max_element(load_ns.begin(), load_ns.end()));
  const int64_t below_ns = rng.between(makespan_ns / 2, makespan_ns - 1);
  ASSERT_EQ(replay.evaluate(exchanges, below_ns), std::nullopt) << "threshold " << below_ns << " of " << makespan_ns;
  ASSERT_EQ(replay.evaluate(exchanges, makespan_ns - 1), std::nullopt);
  if (rng.below(2) == 0) {
    ASSERT_EQ(replay.evaluate(exchanges), makespan_ns);
  }
  ASSERT_EQ(replay.evaluate(exchanges, makespan_ns + rng.between(0, 1)), makespan_ns);
}

// `count` proposals to the graph of a seed, some of which are committed.
void propose(uint64_t seed, int count, ReplayCounts& counts) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomTaskGraph random(testing::small_recipe(seed), seed);
  Rng rng(seed);
  Replay replay(random.graph(), options_of(seed));
  TaskGraph committed = random.graph();
  ASSERT_NO_FATAL_FAILURE(expect_committed(replay, Whole(committed)));
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(fmt::format("proposal {}", i));
    const auto drawn = random.draw(rng, static_cast<int>(rng.below(8) == 0 ? random.ops() : rng.between(1, 4)));
    const Exchanges drawn_exchanges = random.exchanges(drawn);
    const Exchanges exchanges = rng.below(2) == 0 ? drawn_exchanges : copies(drawn_exchanges);
    const TaskGraph graph = exchanged(committed, exchanges);
    const Whole whole(graph);
    ASSERT_NO_FATAL_FAILURE(expect_makespan(replay, exchanges, whole, rng));
    if (rng.below(3) > 0) continue;
    replay.commit();
    committed = graph;
    for (const auto& [op, configuration] : drawn) random.choose(op, configuration);
    ASSERT_NO_FATAL_FAILURE(expect_committed(replay, whole));
  }
  counts.by_loads += replay.counts().by_loads;
  counts.by_cut += replay.counts().by_cut;
  counts.by_tails += replay.counts().by_tails;
  counts.by_queues += replay.counts().by_queues;
  counts.exact += replay.counts().exact;
  counts.swept += replay.counts().swept;
  counts.taken += replay.counts().taken;
  counts.skips += replay.counts().skips;
}

TEST(Replay, IsTheFullSimulation) {
  ReplayCounts counts;
  for (uint64_t seed = 0; seed < 400 && !HasFatalFailure(); ++seed) propose(seed, 20, counts);
  // Every bound has been used, and every path to the makespan.
  for (const int64_t count : {counts.by_loads, counts.by_cut, counts.by_tails, counts.by_queues, counts.exact,
                              counts.swept, counts.taken, counts.skips})
    EXPECT_GT(count, 300);
}

// If sweeps mostly end because tasks become many, there are fewer of them, with the same makespans.
TEST(Replay, SweepsWhereThatIsWorthIt) {
  constexpr uint64_t kSeed = 3;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  RandomTaskGraph random(testing::small_recipe(kSeed), kSeed);
  constexpr int kMany = 1 << 30;
  Replay always(random.graph(), {.least_events = 3, .tasks_an_event = kMany, .sweep_every = 1}),
      seldom(random.graph(), {.least_events = 3, .tasks_an_event = kMany, .sweep_every = 16});
  Rng rng(kSeed);
  for (int i = 0; i < 300; ++i) {
    const auto drawn = random.draw(rng, 1);
    const Exchanges exchanges = random.exchanges(drawn);
    const int64_t threshold_ns = always.makespan_ns() + rng.between(-2, 2);
    const auto ns = always.evaluate(exchanges, threshold_ns);
    ASSERT_EQ(ns, seldom.evaluate(exchanges, threshold_ns)) << "proposal " << i;
    if (!ns || rng.below(2) == 0) continue;
    always.commit(), seldom.commit();
    for (const auto& [op, configuration] : drawn) random.choose(op, configuration);
  }
  EXPECT_GT(always.counts().swept, 100);
  EXPECT_LT(2 * seldom.counts().swept, always.counts().swept);
}

TEST(ManyReplay, IsTheFullSimulation) {
  ReplayCounts counts;
  for (uint64_t seed = 1000; seed < 3000 && !HasFatalFailure(); ++seed) propose(seed, 50, counts);
}

TEST(Replay, CommitsOnlyWhatWasEvaluatedToItsEnd) {
  RandomTaskGraph random(testing::small_recipe(1), 1);
  Replay replay(random.graph());
  Rng rng(1);
  EXPECT_EQ(replay.evaluate(random.exchanges(random.draw(rng, 1)), 0), std::nullopt);
  EXPECT_THROW(replay.commit(), Error);
}

}  // namespace
}  // namespace partita

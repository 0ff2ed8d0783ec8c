// Tests Algorithm 2, corrected, against the full simulation.
#include "partita/task_graph/algorithm2.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/task_graph/first_come.h"
#include "partita/task_graph/testing/random_task_graph.h"

namespace partita {
namespace {

using testing::Exchanges;
using testing::RandomTaskGraph;

void expect_timeline(const Algorithm2& delta, const TaskGraph& graph) {
  const FlatTasks flat = flatten(graph);
  Timeline timeline;
  simulate_first_come(flat, timeline);
  ASSERT_EQ(delta.makespan_ns(), timeline.makespan_ns);
  for (size_t slot = 0; slot + 1 < flat.first.size(); ++slot)
    for (int task = flat.first[slot]; task < flat.first[slot + 1]; ++task) {
      const Algorithm2::Times of = delta.times(static_cast<int>(slot), task - flat.first[slot]);
      const Timeline::Times& expected = timeline.of[static_cast<size_t>(task)];
      ASSERT_EQ(of.ready_ns, expected.ready_ns) << "slot " << slot;
      ASSERT_EQ(of.start_ns, expected.start_ns) << "slot " << slot;
      ASSERT_EQ(of.end_ns, expected.end_ns) << "slot " << slot;
    }
}

void propose(uint64_t seed, int count) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomTaskGraph random(testing::small_recipe(seed), seed);
  Rng rng(seed);
  Algorithm2 delta(random.graph());
  TaskGraph committed = random.graph();
  ASSERT_NO_FATAL_FAILURE(expect_timeline(delta, committed));
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(fmt::format("proposal {}", i));
    const auto drawn = random.draw(rng, static_cast<int>(rng.below(8) == 0 ? random.ops() : rng.between(1, 4)));
    Exchanges exchanges = random.exchanges(drawn);
    for (auto& [slot, fragment] : exchanges) fragment = std::make_shared<Fragment>(*fragment);  // kept by nobody else
    TaskGraph graph = committed;
    for (const auto& [slot, fragment] : exchanges) graph.fragments[static_cast<size_t>(slot)] = fragment;
    const int64_t makespan_ns = delta.propose(exchanges);
    ASSERT_EQ(makespan_ns, delta.makespan_ns());
    ASSERT_NO_FATAL_FAILURE(expect_timeline(delta, graph));
    if (rng.below(2) == 0) {
      delta.undo();
      ASSERT_NO_FATAL_FAILURE(expect_timeline(delta, committed));
      continue;
    }
    committed = graph;
    for (const auto& [op, configuration] : drawn) random.choose(op, configuration);
  }
}

TEST(Algorithm2, IsTheFullSimulation) {
  for (uint64_t seed = 0; seed < 400 && !HasFatalFailure(); ++seed) propose(seed, 20);
}

TEST(ManyAlgorithm2, IsTheFullSimulation) {
  for (uint64_t seed = 1000; seed < 3000 && !HasFatalFailure(); ++seed) propose(seed, 50);
}

TEST(Algorithm2, TakesOneProposalBack) {
  RandomTaskGraph random(testing::small_recipe(1), 1);
  Algorithm2 delta(random.graph());
  EXPECT_THROW(delta.undo(), Error);
  Rng rng(1);
  delta.propose(random.exchanges(random.draw(rng, 1)));
  delta.undo();
  EXPECT_THROW(delta.undo(), Error);
}

}  // namespace
}  // namespace partita

// Tests critical paths of small timelines, and of random ones.
#include "partita/task_graph/critical.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/rng.h"
#include "partita/task_graph/testing/random_task_graph.h"

namespace partita {
namespace {

TEST(CriticalPath, LeadsFromTheBeginningToTheEndWithoutAGap) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    const FlatTasks flat = flatten(testing::RandomTaskGraph(testing::small_recipe(seed), seed).graph());
    Timeline timeline;
    simulate_first_come(flat, timeline);
    int64_t now = 0;
    for (const int t : critical_path(flat, timeline)) {
      ASSERT_EQ(timeline.of[static_cast<size_t>(t)].start_ns, now);
      now = timeline.of[static_cast<size_t>(t)].end_ns;
    }
    ASSERT_EQ(now, timeline.makespan_ns);
  }
}

}  // namespace
}  // namespace partita

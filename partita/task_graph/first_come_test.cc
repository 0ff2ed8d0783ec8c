// Tests the full simulation by hand, and against one that looks through all tasks for the next.
#include "partita/task_graph/first_come.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "partita/base/error.h"
#include "partita/task_graph/testing/random_task_graph.h"

namespace partita {
namespace {

using testing::RandomTaskGraph;
using testing::TaskGraphRecipe;

// A graph of one op with tasks of given durations and queues, and edges between them.
TaskGraph by_hand(const std::vector<int64_t>& duration_ns, const std::vector<std::vector<int>>& queues,
                  const std::vector<std::pair<int, int>>& edges) {
  auto fragment = std::make_shared<Fragment>();
  fragment->duration_ns = duration_ns;
  TaskLists after, before;
  for (size_t t = 0; t < duration_ns.size(); ++t) {
    fragment->key.push_back(t);
    fragment->key_party.push_back(0);
    fragment->queues.insert(fragment->queues.end(), queues[t].begin(), queues[t].end());
    fragment->queue_ends.push_back(static_cast<int>(fragment->queues.size()));
    for (const auto& [from, to] : edges) {
      if (from == static_cast<int>(t)) after.tasks.push_back({0, to});
      if (to == static_cast<int>(t)) before.tasks.push_back({0, from});
    }
    after.ends.push_back(static_cast<int>(after.tasks.size()));
    before.ends.push_back(static_cast<int>(before.tasks.size()));
  }
  fragment->after = {after};
  fragment->before = {before};
  TaskGraph graph;
  graph.queue_count = 3;
  graph.op_count = 1;
  graph.wires.resize(1);
  graph.fragments = {fragment};
  return graph;
}

std::vector<std::pair<int64_t, int64_t>> times_of(const TaskGraph& graph) {
  Timeline timeline;
  simulate_first_come(flatten(graph), timeline);
  std::vector<std::pair<int64_t, int64_t>> times;
  for (const Timeline::Times& of : timeline.of) times.push_back({of.start_ns, of.end_ns});
  return times;
}

using Spans = std::vector<std::pair<int64_t, int64_t>>;

TEST(FirstCome, IsAsInTheExample) {
  EXPECT_EQ(times_of(by_hand({3, 2, 4}, {{0}, {0}, {1}}, {{0, 2}})), (Spans{{0, 3}, {3, 5}, {3, 7}}));
}

TEST(FirstCome, TakesTheFirstToComeAndOfTwoTheLowestKey) {
  // 3 and 4 come at 2, 5 at 1: it goes first, though its key is the highest.
  EXPECT_EQ(times_of(by_hand({4, 2, 1, 1, 1, 1}, {{0}, {1}, {2}, {0}, {0}, {0}}, {{1, 4}, {1, 3}, {2, 5}})),
            (Spans{{0, 4}, {0, 2}, {0, 1}, {5, 6}, {6, 7}, {4, 5}}));
}

TEST(FirstCome, HoldsAllQueuesOfATask) {
  // 2 runs on queues 0 and 1 when both are free; 3 would find queue 1 free before that.
  EXPECT_EQ(times_of(by_hand({5, 2, 3, 1}, {{0}, {1}, {0, 1}, {1}}, {})), (Spans{{0, 5}, {0, 2}, {5, 8}, {8, 9}}));
}

TEST(FirstCome, FindsTasksThatWaitForEachOther) {
  Timeline timeline;
  EXPECT_THROW(simulate_first_come(flatten(by_hand({1, 1}, {{0}, {0}}, {{0, 1}, {1, 0}})), timeline), Error);
}

struct SlowTask {
  int64_t ready_ns = 0, start_ns = 0, end_ns = -1;
};

// Looks at all tasks for each that it takes, and reads the other of the fragments' lists of edges.
std::vector<std::vector<SlowTask>> slow(const TaskGraph& graph) {
  std::vector<std::vector<SlowTask>> of;
  for (const FragmentPtr& fragment : graph.fragments) of.emplace_back(fragment->duration_ns.size());
  std::vector<std::vector<std::vector<SlowTask*>>> before;
  for (const FragmentPtr& fragment : graph.fragments) before.emplace_back(fragment->duration_ns.size());
  for (size_t slot = 0; slot < of.size(); ++slot) {
    const Fragment& fragment = *graph.fragments[slot];
    const auto at = [&](int party) {
      return static_cast<size_t>(party == 0 ? static_cast<int>(slot)
                                            : graph.wires[slot].parties[static_cast<size_t>(party)]);
    };
    for (size_t party = 0; party < fragment.before.size(); ++party)
      for (size_t t = 0, e = 0; t < fragment.before[party].ends.size(); ++t)
        for (; e < static_cast<size_t>(fragment.before[party].ends[t]); ++e) {
          const TaskOf from = fragment.before[party].tasks[e];
          before[at(static_cast<int>(party))][t].push_back(&of[at(from.party)][static_cast<size_t>(from.task)]);
        }
  }
  std::vector<int64_t> queue_end_ns(static_cast<size_t>(graph.queue_count), 0);
  for (;;) {
    std::tuple<int64_t, uint64_t, size_t, size_t> next{INT64_MAX, 0, 0, 0};
    for (size_t slot = 0; slot < of.size(); ++slot)
      for (size_t t = 0; t < of[slot].size(); ++t) {
        int64_t ready_ns = of[slot][t].end_ns >= 0 ? INT64_MAX : 0;
        for (const SlowTask* from : before[slot][t])
          ready_ns = from->end_ns < 0 ? INT64_MAX : std::max(ready_ns, from->end_ns);
        if (ready_ns < INT64_MAX)
          next = std::min(next, {ready_ns, graph.key_of(static_cast<int>(slot), static_cast<int>(t)), slot, t});
      }
    const auto [ready_ns, key, slot, t] = next;
    if (ready_ns == INT64_MAX) return of;
    const Fragment& fragment = *graph.fragments[slot];
    int64_t start_ns = ready_ns;
    const int begin = t == 0 ? 0 : fragment.queue_ends[t - 1], end = fragment.queue_ends[t];
    for (int q = begin; q < end; ++q)
      start_ns = std::max(start_ns, queue_end_ns[static_cast<size_t>(fragment.queues[static_cast<size_t>(q)])]);
    of[slot][t] = {ready_ns, start_ns, start_ns + fragment.duration_ns[t]};
    for (int q = begin; q < end; ++q)
      queue_end_ns[static_cast<size_t>(fragment.queues[static_cast<size_t>(q)])] = of[slot][t].end_ns;
  }
}

TEST(FirstCome, IsWhatLookingAtAllTasksEachTimeFinds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomTaskGraph random(testing::small_recipe(seed), seed);
    const TaskGraph graph = random.graph();
    const FlatTasks flat = flatten(graph);
    Timeline timeline;
    simulate_first_come(flat, timeline);
    const auto expected = slow(graph);
    int64_t makespan_ns = 0;
    for (size_t slot = 0; slot < expected.size(); ++slot)
      for (size_t t = 0; t < expected[slot].size(); ++t) {
        const Timeline::Times& of = timeline.of[static_cast<size_t>(flat.first[slot]) + t];
        EXPECT_EQ(of.ready_ns, expected[slot][t].ready_ns);
        EXPECT_EQ(of.start_ns, expected[slot][t].start_ns);
        EXPECT_EQ(of.end_ns, expected[slot][t].end_ns);
        makespan_ns = std::max(makespan_ns, of.end_ns);
      }
    EXPECT_EQ(timeline.makespan_ns, makespan_ns);
    if (HasFailure()) return;
  }
}

// The generator's graphs vary: tasks that are kept, collectives, direct edges, shared transfers.
TEST(RandomTaskGraphs, HaveEveryKindOfTask) {
  int shared = 0, direct = 0, wide = 0, written_keys = 0, empty = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RandomTaskGraph random(testing::small_recipe(seed), seed);
    const TaskGraph graph = random.graph();
    std::set<uint64_t> keys;
    for (size_t slot = 0; slot < graph.fragments.size(); ++slot) {
      const Fragment& fragment = *graph.fragments[slot];
      empty += fragment.size() == 0;
      for (int t = 0; t < fragment.size(); ++t) {
        EXPECT_TRUE(keys.insert(graph.key_of(static_cast<int>(slot), t)).second) << "seed " << seed;
        const size_t i = static_cast<size_t>(t);
        wide += fragment.queue_ends[i] - (t == 0 ? 0 : fragment.queue_ends[i - 1]) > 1;
        written_keys += fragment.key_party[i] == 1;
        if (fragment.after[0].ends.empty()) continue;
        std::set<int> parties;
        for (int e = t == 0 ? 0 : fragment.after[0].ends[i - 1]; e < fragment.after[0].ends[i]; ++e)
          parties.insert(fragment.after[0].tasks[static_cast<size_t>(e)].party);
        shared += parties.size() > 1;
      }
      if (fragment.after.size() > 1)
        for (const TaskOf& to : fragment.after[1].tasks) direct += to.party > 1;
    }
  }
  EXPECT_GT(shared, 100);
  EXPECT_GT(direct, 1000);
  EXPECT_GT(wide, 100);
  EXPECT_GT(written_keys, 100);
  EXPECT_GT(empty, 100);
}

}  // namespace
}  // namespace partita

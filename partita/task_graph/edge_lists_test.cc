// Tests that edge lists say the edges that they were made of, and are shared.
#include "partita/task_graph/edge_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "partita/base/rng.h"

namespace partita {
namespace {

using Edge = std::pair<TaskOf, TaskOf>;

// The edges in the lists.
std::set<Edge> edges_of(const PartyLists& lists, bool after) {
  std::set<Edge> edges;
  for (size_t p = 0; p < lists.size(); ++p)
    for (size_t t = 0, e = 0; t < lists[p].ends.size(); ++t)
      for (; e < static_cast<size_t>(lists[p].ends[t]); ++e) {
        const TaskOf own{static_cast<int>(p), static_cast<int>(t)}, other = lists[p].tasks[e];
        edges.insert(after ? Edge{own, other} : Edge{other, own});
      }
  return edges;
}

TEST(EdgeLists, AreThoseOfTheEdgesAndSharedWhereTheseAreEqual) {
  Rng rng(5);
  EdgeLists lists;
  for (int round = 0; round < 300; ++round) {
    std::vector<int> sizes;
    for (int p = 0; p < 4; ++p) sizes.push_back(static_cast<int>(rng.below(4)));
    std::vector<TaskOf> tasks;
    for (int p = 0; p < 4; ++p)
      for (int t = 0; t < sizes[static_cast<size_t>(p)]; ++t) tasks.push_back({p, t});
    EdgeLists::Edges edges;
    for (size_t e = rng.below(9); e > 0 && !tasks.empty(); --e)
      edges.emplace_back(tasks[rng.below(tasks.size())], tasks[rng.below(tasks.size())]);
    const std::set<Edge> expected(edges.begin(), edges.end());
    const EdgeLists::Lists made = lists.of(edges, sizes);
    ASSERT_EQ(edges_of(made.after, true), expected);
    ASSERT_EQ(edges_of(made.before, false), expected);
    for (size_t p = 0; p < sizes.size(); ++p)
      for (const TaskLists& of : {made.after[p], made.before[p]})
        EXPECT_TRUE(of.ends.empty() || of.ends.size() == static_cast<size_t>(sizes[p]));
    if (!edges.empty()) edges.push_back(edges[0]);  // twice, and in another order
    std::ranges::reverse(edges);
    const EdgeLists::Lists again = lists.of(edges, sizes);
    EXPECT_TRUE(again.after.shares(made.after));
    EXPECT_TRUE(again.before.shares(made.before));
  }
}

}  // namespace
}  // namespace partita

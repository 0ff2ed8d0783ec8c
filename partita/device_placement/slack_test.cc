// Tests slack by hand, and that random merges of random graphs keep the limit.
#include "partita/device_placement/slack.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/rng.h"

namespace partita {
namespace {

using Edges = std::vector<std::pair<int, int>>;

MergeGraph graph_of(int vertices, const Edges& edges) {
  MergeGraph g{{0}, {}, {}};
  for (int u = 0; u < vertices; ++u) {
    for (const auto& [from, to] : edges)
      if (from == u) g.to.push_back(to), g.weight.push_back(1);
    g.first.push_back(static_cast<int>(g.to.size()));
  }
  return g;
}

// The longest path after merging, by relaxing as often as there are vertices; -1 for a cycle.
int64_t path_of(const Edges& edges, const std::vector<int64_t>& ns, const std::vector<int>& into) {
  std::vector<int64_t> own(ns.size(), 0), end;
  for (size_t v = 0; v < ns.size(); ++v) own[into[v]] += ns[v];
  end = own;
  for (size_t i = 0; i <= ns.size(); ++i) {
    bool same = true;
    for (const auto& [u, v] : edges) {
      const int a = into[u], b = into[v];
      if (a == b || end[b] >= end[a] + own[b]) continue;
      end[b] = end[a] + own[b];
      same = false;
    }
    if (same) return *std::max_element(end.begin(), end.end());
  }
  return -1;
}

TEST(Slack, TheExample) {
  const MergeGraph g = graph_of(3, {{0, 1}, {0, 2}});
  const std::vector<int64_t> ns = {2, 2, 2};
  EXPECT_EQ(longest_path(g, ns), 4);
  const auto room = [&](int64_t limit, int u, int v) { return Slack(g, ns, limit).try_merge(u, v); };
  EXPECT_FALSE(room(4, 0, 1));
  EXPECT_FALSE(room(4, 1, 2));
  EXPECT_FALSE(room(6, 0, 1));
  EXPECT_TRUE(room(6, 1, 2));
  EXPECT_TRUE(room(8, 0, 1));
}

TEST(Slack, RandomMergesKeepTheLimit) {
  constexpr uint64_t kSeed = 45;
  SCOPED_TRACE(kSeed);
  Rng rng(kSeed);
  int merges = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int n = 2 + static_cast<int>(rng.below(10));
    const uint64_t out_of = 2 + rng.below(5);
    Edges edges;
    for (int u = 0; u < n; ++u)
      for (int v = u + 1; v < n; ++v)
        if (rng.below(out_of) == 0) edges.emplace_back(u, v);
    std::vector<int64_t> ns(n);
    std::vector<int> into(n), left(n);
    for (int v = 0; v < n; ++v) ns[v] = rng.between(1, 9), into[v] = left[v] = v;
    const MergeGraph g = graph_of(n, edges);
    const int64_t path = longest_path(g, ns), limit = path + rng.between(-3, 2 * path);
    ASSERT_EQ(path, path_of(edges, ns, into)) << round;
    Slack slack(g, ns, limit);
    rng.shuffle(left);
    while (left.size() > 1) {
      const int u = left.back(), v = left[rng.below(left.size() - 1)];
      left.pop_back();
      if (!slack.try_merge(u, v)) continue;
      std::erase(left, v);
      into[v] = u;
      ++merges;
    }
    const int64_t merged = path_of(edges, ns, into);
    ASSERT_GE(merged, 0) << round << ": a cycle";
    ASSERT_LE(merged, std::max(path, limit)) << round;
  }
  EXPECT_GT(merges, 20'000);
}

}  // namespace
}  // namespace partita

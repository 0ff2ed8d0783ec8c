// Tests batches by hand, and of random graphs against a search for cycles and the condition as printed.
#include "partita/device_placement/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "partita/base/rng.h"

namespace partita {
namespace {

using Pairs = std::vector<std::pair<int, int>>;
using Matrix = std::vector<std::vector<char>>;  // [from][to]

struct Graph {
  int n = 0;
  Matrix edge;
};

MergeGraph merge_graph(const Graph& g, const std::vector<double>& weights) {
  MergeGraph m{{0}, {}, {}};
  for (int u = 0; u < g.n; ++u) {
    for (int v = 0; v < g.n; ++v)
      if (g.edge[u][v]) m.to.push_back(v), m.weight.push_back(weights[m.weight.size() % weights.size()]);
    m.first.push_back(static_cast<int>(m.to.size()));
  }
  return m;
}

bool has_cycle(Matrix reach) {
  const size_t n = reach.size();
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      if (reach[i][k])
        for (size_t j = 0; j < n; ++j) reach[i][j] |= reach[k][j];
  for (size_t i = 0; i < n; ++i)
    if (reach[i][i]) return true;
  return false;
}

Matrix merged(const Graph& g, const Pairs& pairs) {
  std::vector<int> into(g.n);
  for (int v = 0; v < g.n; ++v) into[v] = v;
  for (const auto& [u, v] : pairs) into[v] = u;
  Matrix m(g.n, std::vector<char>(g.n, 0));
  for (int u = 0; u < g.n; ++u)
    for (int v = 0; v < g.n; ++v)
      if (g.edge[u][v] && into[u] != into[v]) m[into[u]][into[v]] = 1;
  return m;
}

// By the longest path, from the definition. Edges go to higher numbers.
std::vector<int> plain_heights(const Graph& g) {
  std::vector<int> h(g.n, 1);
  for (int v = 0; v < g.n; ++v)
    for (int u = 0; u < v; ++u)
      if (g.edge[u][v]) h[v] = std::max(h[v], h[u] + 1);
  return h;
}

bool second_condition(const Graph& g, const std::vector<int>& h, int u, int v) {
  int successors = 0, predecessors = 0;
  bool others_higher = true;
  for (int w = 0; w < g.n; ++w) {
    successors += g.edge[u][w];
    predecessors += g.edge[w][v];
    if (g.edge[u][w] && w != v && h[w] <= h[v]) others_higher = false;
  }
  return successors == 1 || predecessors == 1 || h[v] == h[u] + 1 || others_higher;
}

// Theorem 3.5 (iii) as it is printed, for all pairs.
bool printed_third_condition(const Graph& g, const std::vector<int>& h, const Pairs& pairs) {
  for (const auto& a : pairs)
    for (const auto& b : pairs)
      if (a != b && h[a.first] == h[b.second] + (h[b.second] - h[b.first]) && g.edge[a.first][b.second]) return false;
  return true;
}

Matrix arcs(const Graph& g, const std::vector<int>& h, const Pairs& pairs) {
  Matrix m(pairs.size(), std::vector<char>(pairs.size(), 0));
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t j = 0; j < pairs.size(); ++j) {
      const auto [ui, vi] = pairs[i];
      const auto [uj, vj] = pairs[j];
      m[i][j] = i != j && g.edge[ui][vj] && h[vi] == h[ui] + 1 && h[vj] == h[uj] + 1 && h[ui] == h[uj];
    }
  return m;
}

Graph random_graph(Rng& rng) {
  Graph g{2 + static_cast<int>(rng.below(9)), {}};
  g.edge.assign(g.n, std::vector<char>(g.n, 0));
  const uint64_t out_of = 2 + rng.below(5);
  for (int u = 0; u < g.n; ++u)
    for (int v = u + 1; v < g.n; ++v) g.edge[u][v] = rng.below(out_of) == 0;
  return g;
}

// As many pairs as (i), (ii) and the printed (iii) allow, in a random order.
Pairs printed_batch(Rng& rng, const Graph& g, const std::vector<int>& h) {
  Pairs edges, batch;
  for (int u = 0; u < g.n; ++u)
    for (int v = 0; v < g.n; ++v)
      if (g.edge[u][v] && second_condition(g, h, u, v)) edges.emplace_back(u, v);
  rng.shuffle(edges);
  std::vector<char> taken(g.n, 0);
  for (const auto& [u, v] : edges) {
    if (taken[u] || taken[v]) continue;
    batch.emplace_back(u, v);
    if (printed_third_condition(g, h, batch)) taken[u] = taken[v] = 1;
    else batch.pop_back();
  }
  return batch;
}

// Taken: (i), (ii), no cycle. Not taken: excluded by (i), (ii) or the bar.
void check_batch(const Graph& g, const std::vector<int>& h, const Pairs& batch) {
  std::vector<int> pair_of(g.n, -1);
  for (size_t i = 0; i < batch.size(); ++i)
    for (int v : {batch[i].first, batch[i].second}) {
      ASSERT_EQ(pair_of[v], -1) << "in two pairs";
      pair_of[v] = static_cast<int>(i);
    }
  ASSERT_FALSE(has_cycle(merged(g, batch)));
  for (int u = 0; u < g.n; ++u)
    for (int v = 0; v < g.n; ++v) {
      if (!g.edge[u][v]) continue;
      const bool taken = pair_of[u] >= 0 && pair_of[u] == pair_of[v], fits = second_condition(g, h, u, v);
      ASSERT_TRUE(!taken || fits);
      if (pair_of[u] >= 0 || pair_of[v] >= 0 || !fits) continue;
      ASSERT_EQ(h[v], h[u] + 1) << "was not taken";
      ASSERT_TRUE(std::any_of(batch.begin(), batch.end(), [&](const auto& b) {
        return g.edge[u][b.second] && h[b.first] == h[u] && h[b.second] == h[u] + 1;
      })) << "was not taken";
    }
}

// Returns the number of graphs in which a batch of the printed condition has a cycle.
int random_batches(uint64_t seed, int graphs) {
  SCOPED_TRACE(seed);
  Rng rng(seed);
  int printed_fails = 0;
  for (int round = 0; round < graphs && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    const Graph g = random_graph(rng);
    const std::vector<int> h = plain_heights(g);
    const Pairs printed = printed_batch(rng, g, h);
    const bool cycle = has_cycle(merged(g, printed));
    printed_fails += cycle;
    EXPECT_EQ(cycle, has_cycle(arcs(g, h, printed))) << "the arcs are not exact";
    std::vector<double> weights(7);
    for (double& w : weights) w = static_cast<double>(rng.below(4));
    const MergeGraph m = merge_graph(g, weights);
    EXPECT_EQ(heights(m), h);
    check_batch(g, h, edge_batch(m, h, SIZE_MAX, [](int, int) { return true; }));
  }
  return printed_fails;
}

Graph figure6() { return {4, {{0, 0, 1, 1}, {0, 0, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}}}; }

TEST(Batch, TheExample) {
  const Graph g = figure6();
  const std::vector<int> h = {1, 1, 2, 2};
  const Pairs both = {{0, 2}, {1, 3}};
  EXPECT_TRUE(second_condition(g, h, 0, 2) && second_condition(g, h, 1, 3) && printed_third_condition(g, h, both));
  EXPECT_TRUE(has_cycle(merged(g, both)));
  const auto all = [](int, int) { return true; };
  const MergeGraph m = merge_graph(g, {1});
  EXPECT_EQ(heights(m), h);
  EXPECT_EQ(edge_batch(m, h, 9, all), (Pairs{{0, 2}}));
  EXPECT_EQ(edge_batch(merge_graph(g, {1, 1, 1, 2}), h, 9, all), (Pairs{{1, 3}}));  // the heaviest
  EXPECT_EQ(edge_batch(m, h, 9, [](int u, int) { return u == 1; }), (Pairs{{1, 2}}));
  EXPECT_EQ(edge_batch(m, h, 0, all), Pairs{});
}

TEST(Batch, ACycleIsSaid) { EXPECT_ANY_THROW(heights({{0, 1, 2}, {1, 0}, {1, 1}})); }

TEST(Batch, OfRandomGraphs) { EXPECT_GT(random_batches(40, 3000), 0); }

TEST(ManyBatch, OfRandomGraphs) {
  const int fails = random_batches(41, 100'000);
  RecordProperty("graphs_with_a_cycle_by_the_printed_condition", fails);
  EXPECT_GT(fails, 1000);
}

}  // namespace
}  // namespace partita

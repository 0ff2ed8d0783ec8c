// Picks edges to merge greedily, by heights and degrees alone.
#include "partita/device_placement/batch.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "partita/base/error.h"

namespace partita {

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

struct Candidate {
  double weight;
  int u, v;
  bool operator<(const Candidate& b) const { return std::tie(b.weight, u, v) < std::tie(weight, b.u, b.v); }
};

// The edges that satisfy (ii).
std::vector<Candidate> candidates(const MergeGraph& g, const std::vector<int>& height, const Predecessors& before) {
  std::vector<Candidate> found;
  found.reserve(g.to.size());
  for (int u = 0; u < g.vertices(); ++u) {
    const int begin = g.first[at(u)], end = g.first[at(u) + 1];
    int lowest = INT32_MAX, as_low = 0;  // among u's successors
    for (int e = begin; e < end; ++e) {
      const int h = height[at(g.to[at(e)])];
      if (h < lowest) lowest = h, as_low = 0;
      if (h == lowest) ++as_low;
    }
    for (int e = begin; e < end; ++e) {
      const int v = g.to[at(e)], h = height[at(v)];
      const bool alone_lowest = h == lowest && as_low == 1;
      if (end - begin == 1 || before.count(v) == 1 || h == height[at(u)] + 1 || alone_lowest)
        found.push_back({g.weight[at(e)], u, v});
    }
  }
  return found;
}

}  // namespace

Predecessors predecessors(const MergeGraph& g) {
  Predecessors p{std::vector<int>(at(g.vertices()) + 1, 0), std::vector<int>(g.to.size())};
  for (int v : g.to) ++p.first[at(v) + 1];
  for (size_t v = 1; v < p.first.size(); ++v) p.first[v] += p.first[v - 1];
  std::vector<int> next(p.first.begin(), p.first.end() - 1);
  for (int u = 0; u < g.vertices(); ++u)
    for (int e = g.first[at(u)]; e < g.first[at(u) + 1]; ++e) p.from[at(next[at(g.to[at(e)])]++)] = u;
  return p;
}

std::vector<int> topological_order(const MergeGraph& g) {
  std::vector<int> missing(at(g.vertices()), 0), order;
  for (int v : g.to) ++missing[at(v)];
  order.reserve(missing.size());
  for (int u = 0; u < g.vertices(); ++u)
    if (missing[at(u)] == 0) order.push_back(u);
  for (size_t i = 0; i < order.size(); ++i)
    for (int e = g.first[at(order[i])]; e < g.first[at(order[i]) + 1]; ++e)
      if (--missing[at(g.to[at(e)])] == 0) order.push_back(g.to[at(e)]);
  ensure(order.size() == missing.size(), "of {} vertices {} are in or behind a cycle", missing.size(),
         missing.size() - order.size());
  return order;
}

std::vector<int> heights(const MergeGraph& g) {
  std::vector<int> height(at(g.vertices()), 1);
  for (int u : topological_order(g))
    for (int e = g.first[at(u)]; e < g.first[at(u) + 1]; ++e)
      height[at(g.to[at(e)])] = std::max(height[at(g.to[at(e)])], height[at(u)] + 1);
  return height;
}

std::vector<std::pair<int, int>> edge_batch(const MergeGraph& g, const std::vector<int>& height, size_t most,
                                            const MayMerge& may) {
  const Predecessors before = predecessors(g);
  std::vector<Candidate> edges = candidates(g, height, before);
  std::sort(edges.begin(), edges.end());
  std::vector<char> taken(height.size(), 0), barred(height.size(), 0);
  std::vector<std::pair<int, int>> batch;
  for (const Candidate& c : edges) {
    if (batch.size() >= most) break;
    const bool next = height[at(c.v)] == height[at(c.u)] + 1;
    if (taken[at(c.u)] || taken[at(c.v)] || (next && barred[at(c.u)]) || !may(c.u, c.v)) continue;
    taken[at(c.u)] = taken[at(c.v)] = 1;
    batch.emplace_back(c.u, c.v);
    if (!next) continue;
    for (int e = before.first[at(c.v)]; e < before.first[at(c.v) + 1]; ++e) {
      const int w = before.from[at(e)];
      if (w != c.u && height[at(w)] == height[at(c.u)]) barred[at(w)] = 1;
    }
  }
  return batch;
}

}  // namespace partita

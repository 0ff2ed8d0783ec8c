// Bounds the latency from paths.
#include <algorithm>
#include <set>

#include "partita/base/rng.h"
#include "partita/partitioning/cut.h"
#include "partita/partitioning/latency.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Paths {
 public:
  Paths(const Instance& instance, int q, const Watch& watch)
      : instance_(instance), q_(q), watch_(watch), units_(node_units()), least_(units_) {}

  // The path on which the sum of `weight` is largest.
  template <typename Weight>
  std::vector<int> longest(Weight weight) const {
    std::vector<double> sum(instance_.nodes.size());
    std::vector<int> from(instance_.nodes.size(), -1);
    int last = instance_.order.front();
    for (const int v : instance_.order) {
      for (const int u : instance_.nodes[v].reads)
        if (from[v] < 0 || sum[u] > sum[from[v]]) from[v] = u;
      sum[v] = weight(v) + (from[v] < 0 ? 0 : sum[from[v]]);
      if (sum[v] > sum[last]) last = v;
    }
    std::vector<int> path;
    for (int v = last; v >= 0; v = from[v]) path.push_back(v);
    std::reverse(path.begin(), path.end());
    return path;
  }

  double bound(const std::vector<int>& path) {
    const int m = static_cast<int>(path.size());
    const int most = static_cast<int>(std::min<long long>(m, static_cast<long long>(instance_.accelerators) * q_));
    std::vector<std::vector<double>> best(m + 1, std::vector<double>(most + 1, kInfinity));
    best[0][0] = 0;
    for (int i = 0; i < m; ++i) {
      for (int s = 0; s <= most; ++s)
        best[i + 1][s] = std::min(best[i + 1][s], best[i][s] + instance_.nodes[path[i]].cpu);
      for (int j = i; j < m && most > 0; ++j) {
        if (watch_.ended()) return 0;
        const double held = holds(path, i, j);
        if (held == kInfinity) continue;  // a longer run may have the nodes that this one lacks
        for (int s = 0; s < most; ++s) best[j + 1][s + 1] = std::min(best[j + 1][s + 1], best[i][s] + held);
      }
    }
    return *std::min_element(best[m].begin(), best[m].end());
  }

 private:
  Units node_units() const {
    std::vector<int> part(instance_.nodes.size());
    for (size_t v = 0; v < part.size(); ++v) part[v] = static_cast<int>(v);
    return units_of(instance_, part);
  }

  // The least time that a subgraph with path[i .. j] and no other of the path is held; infinite if it does not fit.
  double holds(const std::vector<int>& path, int i, int j) {
    const size_t n = instance_.nodes.size();
    std::vector<char> after(n), before(n), too_late(n), too_early(n);
    for (int at = i; at <= j; ++at) after[path[at]] = before[path[at]] = 1;
    if (i > 0) too_early[path[i - 1]] = 1;
    if (j + 1 < static_cast<int>(path.size())) too_late[path[j + 1]] = 1;
    for (const int v : instance_.order)
      for (const int u : instance_.nodes[v].reads) {
        after[v] |= after[u];
        too_late[v] |= too_late[u];
      }
    for (size_t at = n; at-- > 0;) {
      const int v = instance_.order[at];
      for (const int w : instance_.nodes[v].readers) {
        before[v] |= before[w];
        too_early[v] |= too_early[w];
      }
    }
    std::vector<Side> side(n, Side::kFree);
    std::vector<char> color(instance_.colors);
    double size = 0;
    for (size_t v = 0; v < n; ++v) {
      if (too_early[v] || too_late[v]) side[v] = Side::kOff;
      if (after[v] && before[v]) {
        side[v] = Side::kOn;
        color[instance_.nodes[v].color] = 1;
      }
    }
    for (size_t v = 0; v < n; ++v) {
      const Node& node = instance_.nodes[v];
      if (!color[node.color]) continue;  // nodes of a color are on the same accelerator, if q > 1 in another subgraph
      if (!node.supported) return kInfinity;
      if (q_ == 1 && side[v] == Side::kOff) return kInfinity;
      if (q_ == 1) side[v] = Side::kOn;
      size += node.size;
    }
    return size > instance_.max_size * (1 + 1e-12) ? kInfinity : least_(side);
  }

  const Instance& instance_;
  int q_;
  const Watch& watch_;
  Units units_;
  LeastLoad least_;
};

}  // namespace

double path_bound(const Instance& instance, int q, const Watch& watch) {
  Paths paths(instance, q, watch);
  const auto& nodes = instance.nodes;
  std::set<std::vector<int>> seen;
  double bound = 0;
  const auto take = [&](const std::vector<int>& path) {
    if (seen.insert(path).second) bound = std::max(bound, paths.bound(path));
  };
  take(paths.longest([&](int v) { return nodes[v].cpu; }));
  take(paths.longest([&](int v) { return nodes[v].accelerator + nodes[v].cost; }));
  take(paths.longest([&](int v) { return nodes[v].size; }));
  take(paths.longest([](int) { return 1.0; }));
  // And mixtures of times, costs and sizes, drawn.
  constexpr int kDrawn = 24;
  Rng rng(1);
  double cpu = 0, cost = 0, size = 0;
  for (const Node& node : nodes) cpu += node.cpu, cost += node.cost, size += node.size;
  for (int draw = 0; draw < kDrawn && !watch.ended(); ++draw) {
    const double a = rng.uniform() / std::max(cpu, 1e-300), b = rng.uniform() / std::max(cost, 1e-300),
                 c = rng.uniform() / std::max(size, 1e-300);
    take(paths.longest(
        [&](int v) { return (a * nodes[v].cpu + b * nodes[v].cost + c * nodes[v].size) * (0.5 + rng.uniform()); }));
  }
  return bound;
}

}  // namespace partita::partitioning

// Contracts classes to an acyclic graph and draws topological orders of it.
#include "partita/partitioning/order.h"

#include <algorithm>
#include <set>

namespace partita::partitioning {

namespace {

// Strongly connected parts of a graph (Tarjan), each node's number.
class StrongComponents {
 public:
  explicit StrongComponents(const std::vector<std::vector<int>>& to) : to_(to), index_(to.size(), -1), low_(to.size()) {
    part.assign(to.size(), -1);
    for (size_t v = 0; v < to.size(); ++v)
      if (index_[v] < 0) visit(static_cast<int>(v));
  }
  std::vector<int> part;
  int parts = 0;

 private:
  void visit(int start) {
    std::vector<std::pair<int, size_t>> path = {{start, 0}};
    open(start);
    while (!path.empty()) {
      auto& [v, next] = path.back();
      if (next < to_[v].size()) {
        const int w = to_[v][next++];
        if (index_[w] < 0) open(w), path.emplace_back(w, 0);
        else if (part[w] < 0) low_[v] = std::min(low_[v], index_[w]);
        continue;
      }
      if (low_[v] == index_[v]) close(v);
      const int done = v;
      path.pop_back();
      if (!path.empty()) low_[path.back().first] = std::min(low_[path.back().first], low_[done]);
    }
  }
  void open(int v) {
    index_[v] = low_[v] = count_++;
    stack_.push_back(v);
  }
  void close(int v) {
    for (int w = -1; w != v; stack_.pop_back()) part[w = stack_.back()] = parts;
    ++parts;
  }
  const std::vector<std::vector<int>>& to_;
  std::vector<int> index_, low_, stack_;
  int count_ = 0;
};

std::vector<std::vector<int>> sorted(const std::vector<std::set<int>>& sets) {
  std::vector<std::vector<int>> lists;
  for (const auto& set : sets) lists.emplace_back(set.begin(), set.end());
  return lists;
}

}  // namespace

OrderedUnits order_units(const Instance& instance) {
  const Units colors = color_units(instance, false);
  const int n = static_cast<int>(colors.units.size());
  std::vector<std::set<int>> after(n);
  for (size_t u = 0; u < instance.nodes.size(); ++u)
    for (const int v : instance.nodes[u].readers) {
      const int a = colors.unit_of[u], b = colors.unit_of[v];
      if (a == b) continue;
      if (!instance.nodes[v].backward) after[a].insert(b);
      else if (instance.nodes[u].backward && !(colors.units[a].forward && colors.units[b].forward)) after[b].insert(a);
    }
  const std::vector<std::vector<int>> to = sorted(after);
  const StrongComponents circles(to);
  std::vector<int> part(instance.nodes.size());
  for (size_t v = 0; v < part.size(); ++v) part[v] = circles.part[colors.unit_of[v]];
  OrderedUnits o{units_of(instance, part), {}, {}};
  std::vector<std::set<int>> before(circles.parts), later(circles.parts);
  for (int a = 0; a < n; ++a)
    for (const int b : to[a])
      if (circles.part[a] != circles.part[b]) {
        later[circles.part[a]].insert(circles.part[b]);
        before[circles.part[b]].insert(circles.part[a]);
      }
  o.before = sorted(before);
  o.after = sorted(later);
  return o;
}

bool order_is_enough(const OrderedUnits& o, double value) {
  const Instance& instance = *o.units.instance;
  const size_t n = o.units.units.size();
  for (const Unit& unit : o.units.units)
    if (1 != std::count_if(unit.nodes.begin(), unit.nodes.end(), [&](int v) { return !instance.nodes[v].backward; }))
      return false;
  // above[v][u]: u is before v.
  std::vector<std::vector<bool>> above(n, std::vector<bool>(n));
  std::vector<size_t> comparable(n);
  Rng rng(0);
  const std::vector<int> order = drawn_order(o, rng);
  for (const int v : order) {
    for (const int u : o.before[v]) {
      above[v][u] = true;
      for (size_t w = 0; w < n; ++w)
        if (above[u][w]) above[v][w] = true;
    }
    for (size_t w = 0; w < n; ++w)
      if (above[v][w]) ++comparable[v], ++comparable[w];
  }
  std::vector<int> region(n, -1);  // of units that are no bottleneck; by how many bottlenecks are before them
  int bottlenecks = 0;
  for (size_t v = 0; v < n; ++v) {
    if (comparable[v] == n - 1) {
      ++bottlenecks;
      continue;
    }
    region[v] = 0;
    for (size_t w = 0; w < n; ++w) region[v] += above[v][w] && comparable[w] == n - 1;
  }
  std::vector<double> load(bottlenecks + 1), cpu(load.size()), size(load.size());
  for (size_t v = 0; v < n; ++v) {
    if (region[v] < 0) continue;
    const Unit& unit = o.units.units[v];
    load[region[v]] += unit.accelerator;
    cpu[region[v]] += unit.cpu;
    size[region[v]] += unit.size;
    if (!unit.supported) return false;
  }
  for (const Net& net : o.units.nets) {
    std::set<int> regions;
    for (const int v : net.units)
      if (region[v] >= 0) regions.insert(region[v]);
    for (const int r : regions) load[r] += net.cost;
  }
  for (size_t r = 0; r < load.size(); ++r)
    if (load[r] >= value || size[r] > instance.max_size || (instance.cpus > 1 && cpu[r] >= value)) return false;
  return true;
}

std::vector<int> drawn_order(const OrderedUnits& o, Rng& rng) {
  std::vector<size_t> missing;
  std::vector<int> ready, order;
  for (size_t v = 0; v < o.before.size(); ++v) {
    missing.push_back(o.before[v].size());
    if (missing[v] == 0) ready.push_back(static_cast<int>(v));
  }
  rng.shuffle(ready);
  constexpr uint64_t kElsewhere = 16;  // one in so many is any that is ready
  while (!ready.empty()) {
    if (rng.below(kElsewhere) == 0) std::swap(ready[rng.below(ready.size())], ready.back());
    const int v = ready.back();
    ready.pop_back();
    order.push_back(v);
    const size_t first = ready.size();
    for (const int w : o.after[v])
      if (--missing[w] == 0) ready.push_back(w);
    for (size_t i = ready.size(); i > first + 1; --i) std::swap(ready[i - 1], ready[first + rng.below(i - first)]);
  }
  return order;
}

}  // namespace partita::partitioning

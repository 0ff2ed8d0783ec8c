// Makes networks of chains: each chain has some layouts, and each of its variables' values stands for one of them.
#include "partita/network/testing/forced_chains.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

namespace partita::solver {

namespace {

constexpr int kLayouts[] = {1, 2, 3, 4, 4, 5, 6, 6, 8, 9, 9, 12, 16, 24};

class Maker {
 public:
  Maker(const ForcedChains& recipe, uint64_t seed) : r_(recipe), rng_(seed) {}

  Network make() {
    for (int v = 0; v < r_.variables;) v = chain(v);
    for (size_t v = 0; v < chain_of_.size(); ++v) within(static_cast<int>(v));
    hub();
    across();
    uses();
    return std::move(n_);
  }

 private:
  struct Chain {
    int first = 0, layouts = 1, least = 0;  // `least`: the layout of least use, which every variable has
    std::vector<int64_t> parts;             // [layout]: the number of shards that divides its use
  };

  double log_uniform(double from, double to) { return std::pow(10, from + (to - from) * rng_.uniform()); }
  double pareto(double shape) { return std::pow(1 - rng_.uniform(), -1 / shape); }

  int chain(int first) {
    Chain c{first, kLayouts[rng_.below(std::size(kLayouts))], 0, {}};
    for (int l = 0; l < c.layouts; ++l) c.parts.push_back(int64_t{1} << rng_.below(4));
    c.least = static_cast<int>(std::max_element(c.parts.begin(), c.parts.end()) - c.parts.begin());
    const int size = static_cast<int>(std::min({3 * pareto(0.8), 4000.0, static_cast<double>(r_.variables - first)}));
    for (int i = 0; i < std::max(1, size); ++i) variable(c);
    chains_.push_back(c);
    return static_cast<int>(chain_of_.size());
  }

  void variable(const Chain& c) {
    std::vector<int> layouts;
    for (int l = 0; l < c.layouts; ++l)
      if (l == c.least || rng_.uniform() < 0.97) layouts.push_back(l);
    while (rng_.below(10) == 0) layouts.push_back(static_cast<int>(rng_.below(c.layouts)));
    rng_.shuffle(layouts);
    const double scale = log_uniform(2, 5);
    Table costs;
    for (int l : layouts)
      costs.push_back(rng_.below(5) < 2 ? 0
                                        : static_cast<int64_t>(scale * (0.5 + 1.0 / static_cast<double>(c.parts[l]))));
    n_.costs.push_back(std::move(costs));
    layouts_.push_back(std::move(layouts));
    chain_of_.push_back(static_cast<int>(chains_.size()));
  }

  template <typename Cost>
  void edge(int a, int b, const Cost& cost) {
    Table t;
    for (int x : layouts_[a])
      for (int y : layouts_[b]) t.push_back(cost(x, y));
    n_.edges.push_back({{a, b}, std::make_shared<const Table>(std::move(t))});
    taken_.insert(std::minmax(a, b));
  }

  // Adds an edge to the variable before, or to one a little further back.
  void within(int v) {
    const Chain& c = chains_[chain_of_[v]];
    if (v == c.first) return;
    const int back = rng_.below(5) == 0 ? static_cast<int>(rng_.below(std::min(20, v - c.first))) + 1 : 1;
    const bool loose = rng_.uniform() < r_.loose;
    edge(v - back, v, [&](int x, int y) -> int64_t {
      const int step = (y - x + c.layouts) % c.layouts;
      return x == y ? 0 : loose && step <= 2 ? rng_.between(1, 100'000) : kForbidden;
    });
  }

  void between(int a, int b, double forbidden) {
    const double scale = log_uniform(3, 6);
    std::map<std::pair<int, int>, int64_t> known;
    edge(a, b, [&](int x, int y) {
      const auto [it, fresh] = known.try_emplace({x, y}, 0);
      if (!fresh) return it->second;
      const bool least = x == chains_[chain_of_[a]].least && y == chains_[chain_of_[b]].least;
      if (!least && rng_.uniform() < forbidden) it->second = kForbidden;
      else if (rng_.below(4) != 0) it->second = static_cast<int64_t>(scale * (0.2 + 0.8 * rng_.uniform()));
      return it->second;
    });
  }

  // The first variable of the longest chain with many layouts.
  void hub() {
    auto size = [&](size_t c) {
      return (c + 1 < chains_.size() ? chains_[c + 1].first : r_.variables) - chains_[c].first;
    };
    size_t most = 0;
    for (size_t c = 1; c < chains_.size(); ++c)
      if (std::pair(chains_[c].layouts >= 8, size(c)) > std::pair(chains_[most].layouts >= 8, size(most))) most = c;
    const int hub = chains_[most].first;
    for (int tries = 0, made = 0; made < r_.hub_degree && tries < 20 * r_.hub_degree; ++tries) {
      const int v = static_cast<int>(rng_.below(r_.variables));
      if (chain_of_[v] == static_cast<int>(most) || taken_.contains(std::minmax(hub, v))) continue;
      between(std::min(hub, v), std::max(hub, v), 0.3);
      ++made;
    }
  }

  void across() {
    for (int tries = 0; static_cast<int>(n_.edges.size()) < r_.edges && tries < 20 * r_.edges; ++tries) {
      const int a = static_cast<int>(rng_.below(r_.variables)),
                b = std::min(r_.variables - 1, a + 1 + static_cast<int>(100 * pareto(1.5)));
      if (chain_of_[a] != chain_of_[b] && !taken_.contains({a, b})) between(a, b, 0.15);
    }
  }

  // Adds uses: most for a short while, some until the end; within `room` times the peak of the least use.
  void uses() {
    std::vector<int64_t> change(r_.variables + 1, 0);
    for (int v = 0; v < r_.variables; ++v) {
      const Chain& c = chains_[chain_of_[v]];
      const double length = rng_.below(20) == 0 ? r_.variables : 3 * pareto(0.6);
      const int until = static_cast<int>(std::min<double>(r_.variables, v + length));
      const auto size = static_cast<int64_t>(log_uniform(3, 7));
      n_.uses.push_back({v, v, until, {}});
      for (int l : layouts_[v]) n_.uses.back().amounts.push_back(size / c.parts[l]);
      change[v] += size / c.parts[c.least], change[until] -= size / c.parts[c.least];
    }
    int64_t now = 0, peak = 0;
    for (int64_t by : change) peak = std::max(peak, now += by);
    n_.limit = static_cast<int64_t>(r_.room * static_cast<double>(peak));
  }

  const ForcedChains r_;
  Rng rng_;
  Network n_;
  std::vector<Chain> chains_;
  std::vector<int> chain_of_;              // [variable]
  std::vector<std::vector<int>> layouts_;  // [variable][value]
  std::set<std::pair<int, int>> taken_;
};

}  // namespace

Network forced_chains(const ForcedChains& recipe, uint64_t seed) { return Maker(recipe, seed).make(); }

}  // namespace partita::solver

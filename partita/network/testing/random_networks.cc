// Makes random cost networks, shape by shape.
#include "partita/network/testing/random_networks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "partita/base/enum_words.h"
#include "partita/base/rng.h"

namespace partita::solver {

namespace {

class Maker {
 public:
  Maker(const Recipe& recipe, uint64_t seed) : r_(recipe), rng_(seed * 8 + static_cast<uint64_t>(recipe.family)) {}

  Network make() {
    switch (r_.family) {
      case Family::kChain:
        chain();
        break;
      case Family::kGrid:
        grid();
        break;
      case Family::kTreeOfBlocks:
        tree_of_blocks();
        break;
      case Family::kSeriesParallel:
        series_parallel();
        break;
      case Family::kLayered:
        layered();
        break;
    }
    if (r_.limited) limit();
    return std::move(n_);
  }

 private:
  int64_t cost() { return rng_.uniform() < r_.forbidden ? kForbidden : rng_.between(0, r_.largest); }
  Table costs(size_t size) {
    Table t(size);
    for (int64_t& c : t) c = cost();
    return t;
  }
  int variable() {
    n_.costs.push_back(costs(rng_.between(std::max(1, r_.values / 2), r_.values)));
    return n_.variables() - 1;
  }
  void edge(int a, int b) {
    n_.edges.push_back({{a, b}, std::make_shared<const Table>(costs(n_.costs[a].size() * n_.costs[b].size()))});
  }

  void chain() {
    for (int v = 0; v < r_.size; ++v) {
      variable();
      if (v > 0) edge(v - 1, v);
      if (v > 1 && rng_.below(8) == 0) edge(v, v - 2);
    }
  }

  void grid() {
    const int columns = std::max(1, static_cast<int>(std::sqrt(r_.size)));
    for (int v = 0; v < r_.size; ++v) {
      variable();
      if (v % columns > 0) edge(v - 1, v);
      if (v >= columns) edge(v - columns, v);
    }
  }

  void tree_of_blocks() {
    variable();
    while (n_.variables() < r_.size) {
      std::vector<int> block = {static_cast<int>(rng_.below(n_.variables()))};
      for (int more = static_cast<int>(rng_.between(1, 3)); more > 0; --more) {
        const int v = variable();
        for (int w : block) edge(w, v);
        block.push_back(v);
      }
    }
  }

  void series_parallel() {
    std::vector<std::pair<int, int>> edges = {{variable(), variable()}};
    while (n_.variables() < r_.size) {
      auto& e = edges[rng_.below(edges.size())];
      if (rng_.below(3) == 0) {
        edges.push_back(e);
        continue;
      }
      const int v = variable(), end = e.second;
      e.second = v;
      edges.push_back({v, end});
    }
    for (const auto& [a, b] : edges) edge(a, b);
  }

  int of_kind(int kind) {
    auto& known = kinds_[kind];
    if (known.empty()) known = costs(rng_.between(std::max(1, r_.values / 2), r_.values));
    n_.costs.push_back(known);
    kind_of_.push_back(kind);
    return n_.variables() - 1;
  }
  void shared_edge(int a, int b) {
    auto& table = tables_[{kind_of_[a], kind_of_[b]}];
    if (!table) table = std::make_shared<const Table>(costs(n_.costs[a].size() * n_.costs[b].size()));
    n_.edges.push_back({{a, b}, table});
  }

  void layered() {
    int stream = of_kind(0);
    while (n_.variables() < r_.size) {
      const int norm = of_kind(1), attention = of_kind(3), out = of_kind(4), sum = of_kind(5), up = of_kind(6),
                down = of_kind(7), next = of_kind(5);
      shared_edge(stream, norm);
      for (int i = 0; i < 3; ++i) {  // queries, keys, values, each with its weight
        const int projected = of_kind(2), weight = of_kind(8);
        shared_edge(norm, projected);
        shared_edge(projected, attention);
        shared_edge(projected, weight);
      }
      shared_edge(attention, out);
      shared_edge(out, sum);
      shared_edge(stream, sum);
      shared_edge(sum, up);
      shared_edge(up, down);
      shared_edge(down, next);
      shared_edge(sum, next);
      stream = next;
    }
  }

  // Early variables last longest, as activations do until they are used in the backward pass.
  void limit() {
    int64_t most = 0;
    for (int v = 0; v < n_.variables(); ++v) {
      if (rng_.below(3) == 0) continue;
      Network::Use use{v, v, 2 * n_.variables() - v, {}};
      for (size_t x = 0; x < n_.costs[v].size(); ++x) use.amounts.push_back(rng_.between(0, 100));
      most += *std::max_element(use.amounts.begin(), use.amounts.end());
      n_.uses.push_back(std::move(use));
    }
    n_.limit = most / 2;
  }

  const Recipe& r_;
  Rng rng_;
  Network n_;
  std::map<int, Table> kinds_;
  std::vector<int> kind_of_;
  std::map<std::pair<int, int>, std::shared_ptr<const Table>> tables_;
};

}  // namespace

std::string_view name_of(Family family) {
  constexpr EnumWords<Family::kLayered> kWords({"chain", "grid", "tree of blocks", "series-parallel", "layered"});
  return kWords.of(family);
}

Network random_network(const Recipe& recipe, uint64_t seed) { return Maker(recipe, seed).make(); }

Certificate::Leaf random_messages(Rng& rng, const Network& network) {
  constexpr int64_t kScale = 4, kLargest = 200;
  Certificate::Leaf leaf{kScale, {}, {}, {}};
  std::set<std::vector<int>> pairs;
  for (const Network::Edge& e : network.edges)
    if (e.over_two())
      pairs.insert({std::min(e.variables[0], e.variables[1]), std::max(e.variables[0], e.variables[1])});
  for (const std::vector<int>& pair : pairs) {
    leaf.messages.push_back({pair, {}});
    for (int v : pair) {
      leaf.messages.back().ends.emplace_back();
      for (int x = 0; x < network.domain(v); ++x)
        leaf.messages.back().ends.back().push_back(rng.between(-kLargest, kLargest));
    }
  }
  return leaf;
}

}  // namespace partita::solver

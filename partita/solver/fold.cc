// Folds a network by colour refinement.
#include "partita/solver/fold.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace partita::solver {

namespace {

// Numbers keys in order of appearance.
template <typename Key>
class Numbers {
 public:
  int operator()(Key key) {
    return numbers_.try_emplace(std::move(key), static_cast<int>(numbers_.size())).first->second;
  }
  int count() const { return static_cast<int>(numbers_.size()); }

 private:
  std::map<Key, int> numbers_;
};

// A list kept elsewhere, compared by value.
struct ByValue {
  const std::vector<int64_t>* list;
  friend auto operator<=>(const ByValue& a, const ByValue& b) { return *a.list <=> *b.list; }
};

using EdgeKey = std::pair<const Table*, std::vector<int>>;  // its table, its variables' classes

EdgeKey key_of(const Network::Edge& e, const std::vector<int>& class_of) {
  std::vector<int> classes;
  for (int v : e.variables) classes.push_back(class_of[v]);
  return {e.table.get(), std::move(classes)};
}

// Sums from forbidden costs on are forbidden too.
void add_costs(const Table& costs, int64_t times, Table& to) {
  for (size_t x = 0; x < costs.size(); ++x) {
    const Wide sum = to[x] + Wide{times} * costs[x];
    to[x] = to[x] >= kForbidden || costs[x] >= kForbidden || sum >= kForbidden
                ? kForbidden
                : static_cast<int64_t>(std::max(sum, Wide{-kForbidden}));
  }
}

// Tables that count several times, each made once.
class Sums {
 public:
  std::shared_ptr<const Table> operator()(const std::shared_ptr<const Table>& table, int64_t times) {
    if (times == 1) return table;
    auto& [of, sum] = known_[{table.get(), times}];
    if (sum) return sum;
    Table all(table->size(), 0);
    add_costs(*table, times, all);
    of = table;
    return sum = std::make_shared<const Table>(std::move(all));
  }

 private:
  std::map<std::pair<const Table*, int64_t>, std::pair<std::shared_ptr<const Table>, std::shared_ptr<const Table>>>
      known_;  // itself, and the sum
};

}  // namespace

Folding::Folding(const Network& network) : n_(&network), edges_of_(network.variables()) {
  for (const Network::Edge& e : n_->edges) widest_ = std::max(widest_, static_cast<int>(e.variables.size()));
  for (size_t e = 0; e < n_->edges.size(); ++e)
    for (size_t i = 0; i < n_->edges[e].variables.size(); ++i)
      edges_of_[n_->edges[e].variables[i]].push_back(static_cast<int>(e) * widest_ + static_cast<int>(i));
  std::vector<std::vector<ByValue>> own(n_->variables());
  for (const Network::Use& u : n_->uses) own[u.variable].push_back({&u.amounts});
  Numbers<std::vector<ByValue>> numbers;
  for (int v = 0; v < n_->variables(); ++v) {
    std::sort(own[v].begin(), own[v].end());
    own[v].push_back({&n_->costs[v]});
    class_of_.push_back(numbers(std::move(own[v])));
  }
  classes_ = numbers.count();
}

bool Folding::refine() {
  Numbers<EdgeKey> edges;
  std::vector<int> edge_class;
  for (const Network::Edge& e : n_->edges) edge_class.push_back(edges(key_of(e, class_of_)));
  Numbers<std::vector<int>> variables;
  std::vector<int> next;
  for (int v = 0; v < n_->variables(); ++v) {
    std::vector<int> key;
    for (int place : edges_of_[v]) key.push_back(edge_class[place / widest_] * widest_ + place % widest_);
    std::sort(key.begin(), key.end());
    key.push_back(class_of_[v]);
    next.push_back(variables(std::move(key)));
  }
  const bool finer = variables.count() > classes_;
  classes_ = variables.count();
  class_of_ = std::move(next);
  return finer;
}

Folding::Folded Folding::folded() const {
  Folded folded;
  folded.class_of = class_of_;
  Network& out = folded.once;
  out.costs.resize(classes_);
  Numbers<EdgeKey> kinds;
  std::vector<size_t> first;  // [kind]: an edge of it
  for (size_t e = 0; e < n_->edges.size(); ++e) {
    folded.edge_of.push_back(kinds(key_of(n_->edges[e], class_of_)));
    if (kinds.count() > static_cast<int>(first.size())) first.push_back(e), folded.times.push_back(0);
    ++folded.times[folded.edge_of.back()];
  }
  for (int v = 0; v < n_->variables(); ++v) {
    Table& costs = out.costs[class_of_[v]];
    costs.resize(n_->costs[v].size(), 0);
    add_costs(n_->costs[v], 1, costs);
  }
  Sums sums;
  for (size_t kind = 0; kind < first.size(); ++kind) {
    const Network::Edge& edge = n_->edges[first[kind]];
    out.edges.push_back({key_of(edge, class_of_).second, edge.table});
    if (!out.edges.back().over_two()) out.edges.back().table = sums(edge.table, std::exchange(folded.times[kind], 1));
  }
  out.uses = n_->uses;
  for (Network::Use& u : out.uses) u.variable = class_of_[u.variable];
  out.limit = n_->limit;
  return folded;
}

Folding::Folded Folding::Folded::not_at_all(const Network& network) {
  Folded folded{std::vector<int>(network.costs.size()), network, std::vector<int>(network.edges.size()),
                std::vector<int64_t>(network.edges.size(), 1)};
  std::iota(folded.class_of.begin(), folded.class_of.end(), 0);
  std::iota(folded.edge_of.begin(), folded.edge_of.end(), 0);
  return folded;
}

Network Folding::Folded::with_times(Network n) const {
  Sums sums;
  for (size_t e = 0; e < n.edges.size(); ++e) n.edges[e].table = sums(n.edges[e].table, times[e]);
  return n;
}

Assignment Folding::Folded::of_whole(const Assignment& of_once) const {
  Assignment whole;
  for (int c : class_of) whole.push_back(of_once[c]);
  return whole;
}

Assignment Folding::Folded::of_folded(const Assignment& whole) const {
  Assignment out(once.costs.size(), -1);
  for (size_t v = 0; v < whole.size(); ++v)
    if (out[class_of[v]] < 0) out[class_of[v]] = whole[v];
  return out;
}

}  // namespace partita::solver

#include "partita/solver/eliminate.h"

#include <algorithm>
#include <map>

#include "partita/network/elimination_order.h"
#include "partita/solver/vectors.h"

namespace partita::solver {

namespace {

constexpr int64_t kInfinite =
    int64_t{1} << 61;  // two of them add up; so large is what is forbidden, and any sum from there on

// A table over `scope`, the variable that is eliminated first fastest. No cost is negative.
struct Factor {
  std::vector<int> scope;
  std::shared_ptr<const std::vector<int64_t>> costs;
};

std::vector<int> distinct(std::vector<int> variables) {
  std::sort(variables.begin(), variables.end());
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  return variables;
}

// out = min_x sum of rows[..][x].
PARTITA_VECTORISED int64_t least_sum(const int64_t* const* rows, size_t count, int values, int64_t* scratch) {
  for (int x = 0; x < values; ++x) scratch[x] = rows[0][x];
  for (size_t i = 1; i < count; ++i) {
    const int64_t* row = rows[i];
    for (int x = 0; x < values; ++x) {
      const int64_t sum = scratch[x] + row[x];
      scratch[x] = sum < kInfinite ? sum : kInfinite;
    }
  }
  int64_t least = kInfinite;
  for (int x = 0; x < values; ++x) least = scratch[x] < least ? scratch[x] : least;
  return least;
}

class Eliminator {
 public:
  Eliminator(const Network& network, const EliminationPlan& plan, const std::function<bool()>& stop)
      : n_(network), order_(plan.order), stop_(stop), rank_(network.variables()), buckets_(network.variables()) {
    for (size_t i = 0; i < order_.size(); ++i) rank_[order_[i]] = static_cast<int>(i);
  }

  std::optional<Eliminated> run() {
    for (int v = 0; v < n_.variables(); ++v) take({v}, std::make_shared<const Table>(n_.costs[v]));
    for (const Network::Edge& e : n_.edges) take(e.variables, e.table);
    for (int v : order_)
      if (!eliminate(v)) return std::nullopt;
    Eliminated result;
    if (least_ >= kInfinite) {
      if (largest_ < kInfinite) return result;
      return std::nullopt;
    }
    result.cost = constant_ + least_;
    result.solution = trace();
    return result;
  }

 private:
  // An edge's table less its least cost; edges that share a table share what is made of it. Over variables of one value
  // it is over the others.
  void take(const std::vector<int>& variables, const std::shared_ptr<const Table>& table) {
    std::vector<int> scope = distinct(variables);
    std::erase_if(scope, [&](int v) { return n_.domain(v) == 1; });
    std::sort(scope.begin(), scope.end(), [&](int v, int w) { return rank_[v] > rank_[w]; });
    std::vector<size_t> strides(scope.size(), 0);
    size_t stride = 1;
    for (size_t i = variables.size(); i-- > 0;) {
      if (n_.domain(variables[i]) == 1) continue;
      strides[std::find(scope.begin(), scope.end(), variables[i]) - scope.begin()] += stride;
      stride *= n_.costs[variables[i]].size();
    }
    std::vector<int> sizes;
    for (int v : scope) sizes.push_back(n_.domain(v));
    auto& made = made_[{table, strides, sizes}];
    if (!made.costs) {
      std::vector<int64_t> costs;
      int64_t least = kForbidden, most = -kForbidden;
      std::vector<int> x(scope.size(), 0);
      do {
        size_t at = 0;
        for (size_t i = 0; i < x.size(); ++i) at += strides[i] * static_cast<size_t>(x[i]);
        costs.push_back((*table)[at]);
        if (costs.back() < kForbidden) least = std::min(least, costs.back()), most = std::max(most, costs.back());
      } while (next(x, sizes));
      made.least = least < kForbidden ? least : 0;
      made.span = least < kForbidden ? Wide{most} - least : 0;
      for (int64_t& c : costs)
        c = c >= kForbidden ? kInfinite : static_cast<int64_t>(std::min(Wide{c} - made.least, Wide{kInfinite}));
      made.costs = std::make_shared<const std::vector<int64_t>>(std::move(costs));
    }
    constant_ += made.least;
    largest_ += made.span;
    put({scope, made.costs});
  }

  // The next combination, the last fastest; false after the last one.
  static bool next(std::vector<int>& x, const std::vector<int>& sizes) {
    for (size_t i = x.size(); i-- > 0;) {
      if (++x[i] < sizes[i]) return true;
      x[i] = 0;
    }
    return false;
  }

  void put(Factor f) {
    if (f.scope.empty()) least_ = std::min(kInfinite, least_ + (*f.costs)[0]);
    else buckets_[f.scope.back()].push_back(std::move(f));
  }

  // Replaces all that v is part of with its minimum over v's values.
  bool eliminate(int v) {
    const std::vector<Factor>& bucket = buckets_[v];
    if (bucket.empty()) return true;  // of one value
    std::vector<int> all;
    for (const Factor& f : bucket) all.insert(all.end(), f.scope.begin(), f.scope.end());
    all = distinct(all);
    std::erase(all, v);
    std::sort(all.begin(), all.end(), [&](int a, int b) { return rank_[a] > rank_[b]; });
    // strides[place in `all`][factor]
    std::vector<std::vector<size_t>> strides(all.size(), std::vector<size_t>(bucket.size(), 0));
    for (size_t f = 0; f < bucket.size(); ++f) {
      size_t stride = 1;
      for (size_t i = bucket[f].scope.size(); i-- > 0;) {
        if (bucket[f].scope[i] != v)
          strides[std::find(all.begin(), all.end(), bucket[f].scope[i]) - all.begin()][f] = stride;
        stride *= n_.costs[bucket[f].scope[i]].size();
      }
    }
    std::vector<const int64_t*> rows;
    for (const Factor& f : bucket) rows.push_back(f.costs->data());
    std::vector<int64_t> scratch(n_.costs[v].size()), costs;
    std::vector<int> x(all.size(), 0);
    for (bool more = true; more;) {
      if ((costs.size() & 0xffff) == 0 && stop_ && stop_()) return false;
      costs.push_back(least_sum(rows.data(), rows.size(), n_.domain(v), scratch.data()));
      more = false;
      for (size_t i = all.size(); i-- > 0 && !more;) {
        more = ++x[i] < n_.domain(all[i]);
        const size_t steps = more ? 1 : static_cast<size_t>(x[i]) - 1;
        for (size_t f = 0; f < rows.size(); ++f)
          rows[f] = more ? rows[f] + strides[i][f] : rows[f] - steps * strides[i][f];
        if (!more) x[i] = 0;
      }
    }
    put({all, std::make_shared<const std::vector<int64_t>>(std::move(costs))});
    return true;
  }

  // Backwards, each variable at its best beside those that were eliminated after it; ties take the lowest value.
  Assignment trace() const {
    Assignment x(n_.variables(), 0);
    for (size_t i = order_.size(); i-- > 0;) {
      const int v = order_[i];
      std::vector<const int64_t*> rows;
      for (const Factor& f : buckets_[v]) {
        size_t at = 0;
        for (int w : f.scope) at = at * n_.costs[w].size() + (w == v ? 0 : x[w]);
        rows.push_back(f.costs->data() + at);
      }
      std::vector<int64_t> sums(n_.costs[v].size(), 0);
      for (const int64_t* row : rows)
        for (size_t y = 0; y < sums.size(); ++y) sums[y] = std::min(kInfinite, sums[y] + row[y]);
      x[v] = static_cast<int>(std::min_element(sums.begin(), sums.end()) - sums.begin());
    }
    return x;
  }

  struct Made {
    std::shared_ptr<const std::vector<int64_t>> costs;
    int64_t least = 0;
    Wide span = 0;
  };
  const Network& n_;
  const std::vector<int>& order_;
  const std::function<bool()>& stop_;
  std::vector<int> rank_;
  std::vector<std::vector<Factor>> buckets_;  // [variable]: those it is the first to go of
  std::map<std::tuple<std::shared_ptr<const Table>, std::vector<size_t>, std::vector<int>>, Made> made_;
  Wide constant_ = 0, largest_ = 0;  // of all least costs; of what costs can be above them
  int64_t least_ = 0;
};

}  // namespace

std::optional<EliminationPlan> plan_elimination(const Network& n, int64_t bytes) {
  std::vector<std::set<int>> neighbours(n.variables());
  std::vector<int> domains;
  EliminationPlan plan;
  for (int v = 0; v < n.variables(); ++v) domains.push_back(n.domain(v));
  std::set<const Table*> counted;
  for (const Network::Edge& e : n.edges) {
    for (int v : e.variables)
      for (int w : e.variables)
        if (v != w && n.domain(v) > 1 && n.domain(w) > 1) neighbours[v].insert(w);
    if (counted.insert(e.table.get()).second) plan.bytes += static_cast<int64_t>(sizeof(int64_t) * e.table->size());
  }
  EliminationGame game(domains, std::move(neighbours));
  while (!game.done()) {
    const int v = game.next();
    if (game.table_bits(v) > 60) return std::nullopt;
    int64_t entries = 1;
    for (int w : game.neighbours(v)) entries *= domains[w];
    if (entries > bytes || (plan.bytes += entries * static_cast<int64_t>(sizeof(int64_t))) > bytes) return std::nullopt;
    plan.width = std::max(plan.width, static_cast<int>(game.neighbours(v).size()));
    plan.largest_table = std::max(plan.largest_table, entries);
    plan.work += entries * domains[v];
    plan.order.push_back(v);
    game.eliminate(v);
  }
  return plan;
}

std::optional<EliminationPlan> plan_to_prove(const Network& network, int64_t bytes) {
  constexpr int64_t kMostBytes = int64_t{1} << 28, kMostWork = 300'000'000;
  auto plan = plan_elimination(network, std::min(bytes, kMostBytes));
  if (plan && plan->work > kMostWork) plan.reset();
  return plan;
}

std::optional<Eliminated> eliminate(const Network& network, const EliminationPlan& plan,
                                    const std::function<bool()>& stop) {
  return Eliminator(network, plan, stop).run();
}

}  // namespace partita::solver

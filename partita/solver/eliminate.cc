// Eliminates a network exactly in 64-bit integers, and tells whether its tables fit.
#include "partita/solver/eliminate.h"

#include <algorithm>
#include <map>

#include "partita/network/buckets.h"
#include "partita/network/elimination_order.h"
#include "partita/solver/vectors.h"

namespace partita::solver {

namespace {

constexpr int64_t kInfinite = int64_t{1} << 61;  // two of them add up; forbidden costs, and all sums from there on

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

// Sums that saturate at kInfinite. No cost is negative.
struct Saturating {
  using Cost = int64_t;
  static Cost sum(Cost a, Cost b) { return std::min(kInfinite, a + b); }
  static bool less(Cost a, Cost b) { return a < b; }
  static Cost least_sum(const Cost* const* rows, size_t count, int values, Cost* scratch) {
    return partita::solver::least_sum(rows, count, values, scratch);
  }
};

std::vector<int> domains_of(const Network& n) {
  std::vector<int> domains;
  for (int v = 0; v < n.variables(); ++v) domains.push_back(n.domain(v));
  return domains;
}

class Eliminator {
 public:
  Eliminator(const Network& network, const EliminationPlan& plan, const std::function<bool()>& stop)
      : n_(network), order_(plan.order), stop_(stop), buckets_(domains_of(network), plan.order) {}

  std::optional<Eliminated> run() {
    for (int v = 0; v < n_.variables(); ++v) take({v}, std::make_shared<const Table>(n_.costs[v]));
    for (const Network::Edge& e : n_.edges) take(e.variables, e.table);
    const auto ends = [&](size_t entries) { return (entries & 0xffff) == 0 && stop_ && stop_(); };
    for (int v : order_)
      if (!buckets_.eliminate(v, buckets_.around(v), ends)) return std::nullopt;
    Eliminated result;
    if (buckets_.rest() >= kInfinite) {
      if (largest_ < kInfinite) return result;
      return std::nullopt;
    }
    result.cost = constant_ + buckets_.rest();
    result.solution = buckets_.solutions(1)[0];
    return result;
  }

 private:
  // Takes an edge's table less its least cost; edges that share a table share the result. Variables of one value drop
  // out.
  void take(const std::vector<int>& variables, const std::shared_ptr<const Table>& table) {
    std::vector<int> scope = distinct(variables);
    std::erase_if(scope, [&](int v) { return n_.domain(v) == 1; });
    std::sort(scope.begin(), scope.end(), [&](int v, int w) { return buckets_.rank(v) > buckets_.rank(w); });
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
    buckets_.put({scope, made.costs});
  }

  // The next combination, the last fastest; false after the last one.
  static bool next(std::vector<int>& x, const std::vector<int>& sizes) {
    for (size_t i = x.size(); i-- > 0;) {
      if (++x[i] < sizes[i]) return true;
      x[i] = 0;
    }
    return false;
  }

  struct Made {
    std::shared_ptr<const std::vector<int64_t>> costs;
    int64_t least = 0;
    Wide span = 0;
  };
  const Network& n_;
  const std::vector<int>& order_;
  const std::function<bool()>& stop_;
  Buckets<Saturating> buckets_;
  std::map<std::tuple<std::shared_ptr<const Table>, std::vector<size_t>, std::vector<int>>, Made> made_;
  Wide constant_ = 0, largest_ = 0;  // of all least costs; the largest possible cost above them
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

#include "partita/search/elimination.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "partita/base/error.h"

namespace partita {

namespace {

// A table over `scope`, row-major, the last variable fastest.
struct Factor {
  std::vector<int> scope;
  std::vector<Cost> cost;
};

// Where an assignment stands in a factor's table.
size_t place(const Factor& factor, const std::vector<int>& value, const CostNetwork& network) {
  size_t at = 0;
  for (int v : factor.scope) at = at * static_cast<size_t>(network.domain(v)) + static_cast<size_t>(value[v]);
  return at;
}

// A variable, and all factors that name it when it is eliminated.
struct Bucket {
  int variable = -1;
  std::vector<Factor> factors;
};

Cost bucket_cost(const Bucket& bucket, const std::vector<int>& value, const CostNetwork& network) {
  Cost sum;
  for (const Factor& f : bucket.factors) sum = sum + f.cost[place(f, value, network)];
  return sum;
}

// The next assignment of the variables of `scope`, the last fastest; false after the last one.
bool advance(std::vector<int>& value, const std::vector<int>& scope, const CostNetwork& network) {
  for (size_t i = scope.size(); i-- > 0;) {
    if (++value[scope[i]] < network.domain(scope[i])) return true;
    value[scope[i]] = 0;
  }
  return false;
}

void enumerate(const std::vector<Bucket>& buckets, size_t left, std::vector<int>& value, const CostNetwork& network, int max_solutions,
               std::vector<std::vector<int>>& out) {
  if (left == 0) {
    out.push_back(value);
    return;
  }
  const Bucket& bucket = buckets[left - 1];
  int v = bucket.variable;
  std::vector<Cost> costs;
  for (value[v] = 0; value[v] < network.domain(v); ++value[v]) costs.push_back(bucket_cost(bucket, value, network));
  Cost best = *std::min_element(costs.begin(), costs.end());
  for (size_t x = 0; x < costs.size(); ++x) {
    if (costs[x] != best) continue;
    value[v] = static_cast<int>(x);
    enumerate(buckets, left - 1, value, network, max_solutions, out);
    if (static_cast<int>(out.size()) >= max_solutions) return;
  }
}

}  // namespace

Cost CostNetwork::evaluate(const std::vector<int>& values) const {
  Cost sum;
  for (int v = 0; v < variables(); ++v) sum = sum + unary[v][values[v]];
  for (const Pair& p : pairs) sum = sum + p.cost[static_cast<size_t>(values[p.a]) * unary[p.b].size() + static_cast<size_t>(values[p.b])];
  return sum;
}

std::optional<Elimination> eliminate(const CostNetwork& network, const std::vector<int>& order, int max_solutions, int64_t max_table) {
  ensure(static_cast<int>(order.size()) == network.variables(), "elimination order names {} of {} variables", order.size(), network.variables());
  std::vector<int> rank(network.variables());
  for (size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<int>(i);
  // A factor waits in the bucket of its first variable to go.
  std::vector<Bucket> buckets(order.size());
  for (size_t i = 0; i < order.size(); ++i) buckets[i].variable = order[i];
  auto put = [&](Factor f) {
    int first = rank[f.scope[0]];
    for (int v : f.scope) first = std::min(first, rank[v]);
    buckets[first].factors.push_back(std::move(f));
  };
  for (int v = 0; v < network.variables(); ++v) put({{v}, network.unary[v]});
  for (const CostNetwork::Pair& p : network.pairs) put({{p.a, p.b}, p.cost});

  Elimination result;
  std::vector<int> value(network.variables(), 0);
  for (Bucket& bucket : buckets) {
    std::set<int> around;
    for (const Factor& f : bucket.factors) around.insert(f.scope.begin(), f.scope.end());
    around.erase(bucket.variable);
    Factor made{{around.begin(), around.end()}, {}};
    double size = 1;
    for (int v : made.scope) size *= network.domain(v);
    if (size > static_cast<double>(max_table)) return std::nullopt;
    result.largest_table = std::max(result.largest_table, static_cast<int64_t>(size));
    result.width = std::max(result.width, static_cast<int>(made.scope.size()));
    made.cost.reserve(static_cast<size_t>(size));
    for (int v : made.scope) value[v] = 0;
    int& x = value[bucket.variable];
    do {
      x = 0;
      Cost best = bucket_cost(bucket, value, network);
      for (x = 1; x < network.domain(bucket.variable); ++x) best = std::min(best, bucket_cost(bucket, value, network));
      made.cost.push_back(best);
    } while (advance(value, made.scope, network));
    if (made.scope.empty()) result.cost = result.cost + made.cost[0];
    else put(std::move(made));
  }
  enumerate(buckets, buckets.size(), value, network, std::max(1, max_solutions), result.solutions);
  return result;
}

std::vector<int> small_table_order(const CostNetwork& network) {
  int n = network.variables();
  std::vector<std::set<int>> around(n);
  for (const CostNetwork::Pair& p : network.pairs)
    if (p.a != p.b) around[p.a].insert(p.b), around[p.b].insert(p.a);
  auto weight = [&](int v) {  // log2 of the table that eliminating v makes
    double sum = 0;
    for (int u : around[v]) sum += std::log2(network.domain(u));
    return sum;
  };
  std::set<std::pair<double, int>> queue;
  std::vector<double> known(n);
  for (int v = 0; v < n; ++v) queue.insert({known[v] = weight(v), v});
  std::vector<int> order;
  while (!queue.empty()) {
    int v = queue.begin()->second;
    queue.erase(queue.begin());
    order.push_back(v);
    std::vector<int> ring(around[v].begin(), around[v].end());
    for (int a : ring) {
      around[a].erase(v);
      for (int b : ring)
        if (a != b) around[a].insert(b);
    }
    for (int a : ring) {
      queue.erase({known[a], a});
      queue.insert({known[a] = weight(a), a});
    }
  }
  return order;
}

Elimination brute_force(const CostNetwork& network, int max_solutions) {
  std::vector<int> scope(network.variables()), value(network.variables(), 0);
  for (int v = 0; v < network.variables(); ++v) scope[v] = v;
  Elimination best;
  bool any = false;
  do {
    Cost cost = network.evaluate(value);
    if (!any || cost < best.cost) {
      best.cost = cost;
      best.solutions.clear();
      any = true;
    }
    if (cost == best.cost && static_cast<int>(best.solutions.size()) < max_solutions) best.solutions.push_back(value);
  } while (advance(value, scope, network));
  return best;
}

}  // namespace partita

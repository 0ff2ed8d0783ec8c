// Bucket elimination with costs of two ranks, all ties in order, and elimination around variables that are held.
#include "partita/search/elimination.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "partita/base/error.h"
#include "partita/network/elimination_order.h"

namespace partita {

namespace {

constexpr char kWhere[] = "while variables were eliminated";

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

void enumerate(const std::vector<Bucket>& buckets, size_t left, std::vector<int>& value, const CostNetwork& network,
               int max_solutions, std::vector<std::vector<int>>& out) {
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
  for (const Pair& p : pairs)
    sum = sum + p.cost[static_cast<size_t>(values[p.a]) * unary[p.b].size() + static_cast<size_t>(values[p.b])];
  return sum;
}

std::optional<Elimination> eliminate(const CostNetwork& network, const std::vector<int>& order, int max_solutions,
                                     int64_t max_table, const Watch& watch) {
  ensure(static_cast<int>(order.size()) == network.variables(), "elimination order names {} of {} variables",
         order.size(), network.variables());
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
  Polling polling(watch, kWhere, 256);
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
      polling.step();
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

namespace {

std::vector<std::set<int>> neighbours(const CostNetwork& network) {
  std::vector<std::set<int>> around(network.variables());
  for (const CostNetwork::Pair& p : network.pairs)
    if (p.a != p.b) around[p.a].insert(p.b), around[p.b].insert(p.a);
  return around;
}

// Variables in order, each at its cheapest value given those before it and the best of those behind it.
std::vector<int> greedy(const CostNetwork& network) {
  std::vector<std::vector<const CostNetwork::Pair*>> pairs(network.variables());
  for (const CostNetwork::Pair& p : network.pairs) pairs[p.a].push_back(&p), pairs[p.b].push_back(&p);
  std::vector<int> value(network.variables(), -1);
  for (int v = 0; v < network.variables(); ++v) {
    std::vector<Cost> costs = network.unary[v];
    for (const CostNetwork::Pair* p : pairs[v]) {
      const int other = p->a == v ? p->b : p->a;
      auto at = [&](int x, int y) {
        return p->cost[p->a == v ? static_cast<size_t>(x * network.domain(other) + y)
                                 : static_cast<size_t>(y * network.domain(v) + x)];
      };
      for (int x = 0; x < network.domain(v); ++x) {
        if (other == v) {
          costs[x] = costs[x] + p->cost[static_cast<size_t>(x * network.domain(v) + x)];
          continue;
        }
        Cost best = at(x, std::max(value[other], 0));
        if (value[other] < 0)
          for (int y = 1; y < network.domain(other); ++y) best = std::min(best, at(x, y));
        costs[x] = costs[x] + best;
      }
    }
    value[v] = static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  }
  return value;
}

// An elimination order by smallest next table, ties by index, of all variables but those that have to be held for
// tables of at most 2^limit entries. A variable that was held often is held late.
struct Cutset {
  std::vector<int> order;
  std::vector<bool> held;
};
Cutset choose_cutset(const CostNetwork& network, double limit, const std::vector<int>& times_held, const Watch& watch) {
  Cutset cutset{{}, std::vector<bool>(network.variables(), false)};
  std::vector<int> domains;
  for (int v = 0; v < network.variables(); ++v) domains.push_back(network.domain(v));
  EliminationGame game(std::move(domains), neighbours(network));
  Polling polling(watch, kWhere, 16);
  while (!game.done()) {
    polling.step();
    int v = game.next();
    if (game.table_bits(v) <= limit) {
      game.eliminate(v);
      cutset.order.push_back(v);
      continue;
    }
    auto gain = [&](int u) { return game.table_bits(u) / (1 + 2 * times_held[u]); };
    for (const auto& [unused, u] : game.left())
      if (gain(u) > gain(v) || (gain(u) == gain(v) && u < v)) v = u;
    game.remove(v);
    cutset.held[v] = true;
  }
  return cutset;
}

// The network of the variables that are not held; `order` in its numbers.
CostNetwork condition(const CostNetwork& network, const Cutset& cutset, const std::vector<int>& value,
                      std::vector<int>& number) {
  CostNetwork rest;
  number.assign(network.variables(), -1);
  for (int v : cutset.order) {
    number[v] = rest.variables();
    rest.unary.push_back(network.unary[v]);
  }
  for (const CostNetwork::Pair& p : network.pairs) {
    if (number[p.a] >= 0 && number[p.b] >= 0) {
      rest.pairs.push_back({number[p.a], number[p.b], p.cost});
    } else if (const int free = number[p.a] >= 0 ? p.a : p.b; number[free] >= 0) {
      for (int x = 0; x < network.domain(free); ++x) {
        const int a = free == p.a ? x : value[p.a], b = free == p.a ? value[p.b] : x;
        Cost& cost = rest.unary[number[free]][x];
        cost = cost + p.cost[static_cast<size_t>(a) * network.unary[p.b].size() + static_cast<size_t>(b)];
      }
    }
  }
  return rest;
}

}  // namespace

Conditioned eliminate_around(const CostNetwork& network, const Watch& watch, int64_t max_table, int rounds) {
  constexpr int kIdleRounds = 4;
  Conditioned result;
  result.solution = greedy(network);
  result.cost = network.evaluate(result.solution);
  std::vector<int> times_held(network.variables(), 0);
  for (int idle = 0; result.rounds < rounds && idle < kIdleRounds; ++result.rounds) {
    const Cutset cutset = choose_cutset(network, std::log2(static_cast<double>(max_table)), times_held, watch);
    std::vector<int> number, order(cutset.order.size());
    const CostNetwork rest = condition(network, cutset, result.solution, number);
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    const auto solved = eliminate(rest, order, 1, max_table, watch);
    ensure(solved.has_value(), "the tables of {} conditioned variables do not fit", rest.variables());
    for (int v : cutset.order) result.solution[v] = solved->solutions[0][number[v]];
    const Cost before = result.cost;
    result.cost = network.evaluate(result.solution);
    idle = result.cost < before ? 0 : idle + 1;
    int held = 0;
    for (int v = 0; v < network.variables(); ++v)
      if (cutset.held[v]) ++times_held[v], ++held;
    if (result.rounds == 0) result.held = held;
    if (held == 0) idle = kIdleRounds;
  }
  return result;
}

std::vector<int> small_table_order(const CostNetwork& network, const Watch& watch) {
  return choose_cutset(network, std::numeric_limits<double>::infinity(), std::vector<int>(network.variables(), 0),
                       watch)
      .order;
}

bool fits_elimination(const CostNetwork& network, int64_t max_table, const Watch& watch) {
  return choose_cutset(network, std::log2(static_cast<double>(max_table)), std::vector<int>(network.variables(), 0),
                       watch)
             .order.size() == static_cast<size_t>(network.variables());
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

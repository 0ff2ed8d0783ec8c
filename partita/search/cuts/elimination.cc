// Eliminates variables with costs of two ranks, all ties in order, and around held variables.
#include "partita/search/cuts/elimination.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "partita/base/error.h"
#include "partita/network/buckets.h"
#include "partita/network/elimination_order.h"

namespace partita {

namespace {

constexpr char kWhere[] = "while variables were eliminated";

// Bytes moved before bytes stored.
struct TwoRanks {
  using Cost = partita::Cost;
  static Cost sum(Cost a, Cost b) { return a + b; }
  static bool less(Cost a, Cost b) { return a < b; }
  static Cost least_sum(const Cost* const* rows, size_t count, int values, Cost* scratch) {
    std::copy_n(rows[0], values, scratch);
    for (size_t i = 1; i < count; ++i)
      for (int x = 0; x < values; ++x) scratch[x] = scratch[x] + rows[i][x];
    return *std::min_element(scratch, scratch + values);
  }
};

// A pair's table with the variable that is eliminated first fastest.
Factor<Cost> factor_of(const CostNetwork& network, const CostNetwork::Pair& p, const Buckets<TwoRanks>& buckets) {
  if (buckets.rank(p.a) > buckets.rank(p.b)) return {{p.a, p.b}, std::make_shared<const std::vector<Cost>>(p.cost)};
  const auto rows = static_cast<size_t>(network.domain(p.a)), columns = static_cast<size_t>(network.domain(p.b));
  std::vector<Cost> turned(p.cost.size());
  for (size_t x = 0; x < rows; ++x)
    for (size_t y = 0; y < columns; ++y) turned[y * rows + x] = p.cost[x * columns + y];
  return {{p.b, p.a}, std::make_shared<const std::vector<Cost>>(std::move(turned))};
}

std::vector<int> domains_of(const CostNetwork& network) {
  std::vector<int> domains;
  for (int v = 0; v < network.variables(); ++v) domains.push_back(network.domain(v));
  return domains;
}

// The next assignment of the variables of `scope`, the last fastest; false after the last one.
bool advance(std::vector<int>& value, const std::vector<int>& scope, const CostNetwork& network) {
  for (size_t i = scope.size(); i-- > 0;) {
    if (++value[scope[i]] < network.domain(scope[i])) return true;
    value[scope[i]] = 0;
  }
  return false;
}

std::vector<std::set<int>> neighbours(const CostNetwork& network) {
  std::vector<std::set<int>> around(network.variables());
  for (const CostNetwork::Pair& p : network.pairs)
    if (p.a != p.b) around[p.a].insert(p.b), around[p.b].insert(p.a);
  return around;
}

bool tables_fit(const CostNetwork& network, const std::vector<int>& order, int64_t max_table, Polling& polling) {
  constexpr double kRounding = 1e-6;  // of sums of logarithms
  const double most_bits = std::log2(static_cast<double>(max_table)) + kRounding;
  EliminationGame game(domains_of(network), neighbours(network));
  double entries = 0;
  for (int v : order) {
    polling.step();
    entries += std::exp2(game.table_bits(v));
    if (game.table_bits(v) > most_bits || entries > static_cast<double>(kTablesTogether)) return false;
    game.eliminate(v);
  }
  return true;
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
  Polling polling(watch, kWhere, 256);
  if (!tables_fit(network, order, max_table, polling)) return std::nullopt;
  Buckets<TwoRanks> buckets(domains_of(network), order);
  for (int v = 0; v < network.variables(); ++v)
    buckets.put({{v}, std::make_shared<const std::vector<Cost>>(network.unary[v])});
  for (const CostNetwork::Pair& p : network.pairs) buckets.put(factor_of(network, p, buckets));
  Elimination result;
  const auto ends = [&](size_t) {
    polling.step();
    return false;
  };
  for (int v : order) {
    std::vector<int> around = buckets.around(v);
    double size = 1;
    for (int w : around) size *= network.domain(w);
    if (size > static_cast<double>(max_table)) return std::nullopt;
    result.largest_table = std::max(result.largest_table, static_cast<int64_t>(size));
    result.width = std::max(result.width, static_cast<int>(around.size()));
    buckets.eliminate(v, std::move(around), ends);
  }
  result.cost = buckets.rest();
  result.solutions = buckets.solutions(static_cast<size_t>(std::max(1, max_solutions)));
  return result;
}

namespace {

// Settles variables in order, each at its cheapest value given those before it and the best of those behind it.
std::vector<int> greedy(const CostNetwork& network) {
  std::vector<std::vector<const CostNetwork::Pair*>> pairs(network.variables());
  for (const CostNetwork::Pair& p : network.pairs) pairs[p.a].push_back(&p), pairs[p.b].push_back(&p);
  std::vector<int> value(network.variables(), -1);
  for (int v = 0; v < network.variables(); ++v) {
    std::vector<Cost> costs = network.unary[v];
    for (const CostNetwork::Pair* p : pairs[v]) {
      const int other = p->a == v ? p->b : p->a;
      auto at = [&](int x, int y) {
        return p->cost[p->a == v ? static_cast<size_t>(x) * network.domain(other) + y
                                 : static_cast<size_t>(y) * network.domain(v) + x];
      };
      for (int x = 0; x < network.domain(v); ++x) {
        if (other == v) {
          costs[x] = costs[x] + p->cost[static_cast<size_t>(x) * network.domain(v) + x];
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
  EliminationGame game(domains_of(network), neighbours(network));
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

// Computes the least sum of a leaf by variable elimination, in the order that the certificate gives.
#include <algorithm>

#include "partita/network/checker.h"

namespace partita::solver {

namespace {

constexpr size_t kMostEntries = size_t{1} << 27;  // of all tables
constexpr Wide kNone = Wide{1} << 126;            // forbidden costs, and every sum with one
constexpr Wide kMost = Wide{1} << 100;            // largest cost that is not forbidden: many of these fit below

// A table over some variables' allowed values.
struct Summed {
  std::vector<int> scope;  // the last is eliminated first, and is the fastest
  std::vector<Wide> costs;
};

struct Elimination {
  std::vector<std::vector<int>> values;     // [variable]: its allowed values
  std::vector<size_t> rank;                 // [variable]: its place in the order
  std::vector<std::vector<Summed>> tables;  // [variable]: those whose first eliminated variable it is
  std::optional<Wide> constant = 0;         // of tables over no variable; empty: forbidden
  size_t entries = 0;                       // of all tables
};

std::vector<size_t> rank_of(const std::vector<int>& order, size_t variables) {
  std::vector<size_t> rank(variables, variables);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || static_cast<size_t>(order[i]) >= variables || rank[order[i]] < variables)
      fail("the certificate's order names variable {} twice, or there is none", order[i]);
    rank[order[i]] = i;
  }
  if (order.size() != variables) fail("the certificate's order is of {} of {} variables", order.size(), variables);
  return rank;
}

[[noreturn]] void fail_too_many() {
  fail("the certificate's elimination takes tables of more than {} entries", kMostEntries);
}

void put_table(Elimination& e, Summed table) {
  if ((e.entries += table.costs.size()) > kMostEntries) fail_too_many();
  for (Wide c : table.costs)
    if (c != kNone && (c > kMost || c < -kMost)) fail_too_large();
  if (!table.scope.empty()) return e.tables[table.scope.back()].push_back(std::move(table));
  if (table.costs[0] >= kNone) e.constant.reset();
  else if (e.constant) e.constant = checked_sum(*e.constant, table.costs[0]);
}

// Sorts a scope: each variable once, without those of one value, the first eliminated last.
std::vector<int> sorted(const Elimination& e, std::vector<int> scope) {
  std::sort(scope.begin(), scope.end(), [&](int a, int b) { return e.rank[a] > e.rank[b]; });
  scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
  std::erase_if(scope, [&](int v) { return e.values[v].size() == 1; });
  return scope;
}

// Calls f(places of values) for every combination over a scope, the last fastest.
template <typename F>
void over(const Elimination& e, const std::vector<int>& scope, F&& f) {
  std::vector<size_t> at(scope.size(), 0);
  for (bool more = true; more;) {
    f(at);
    more = false;
    for (size_t i = scope.size(); i-- > 0 && !more;)
      if (!(more = ++at[i] < e.values[scope[i]].size())) at[i] = 0;
  }
}

void put_variable(Elimination& e, int v, const std::vector<Wide>& unary) {
  Summed own{{v}, {}};
  for (int x : e.values[v]) {
    if (unary[x] > kMost) fail_too_large();
    own.costs.push_back(unary[x]);
  }
  put_table(e, std::move(own));
}

void put_factor(Elimination& e, const Factor& factor, int64_t scale) {
  Summed table{sorted(e, factor.variables), {}};
  std::vector<int> chosen;
  for (int v : factor.variables) chosen.push_back(e.values[v][0]);
  std::vector<size_t> places;  // of the scope's variables, in the factor
  for (int v : table.scope)
    places.push_back(static_cast<size_t>(std::lower_bound(factor.variables.begin(), factor.variables.end(), v) -
                                         factor.variables.begin()));
  over(e, table.scope, [&](const std::vector<size_t>& at) {
    for (size_t i = 0; i < at.size(); ++i) chosen[places[i]] = e.values[table.scope[i]][at[i]];
    const auto cost = factor_cost(factor, chosen);
    table.costs.push_back(cost ? checked_product(scale, *cost) : kNone);
    if (cost && table.costs.back() > kMost) fail_too_large();
  });
  put_table(e, std::move(table));
}

// [table][place in `scope`], in tables whose last variable is v.
std::vector<std::vector<size_t>> strides_of(const Elimination& e, const std::vector<Summed>& tables,
                                            const std::vector<int>& scope, int v) {
  std::vector<std::vector<size_t>> strides(tables.size(), std::vector<size_t>(scope.size(), 0));
  for (size_t t = 0; t < tables.size(); ++t) {
    size_t stride = e.values[v].size();
    for (size_t i = tables[t].scope.size() - 1; i-- > 0; stride *= e.values[tables[t].scope[i]].size())
      strides[t][static_cast<size_t>(std::find(scope.begin(), scope.end(), tables[t].scope[i]) - scope.begin())] =
          stride;
  }
  return strides;
}

// Joins all tables whose first eliminated variable is v: the result is the least of their sum over v's values.
void eliminate(Elimination& e, int v) {
  const std::vector<Summed> mine = std::move(e.tables[v]);
  Summed made;
  for (const Summed& table : mine) made.scope.insert(made.scope.end(), table.scope.begin(), table.scope.end() - 1);
  made.scope = sorted(e, std::move(made.scope));
  double size = 1;
  for (int w : made.scope) size *= static_cast<double>(e.values[w].size());
  if (size > static_cast<double>(kMostEntries)) fail_too_many();
  const std::vector<std::vector<size_t>> strides = strides_of(e, mine, made.scope, v);
  std::vector<const Wide*> rows(mine.size());
  over(e, made.scope, [&](const std::vector<size_t>& at) {
    for (size_t t = 0; t < mine.size(); ++t) {
      rows[t] = mine[t].costs.data();
      for (size_t i = 0; i < at.size(); ++i) rows[t] += strides[t][i] * at[i];
    }
    Wide least = kNone;
    for (size_t x = 0; x < e.values[v].size(); ++x) {
      Wide sum = 0;
      for (const Wide* row : rows) sum = row[x] >= kNone || sum >= kNone ? kNone : sum + row[x];
      least = std::min(least, sum);
    }
    made.costs.push_back(least);
  });
  put_table(e, std::move(made));
}

}  // namespace

std::optional<Wide> least_by_elimination(const CheckedNetwork& j, const std::vector<int>& order,
                                         const std::vector<std::vector<Wide>>& unary, const Allowed& allowed,
                                         int64_t scale) {
  const auto count = static_cast<size_t>(j.network.variables());
  Elimination e;
  e.rank = rank_of(order, count);
  e.values.resize(count);
  e.tables.resize(count);
  for (size_t v = 0; v < count; ++v)
    for (size_t x = 0; x < allowed[v].size(); ++x)
      if (allowed[v][x]) e.values[v].push_back(static_cast<int>(x));
  for (size_t v = 0; v < count; ++v) put_variable(e, static_cast<int>(v), unary[v]);
  for (const Factor& factor : j.factors)
    if (factor.variables.size() > 1) put_factor(e, factor, scale);  // others are among the unaries
  for (int v : order) eliminate(e, v);
  return e.constant;
}

}  // namespace partita::solver

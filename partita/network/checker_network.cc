// Makes the checker's view of a network: factors, and values that no solution can take.
#include <algorithm>

#include "partita/network/checker.h"

namespace partita::solver {

void fail_too_large() { fail("the certificate's sums leave 128 bits"); }

namespace {

Wide largest_allowed(const Table& table) {
  std::optional<Wide> largest;
  for (int64_t cost : table)
    if (cost < kForbidden && (!largest || cost > *largest)) largest = cost;
  return largest.value_or(0);
}

// Makes an edge a part of the factor over its variables, `variables`.
Factor::Part part_of(const Network& n, const Network::Edge& e, const std::vector<int>& variables) {
  Factor::Part part{e.table.get(), std::vector<size_t>(variables.size(), 0)};
  size_t stride = 1;
  for (size_t i = e.variables.size(); i-- > 0;) {
    part.strides[std::lower_bound(variables.begin(), variables.end(), e.variables[i]) - variables.begin()] += stride;
    stride *= n.costs[e.variables[i]].size();
  }
  return part;
}

}  // namespace

CheckedNetwork::CheckedNetwork(const Network& n) : network(n), factors_of(n.variables()) {
  validate(n);
  for (const Table& costs : n.costs) {
    left.emplace_back();
    beaten.emplace_back(costs.size(), 0);
    for (int64_t cost : costs) left.back().push_back(cost < kForbidden);
    most = checked_sum(most, largest_allowed(costs));
  }
  std::map<const Table*, Wide> largest;
  for (const Network::Edge& e : n.edges) {
    const auto [of_table, unseen] = largest.try_emplace(e.table.get(), 0);
    if (unseen) of_table->second = largest_allowed(*e.table);
    most = checked_sum(most, of_table->second);
    std::vector<int> variables = e.variables;
    std::sort(variables.begin(), variables.end());
    variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
    const auto [at, fresh] = number_of.emplace(variables, factors.size());
    if (fresh) {
      for (int v : variables) factors_of[v].push_back(static_cast<int>(factors.size()));
      factors.push_back({variables, {}});
    }
    factors[at->second].parts.push_back(part_of(n, e, variables));
  }
}

namespace {

// Tells whether value x of the factor's variable at `place` has allowed partners that are not forbidden beside it.
bool has_partner(const Factor& factor, const Allowed& allowed, size_t place, int x) {
  if (factor.variables.size() == 2 && factor.parts.size() == 1) {
    const Factor::Part& part = factor.parts[0];
    const std::vector<char>& partners = allowed[factor.variables[1 - place]];
    const int64_t* costs = part.table->data() + part.strides[place] * static_cast<size_t>(x);
    for (size_t y = 0; y < partners.size(); ++y)
      if (partners[y] && costs[part.strides[1 - place] * y] < kForbidden) return true;
    return false;
  }
  bool partner = false;
  for_each_combination(factor, allowed, static_cast<int>(place), x,
                       [&](const auto&, Wide) { return partner = true, false; });
  return partner;
}

// Uses while values are left out: the times at which the limit can be broken at all, given the least that everything
// uses.
struct Load {
  std::vector<int64_t> times;  // at which something begins or ends
  std::vector<Wide> least;     // [time]: in use at least from then on
  size_t place(int64_t time) const {
    return static_cast<size_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  }
};

int64_t least_use(const Network::Use& u, const Allowed& allowed) {
  int64_t least = INT64_MAX;
  for (size_t x = 0; x < u.amounts.size(); ++x)
    if (allowed[u.variable][x]) least = std::min(least, u.amounts[x]);
  return least;
}

Load load_of(const Network& n, const Allowed& allowed) {
  Load load;
  for (const Network::Use& u : n.uses)
    if (u.lower < u.upper) load.times.insert(load.times.end(), {u.lower, u.upper});
  std::sort(load.times.begin(), load.times.end());
  load.times.erase(std::unique(load.times.begin(), load.times.end()), load.times.end());
  load.least.assign(load.times.size() + 1, 0);
  for (const Network::Use& u : n.uses) {
    if (u.lower >= u.upper) continue;
    const int64_t least = least_use(u, allowed);
    load.least[load.place(u.lower)] += least, load.least[load.place(u.upper)] -= least;
  }
  for (size_t t = 1; t < load.least.size(); ++t) load.least[t] += load.least[t - 1];
  return load;
}

// Leaves out, by drop(variable, value), values that break the limit although everything else uses as little as it can.
// False if even the least use is beyond the limit at some time.
template <typename Drop>
bool narrow_by_uses(const Network& n, const Allowed& allowed, Drop&& drop) {
  const Wide limit = *n.limit;
  if (limit < 0) return false;
  const Load load = load_of(n, allowed);
  const Wide peak = *std::max_element(load.least.begin(), load.least.end());
  if (peak > limit) return false;
  for (const Network::Use& u : n.uses) {
    if (u.lower >= u.upper) continue;
    const Wide small = least_use(u, allowed);
    if (peak - small + *std::max_element(u.amounts.begin(), u.amounts.end()) <= limit) continue;
    const auto from = load.least.begin() + static_cast<std::ptrdiff_t>(load.place(u.lower)),
               to = load.least.begin() + static_cast<std::ptrdiff_t>(load.place(u.upper));
    const Wide room = limit - *std::max_element(from, to);
    for (size_t x = 0; x < u.amounts.size(); ++x)
      if (allowed[u.variable][x] && u.amounts[x] - small > room) drop(u.variable, static_cast<int>(x));
  }
  return true;
}

}  // namespace

bool narrow_allowed(const CheckedNetwork& j, Allowed& allowed) {
  std::vector<char> stale(j.factors.size(), 1);
  bool again = true;
  auto drop = [&](int v, int x) {
    allowed[v][x] = 0;
    for (int f : j.factors_of[v]) stale[f] = 1;
    again = true;
  };
  while (std::exchange(again, false)) {
    for (size_t f = 0; f < j.factors.size(); ++f) {
      if (!std::exchange(stale[f], 0)) continue;
      for (size_t i = 0; i < j.factors[f].variables.size(); ++i) {
        const int v = j.factors[f].variables[i];
        for (int x = 0; x < j.network.domain(v); ++x)
          if (allowed[v][x] && !has_partner(j.factors[f], allowed, i, x)) drop(v, x);
      }
    }
    if (j.network.limit && !narrow_by_uses(j.network, allowed, drop)) return false;
  }
  for (const auto& row : allowed)
    if (std::find(row.begin(), row.end(), 1) == row.end()) return false;
  return true;
}

}  // namespace partita::solver

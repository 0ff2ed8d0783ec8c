// Validates networks and evaluates assignments; reads and writes 128-bit integers as decimal text.
#include "partita/network/network.h"

#include <algorithm>

#include "partita/base/error.h"

namespace partita::solver {

namespace {

size_t index_of(const Network& n, const Network::Edge& e, const Assignment& x) {
  size_t index = 0;
  for (int v : e.variables) index = index * n.costs[v].size() + x[v];
  return index;
}

// The most use at any one time.
Wide peak_of(const Network& n, const Assignment& x) {
  std::vector<std::pair<int64_t, int64_t>> events;  // (time, change); at equal times ends come first
  for (const Network::Use& u : n.uses)
    if (u.lower < u.upper && u.amounts[x[u.variable]] > 0) {
      events.push_back({u.lower, u.amounts[x[u.variable]]});
      events.push_back({u.upper, -u.amounts[x[u.variable]]});
    }
  std::sort(events.begin(), events.end());
  Wide now = 0, peak = 0;
  for (const auto& [time, change] : events) peak = std::max(peak, now += change);
  return peak;
}

}  // namespace

void validate(const Network& n) {
  for (int v = 0; v < n.variables(); ++v)
    if (n.costs[v].empty()) fail("variable {} has no values", v);
  for (size_t i = 0; i < n.edges.size(); ++i) {
    const Network::Edge& e = n.edges[i];
    size_t size = 1;
    if (e.variables.empty() || !e.table) fail("edge {} has no {}", i, e.table ? "variables" : "table");
    for (int v : e.variables) {
      if (v < 0 || v >= n.variables()) fail("edge {} names variable {}; there are {}", i, v, n.variables());
      if (__builtin_mul_overflow(size, n.costs[v].size(), &size)) fail("edge {} is over too many values", i);
    }
    if (e.table->size() != size) fail("edge {} has {} costs; its variables' values make {}", i, e.table->size(), size);
  }
  for (size_t i = 0; i < n.uses.size(); ++i) {
    const Network::Use& u = n.uses[i];
    if (u.variable < 0 || u.variable >= n.variables())
      fail("use {} names variable {}; there are {}", i, u.variable, n.variables());
    if (u.amounts.size() != n.costs[u.variable].size())
      fail("use {} has {} amounts; variable {} has {} values", i, u.amounts.size(), u.variable,
           n.costs[u.variable].size());
    for (int64_t amount : u.amounts)
      if (amount < 0) fail("use {} of variable {} is negative: {}", i, u.variable, amount);
  }
}

Evaluation evaluate(const Network& n, const Assignment& x) {
  if (x.size() != n.costs.size()) fail("a solution of {} choices for {} variables", x.size(), n.costs.size());
  for (int v = 0; v < n.variables(); ++v)
    if (x[v] < 0 || x[v] >= n.domain(v)) fail("choice {} of variable {}; it has {} values", x[v], v, n.domain(v));
  Evaluation result;
  auto take = [&](int64_t cost) {
    if (cost >= kForbidden) ++result.forbidden;
    else result.cost += cost;
  };
  for (int v = 0; v < n.variables(); ++v) take(n.costs[v][x[v]]);
  for (const Network::Edge& e : n.edges) take((*e.table)[index_of(n, e, x)]);
  if (!n.uses.empty()) result.peak = peak_of(n, x);
  result.feasible = result.forbidden == 0 && (!n.limit || result.peak.value_or(0) <= *n.limit);
  return result;
}

BruteForce brute_force(const Network& n) {
  BruteForce best;
  Assignment x(n.variables(), 0);
  while (true) {
    const Evaluation e = evaluate(n, x);
    if (e.feasible && (!best.solution || e.cost < best.cost)) best = {x, e.cost};
    int v = n.variables() - 1;
    while (v >= 0 && ++x[v] == n.domain(v)) x[v--] = 0;
    if (v < 0) return best;
  }
}

std::string to_string(Wide value) {
  const bool negative = value < 0;
  std::string digits;
  do {
    const int digit = static_cast<int>(value % 10);
    digits += static_cast<char>('0' + (negative ? -digit : digit));
    value /= 10;
  } while (value != 0);
  if (negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::optional<Wide> parse_wide(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  Wide value = 0;
  for (char c : text) {
    if (c < '0' || c > '9' || __builtin_mul_overflow(value, Wide{10}, &value)) return std::nullopt;
    const Wide digit = c - '0';
    if (negative ? __builtin_sub_overflow(value, digit, &value) : __builtin_add_overflow(value, digit, &value))
      return std::nullopt;
  }
  return value;
}

}  // namespace partita::solver

// Computes costs after messages and multipliers, and their least.
#include <algorithm>
#include <iterator>

#include "partita/network/checker.h"

namespace partita::solver {

namespace {

void add_message(const CheckedNetwork& j, const Certificate::Message& m, Reparametrised& out) {
  const auto it = j.number_of.find(m.variables);
  if (it == j.number_of.end() || m.variables.size() < 2)
    fail("the certificate has a message on variables [{}], which no edge joins", fmt::join(m.variables, ", "));
  if (out.messages[it->second])
    fail("the certificate has two messages on variables [{}]", fmt::join(m.variables, ", "));
  if (m.ends.size() != m.variables.size())
    fail("the certificate's message on variables [{}] has {} ends", fmt::join(m.variables, ", "), m.ends.size());
  out.messages[it->second] = &m;
  for (size_t i = 0; i < m.ends.size(); ++i) {
    const int v = m.variables[i], values = j.network.domain(v);
    if (m.ends[i].empty()) continue;
    if (static_cast<int>(m.ends[i].size()) != values)
      fail(
          "the certificate's message to variable {} has {} numbers for {} "
          "values",
          v, m.ends[i].size(), values);
    for (int x = 0; x < values; ++x) out.unary[v][x] = checked_sum(out.unary[v][x], m.ends[i][x]);
  }
}

// Adds a factor over one variable.
void add_single(const Factor& factor, int64_t scale, const Allowed& allowed, std::vector<Wide>& unary) {
  const std::vector<char>& there = allowed[factor.variables[0]];
  for (size_t x = 0; x < there.size(); ++x) {
    if (!there[x]) continue;
    if (const auto cost = factor_cost(factor, {static_cast<int>(x)}))
      unary[x] = checked_sum(unary[x], checked_product(scale, *cost));
  }
}

// Adds uses at the multipliers' prices.
void add_priced_uses(const Network& network, const std::vector<Certificate::Multiplier>& multipliers,
                     Reparametrised& out) {
  if (!network.limit) fail("the certificate has multipliers, but the problem has no limit");
  std::vector<std::pair<int64_t, Wide>> sums;  // (time, the sum of all multipliers until then and then)
  Wide sum = 0;
  for (const Certificate::Multiplier& m : multipliers) {
    if (m.value < 0) fail("the certificate's multiplier at time {} is negative: {}", m.time, m.value);
    if (!sums.empty() && sums.back().first >= m.time)
      fail("the certificate's multipliers are not in order of time at {}", m.time);
    sums.push_back({m.time, sum = checked_sum(sum, m.value)});
  }
  auto before = [&](int64_t time) {
    auto it = std::lower_bound(sums.begin(), sums.end(), time, [](const auto& s, int64_t t) { return s.first < t; });
    return it == sums.begin() ? Wide{0} : std::prev(it)->second;
  };
  for (const Network::Use& u : network.uses) {
    if (u.lower >= u.upper) continue;
    const Wide price = before(u.upper) - before(u.lower);
    if (price == 0) continue;
    for (size_t x = 0; x < u.amounts.size(); ++x)
      out.unary[u.variable][x] = checked_sum(out.unary[u.variable][x], checked_product(price, u.amounts[x]));
  }
  out.besides = checked_difference(0, checked_product(sum, *network.limit));
}

}  // namespace

Reparametrised reparametrise(const CheckedNetwork& j, const Certificate::Leaf& leaf, const Allowed& allowed,
                             Singles singles) {
  Reparametrised out;
  for (const Table& costs : j.network.costs) {
    out.unary.emplace_back();
    for (int64_t cost : costs) out.unary.back().push_back(checked_product(leaf.scale, cost));
  }
  out.messages.assign(j.factors.size(), nullptr);
  for (const Certificate::Message& m : leaf.messages) add_message(j, m, out);
  for (const Factor& factor : j.factors)
    if (singles == Singles::kAdded && factor.variables.size() == 1)
      add_single(factor, leaf.scale, allowed, out.unary[factor.variables[0]]);
  if (!leaf.multipliers.empty()) add_priced_uses(j.network, leaf.multipliers, out);
  return out;
}

namespace {

// The least of scale * cost - messages; a pair whose values have partners. Sums of one product and two messages fit 128
// bits: |scale * cost| < 2^126.
Wide least_of_pair(const Factor& factor, const Allowed& allowed, const Certificate::Message* message, int64_t scale) {
  const Factor::Part& part = factor.parts[0];
  const size_t inner = part.strides[1] <= part.strides[0] ? 1 : 0,
               outer = 1 - inner;  // as in memory
  const auto &rows = allowed[factor.variables[outer]], &columns = allowed[factor.variables[inner]];
  const std::vector<int64_t> none;
  const auto &first = message ? message->ends[outer] : none, &second = message ? message->ends[inner] : none;
  Wide least = 0;
  bool any = false;
  for (size_t x = 0; x < rows.size(); ++x) {
    if (!rows[x]) continue;
    const Wide own = first.empty() ? 0 : first[x];
    for (size_t y = 0; y < columns.size(); ++y) {
      if (!columns[y]) continue;
      const int64_t cost = (*part.table)[part.strides[outer] * x + part.strides[inner] * y];
      if (cost >= kForbidden) continue;
      const Wide sum = Wide{scale} * cost - own - (second.empty() ? 0 : second[y]);
      if (!any || sum < least) least = sum, any = true;
    }
  }
  return least;
}

}  // namespace

Wide least_cost(const Factor& factor, const Allowed& allowed, const Certificate::Message* message, int64_t scale) {
  if (factor.is_pair() && factor.parts.size() == 1) return least_of_pair(factor, allowed, message, scale);
  std::optional<Wide> least;
  for_each_combination(factor, allowed, -1, 0, [&](const std::vector<int>& values, Wide cost) {
    Wide sum = checked_product(scale, cost);
    if (message)
      for (size_t i = 0; i < values.size(); ++i)
        if (const auto& end = message->ends[i]; !end.empty()) sum = checked_sum(sum, -Wide{end[values[i]]});
    if (!least || sum < *least) least = sum;
    return true;
  });
  return least.value_or(0);  // nothing is allowed: no solution takes it
}

std::optional<Wide> least_cost(const std::vector<Wide>& costs, const std::vector<char>& allowed) {
  std::optional<Wide> least;
  for (size_t x = 0; x < costs.size(); ++x)
    if (allowed[x] && (!least || costs[x] < *least)) least = costs[x];
  return least;
}

}  // namespace partita::solver

// Repeats a certificate's steps: sweeps, which leave out values proved to cost the claim, and substitutions.
#include <algorithm>
#include <array>

#include "partita/network/checker.h"

namespace partita::solver {

namespace {

// ------------------------------------------------------------------ sweeps

// A sweep under way. All costs are times the scale.
struct Sweep {
  std::vector<std::vector<Wide>> unary;                    // [variable][value]: all that is known of it
  std::vector<std::array<std::vector<Wide>, 2>> messages;  // [factor][end][value], of pairs
  std::vector<Wide> least;                                 // [factor]: a lower bound of its cost less its messages
  Wide total = 0;                                          // the bound of all
  Wide needed = 0;                                         // more than this costs the claim
  int64_t scale = 1;
};

void nothing_left(CheckedNetwork& j) {
  for (auto& row : j.left) std::fill(row.begin(), row.end(), 0);
}

Sweep begin_sweep(const CheckedNetwork& j, const Certificate::Leaf& leaf, Wide claimed) {
  Reparametrised now = reparametrise(j, leaf, j.left, Singles::kAdded);
  Sweep s;
  s.scale = leaf.scale;
  s.least.assign(j.factors.size(), 0);
  s.messages.resize(j.factors.size());
  s.total = now.besides;
  for (size_t f = 0; f < j.factors.size(); ++f) {
    const Factor& factor = j.factors[f];
    if (factor.variables.size() == 1) continue;
    s.total = checked_sum(s.total, s.least[f] = least_cost(factor, j.left, now.messages[f], leaf.scale));
    for (size_t i = 0; i < 2 && factor.is_pair(); ++i) {
      std::vector<Wide>& end = s.messages[f][i];
      if (now.messages[f]) end.assign(now.messages[f]->ends[i].begin(), now.messages[f]->ends[i].end());
      end.resize(j.network.costs[factor.variables[i]].size(), 0);
    }
  }
  s.unary = std::move(now.unary);
  for (int v = 0; v < j.network.variables(); ++v) s.total = checked_sum(s.total, *least_cost(s.unary[v], j.left[v]));
  s.needed = checked_product(leaf.scale, checked_sum(claimed, -1));
  return s;
}

// The certain cost of a pair with value x at one end, less the messages at the other; empty if x has no remaining
// partner.
std::optional<Wide> least_beside(const CheckedNetwork& j, const Factor& factor, size_t end, size_t x, const Sweep& s,
                                 const std::vector<Wide>& other) {
  const std::vector<char>& partners = j.left[factor.variables[1 - end]];
  bool any = false;
  Wide least = 0;
  for (size_t z = 0; z < partners.size(); ++z) {
    if (!partners[z]) continue;
    Wide cost = 0;
    bool forbidden = false;
    for (const Factor::Part& part : factor.parts) {
      const int64_t c = (*part.table)[part.strides[end] * x + part.strides[1 - end] * z];
      forbidden |= c >= kForbidden;
      cost += c;
    }
    if (forbidden) continue;
    const bool is_small = cost == static_cast<int64_t>(cost);  // so that the product fits
    const Wide sum = checked_difference(is_small ? s.scale * cost : checked_product(s.scale, cost), other[z]);
    if (!any || sum < least) least = sum, any = true;
  }
  return any ? std::optional<Wide>(least) : std::nullopt;
}

// Gives v, the variable at `end`, the certain cost of a pair for each of its values. Values without a partner go.
void receive_from_pair(CheckedNetwork& j, size_t f, size_t end, int v, Sweep& s) {
  constexpr Wide kMost = Wide{1} << 120;  // of a message
  std::vector<Wide>&own = s.messages[f][end], &unary = s.unary[v];
  const std::vector<Wide>& other = s.messages[f][1 - end];
  for (size_t x = 0; x < own.size(); ++x) {
    if (!j.left[v][x]) continue;
    const auto least = least_beside(j, j.factors[f], end, x, s, other);
    if (!least) {
      j.left[v][x] = 0, j.beaten[v][x] = 1;
      continue;
    }
    unary[x] = checked_sum(unary[x], checked_difference(*least, own[x]));
    own[x] = *least;
    if (*least > kMost || *least < -kMost || unary[x] > kMost || unary[x] < -kMost) fail_too_large();
  }
}

// Hands an equal share of all that v has to each pair on the far side.
void send_on(const CheckedNetwork& j, int v, const std::vector<size_t>& far, Wide shares, Sweep& s) {
  std::vector<Wide>& unary = s.unary[v];
  std::vector<Wide> share;
  for (Wide cost : unary) share.push_back(cost / shares);
  const Wide least_share = *least_cost(share, j.left[v]);
  for (size_t f : far) {
    std::vector<Wide>& own = s.messages[f][j.factors[f].variables[0] == v ? 0 : 1];
    for (size_t x = 0; x < unary.size(); ++x)
      if (j.left[v][x])
        unary[x] = checked_difference(unary[x], share[x]), own[x] = checked_difference(own[x], share[x]);
    s.least[f] = checked_sum(s.least[f], least_share);
    s.total = checked_sum(s.total, least_share);
  }
}

// Visits a variable. It receives the certain costs of the pairs that the sweep comes from, loses values that cost the
// claim, and hands the rest on. False if no value is left.
bool visit_variable(CheckedNetwork& j, int v, bool upwards, Sweep& s) {
  std::vector<Wide>& unary = s.unary[v];
  std::vector<char>& there = j.left[v];
  std::vector<size_t> far;
  Wide near_count = 0;
  s.total = checked_difference(s.total, *least_cost(unary, there));
  for (int number : j.factors_of[v]) {
    const auto f = static_cast<size_t>(number);
    const Factor& factor = j.factors[f];
    if (!factor.is_pair()) continue;
    const size_t end = factor.variables[0] == v ? 0 : 1;
    if ((factor.variables[1 - end] < v) != upwards) {
      far.push_back(f);
      continue;
    }
    near_count += 1;
    receive_from_pair(j, f, end, v, s);
    s.total = checked_difference(s.total, std::exchange(s.least[f], 0));
  }
  const std::optional<Wide> lowest = least_cost(unary, there);
  if (!lowest) return false;
  s.total = checked_sum(s.total, *lowest);
  for (size_t x = 0; x < unary.size(); ++x)
    if (there[x] && checked_sum(s.total, checked_difference(unary[x], *lowest)) > s.needed)
      there[x] = 0, j.beaten[v][x] = 1;
  if (!least_cost(unary, there)) return false;
  send_on(j, v, far, std::max({near_count, static_cast<Wide>(far.size()), Wide{1}}), s);
  s.total = checked_sum(s.total, checked_difference(*least_cost(unary, there), *lowest));
  return true;
}

void apply_sweep(CheckedNetwork& j, const Certificate::Leaf& leaf, Wide claimed) {
  if (leaf.scale < 1) fail("the certificate's scale is {}; it must be positive", leaf.scale);
  if (!leaf.decisions.empty() || !leaf.order.empty()) fail("the certificate has a step with decisions or an order");
  const Allowed before = j.left;
  if (!narrow_allowed(j, j.left)) return nothing_left(j);
  for (size_t v = 0; v < j.left.size(); ++v)  // no solution takes these
    for (size_t x = 0; x < j.left[v].size(); ++x) j.beaten[v][x] |= before[v][x] && !j.left[v][x];
  Sweep s = begin_sweep(j, leaf, claimed);
  const int variables = j.network.variables();
  for (int v = 0; v < variables; ++v)
    if (!visit_variable(j, v, true, s)) return nothing_left(j);
  for (int v = variables; v-- > 0;)
    if (!visit_variable(j, v, false, s)) return nothing_left(j);
}

// ------------------------------------------------------------------ substitutions

int64_t most_left(const CheckedNetwork& j, const Network::Use& u) {
  int64_t most = 0;
  for (size_t x = 0; x < u.amounts.size(); ++x)
    if (j.left[u.variable][x]) most = std::max(most, u.amounts[x]);
  return most;
}

// By use: whether it can be part of breaking the limit.
std::vector<char> uses_that_matter(const CheckedNetwork& j) {
  const Network& n = j.network;
  std::vector<char> matter(n.uses.size(), 0);
  if (!n.limit) return matter;
  std::map<int64_t, Wide> load;  // by time: the change of the largest possible use
  for (const Network::Use& u : n.uses) {
    if (u.lower >= u.upper) continue;
    load[u.lower] += most_left(j, u);
    load[u.upper] -= most_left(j, u);
  }
  std::vector<int64_t> over;  // times from which on, until the next change, the limit can be broken
  Wide now = 0;
  for (const auto& [time, change] : load)
    if ((now += change) > *n.limit) over.push_back(time);
  for (size_t i = 0; i < n.uses.size(); ++i) {
    const auto at = std::lower_bound(over.begin(), over.end(), n.uses[i].lower);
    matter[i] = at != over.end() && *at < n.uses[i].upper;
  }
  return matter;
}

// A use, and the allowed amount whatever replaces the value: nothing if it matters.
using Uses = std::vector<std::vector<std::pair<const Network::Use*, int64_t>>>;  // [variable]

Uses uses_of(const CheckedNetwork& j) {
  const Network& n = j.network;
  const std::vector<char> matter = uses_that_matter(j);
  Uses uses(n.costs.size());
  for (size_t i = 0; i < matter.size(); ++i) {
    const Network::Use& u = n.uses[i];
    if (n.limit && u.lower < u.upper) uses[u.variable].push_back({&u, matter[i] ? 0 : most_left(j, u)});
  }
  return uses;
}

[[noreturn]] void refuse(const Certificate::Substitution& d, const char* why) {
  fail("the certificate substitutes value {} for {} of variable {}, but {}", d.by, d.value, d.variable, why);
}

// The least extra cost of a factor with the value over its replacement; empty if nothing is allowed.
std::optional<Wide> least_difference(const CheckedNetwork& j, const Factor& factor,
                                     const Certificate::Substitution& d) {
  const auto place = static_cast<size_t>(
      std::lower_bound(factor.variables.begin(), factor.variables.end(), d.variable) - factor.variables.begin());
  std::optional<Wide> least;
  for_each_combination(factor, j.left, static_cast<int>(place), d.value, [&](std::vector<int> values, Wide cost) {
    values[place] = d.by;
    const auto other = factor_cost(factor, values);
    if (!other) refuse(d, "it is forbidden beside some values");
    if (!least || cost - *other < *least) least = cost - *other;
    return true;
  });
  return least;
}

void apply_substitution(CheckedNetwork& j, const Certificate::Substitution& d, const Uses& uses) {
  const auto& [v, x, y] = d;
  const Network& n = j.network;
  if (v < 0 || v >= n.variables())
    fail("the certificate substitutes for a value of variable {}; there are {}", v, n.variables());
  if (std::min(x, y) < 0 || std::max(x, y) >= n.domain(v) || x == y)
    fail("the certificate substitutes value {} for {} of variable {}; it has {}", y, x, v, n.domain(v));
  if (!j.left[v][x]) return;  // it is gone
  if (!j.left[v][y] && !j.beaten[v][y]) refuse(d, "that is left out itself");
  for (const auto& [u, most] : uses[v])
    if (u->amounts[y] > std::max(u->amounts[x], most)) refuse(d, "it uses more");
  Wide sum = Wide{n.costs[v][x]} - n.costs[v][y];
  for (int f : j.factors_of[v])
    if (const auto least = least_difference(j, j.factors[f], d)) sum = checked_sum(sum, *least);
  if (sum < 0) refuse(d, "it can cost more");
  j.left[v][x] = 0;
}

}  // namespace

void apply_step(CheckedNetwork& checked, const Certificate::Step& step, Wide claimed) {
  apply_sweep(checked, step.sweep, claimed);
  const Uses uses = uses_of(checked);
  for (const Certificate::Substitution& d : step.dominated) apply_substitution(checked, d, uses);
}

}  // namespace partita::solver

#include "partita/network/certificate.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "partita/base/error.h"

namespace partita::solver {

namespace {

using Allowed = std::vector<std::vector<char>>;  // [variable][value]

Wide plus(Wide a, Wide b) {
  Wide sum;
  if (__builtin_add_overflow(a, b, &sum)) fail("the certificate's sums leave 128 bits");
  return sum;
}
Wide minus(Wide a, Wide b) {
  Wide difference;
  if (__builtin_sub_overflow(a, b, &difference)) fail("the certificate's sums leave 128 bits");
  return difference;
}
Wide times(Wide a, Wide b) {
  Wide product;
  if (__builtin_mul_overflow(a, b, &product)) fail("the certificate's sums leave 128 bits");
  return product;
}

Wide largest_allowed(const Table& table) {
  std::optional<Wide> largest;
  for (int64_t cost : table)
    if (cost < kForbidden && (!largest || cost > *largest)) largest = cost;
  return largest.value_or(0);
}

// All edges over one set of variables.
struct Factor {
  std::vector<int> variables;  // ascending
  struct Part {
    const Table* table = nullptr;
    std::vector<size_t> strides;  // [place in `variables`]
  };
  std::vector<Part> parts;
};

}  // namespace

struct LeafJudge::Inside {
  explicit Inside(const Network& n) : network(n), factors_of(n.variables()) {
    validate(n);
    for (const Table& costs : n.costs) {
      left.emplace_back();
      beaten.emplace_back(costs.size(), 0);
      for (int64_t cost : costs) left.back().push_back(cost < kForbidden);
    }
    std::map<std::vector<int>, size_t> known;
    std::map<const Table*, Wide> largest;
    for (const Table& costs : n.costs) most = plus(most, largest_allowed(costs));
    for (const Network::Edge& e : n.edges) {
      const auto [of_table, unseen] = largest.try_emplace(e.table.get(), 0);
      if (unseen) of_table->second = largest_allowed(*e.table);
      most = plus(most, of_table->second);
      std::vector<int> variables = e.variables;
      std::sort(variables.begin(), variables.end());
      variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
      auto [it, fresh] = known.emplace(variables, factors.size());
      if (fresh) {
        for (int v : variables) factors_of[v].push_back(static_cast<int>(factors.size()));
        factors.push_back({variables, {}});
      }
      Factor::Part part{e.table.get(), std::vector<size_t>(variables.size(), 0)};
      size_t stride = 1;
      for (size_t i = e.variables.size(); i-- > 0;) {
        part.strides[std::lower_bound(variables.begin(), variables.end(), e.variables[i]) - variables.begin()] +=
            stride;
        stride *= n.costs[e.variables[i]].size();
      }
      factors[it->second].parts.push_back(std::move(part));
    }
    number_of = std::move(known);
  }

  // Calls f(values, cost) for every combination of allowed values that takes nothing forbidden, until it returns false.
  template <typename F>
  void combinations(const Factor& factor, const Allowed& allowed, int fixed_place, int fixed_value, F&& f) const {
    const size_t count = factor.variables.size();
    std::vector<int> values(count);
    std::vector<size_t> index(factor.parts.size());
    auto first = [&](size_t i, int from) {
      const std::vector<char>& row = allowed[factor.variables[i]];
      if (static_cast<int>(i) == fixed_place) return from <= fixed_value && row[fixed_value] ? fixed_value : -1;
      while (from < static_cast<int>(row.size()) && !row[from]) ++from;
      return from < static_cast<int>(row.size()) ? from : -1;
    };
    size_t depth = 0;
    std::vector<int> next(count, 0);
    while (true) {
      const int value = first(depth, next[depth]);
      if (value < 0) {
        if (depth-- == 0) return;
        continue;
      }
      values[depth] = value;
      next[depth] = value + 1;
      if (depth + 1 < count) {
        next[++depth] = 0;
        continue;
      }
      Wide cost = 0;
      bool forbidden = false;
      for (const Factor::Part& part : factor.parts) {
        size_t at = 0;
        for (size_t i = 0; i < count; ++i) at += part.strides[i] * static_cast<size_t>(values[i]);
        const int64_t c = (*part.table)[at];
        forbidden |= c >= kForbidden;
        cost += c;
      }
      if (!forbidden && !f(values, cost)) return;
    }
  }

  // Whether value x of the factor's variable at `place` has allowed partners that are not forbidden beside it.
  bool has_partner(const Factor& factor, const Allowed& allowed, size_t place, int x) const {
    if (factor.variables.size() == 2 && factor.parts.size() == 1) {
      const Factor::Part& part = factor.parts[0];
      const std::vector<char>& partners = allowed[factor.variables[1 - place]];
      const int64_t* costs = part.table->data() + part.strides[place] * static_cast<size_t>(x);
      for (size_t y = 0; y < partners.size(); ++y)
        if (partners[y] && costs[part.strides[1 - place] * y] < kForbidden) return true;
      return false;
    }
    bool partner = false;
    combinations(factor, allowed, static_cast<int>(place), x, [&](const auto&, Wide) { return partner = true, false; });
    return partner;
  }

  // Leaves out what no solution can take; false if a variable is left without a value.
  bool narrow(Allowed& allowed) const {
    std::vector<char> stale(factors.size(), 1);
    auto drop = [&](int v, int x) {
      allowed[v][x] = 0;
      for (int f : factors_of[v]) stale[f] = 1;
    };
    for (bool again = true; again;) {
      again = false;
      for (size_t f = 0; f < factors.size(); ++f) {
        if (!stale[f]) continue;
        stale[f] = 0;
        for (size_t i = 0; i < factors[f].variables.size(); ++i) {
          const int v = factors[f].variables[i];
          for (int x = 0; x < network.domain(v); ++x) {
            if (!allowed[v][x]) continue;
            if (!has_partner(factors[f], allowed, i, x)) drop(v, x), again = true;
          }
        }
      }
      if (network.limit && !narrow_by_uses(allowed, drop, again)) return false;
    }
    for (const auto& row : allowed)
      if (std::find(row.begin(), row.end(), 1) == row.end()) return false;
    return true;
  }

  // False if even the least use is beyond the limit at some time.
  template <typename Drop>
  bool narrow_by_uses(const Allowed& allowed, Drop&& drop, bool& again) const {
    const Wide limit = *network.limit;
    if (limit < 0) return false;
    std::vector<int64_t> times;
    for (const Network::Use& u : network.uses)
      if (u.lower < u.upper) times.insert(times.end(), {u.lower, u.upper});
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    auto place = [&](int64_t time) { return std::lower_bound(times.begin(), times.end(), time) - times.begin(); };
    auto least = [&](const Network::Use& u) {
      int64_t least = INT64_MAX;
      for (size_t x = 0; x < u.amounts.size(); ++x)
        if (allowed[u.variable][x]) least = std::min(least, u.amounts[x]);
      return least;
    };
    std::vector<Wide> load(times.size() + 1, 0);
    for (const Network::Use& u : network.uses)
      if (u.lower < u.upper) load[place(u.lower)] += least(u), load[place(u.upper)] -= least(u);
    for (size_t t = 1; t < load.size(); ++t) load[t] += load[t - 1];
    const Wide peak = *std::max_element(load.begin(), load.end());
    if (peak > limit) return false;
    for (const Network::Use& u : network.uses) {
      if (u.lower >= u.upper) continue;
      const Wide small = least(u);
      if (peak - small + *std::max_element(u.amounts.begin(), u.amounts.end()) <= limit) continue;
      const Wide room = limit - *std::max_element(load.begin() + place(u.lower), load.begin() + place(u.upper));
      for (size_t x = 0; x < u.amounts.size(); ++x)
        if (allowed[u.variable][x] && u.amounts[x] - small > room) drop(u.variable, static_cast<int>(x)), again = true;
    }
    return true;
  }

  // The least of scale * cost - messages; a pair whose values have partners. Sums of one product and two messages fit
  // 128 bits: |scale * cost| < 2^126.
  Wide least_of_pair(const Factor& factor, const Allowed& allowed, const Certificate::Message* message,
                     int64_t scale) const {
    const Factor::Part& part = factor.parts[0];
    const size_t inner = part.strides[1] <= part.strides[0] ? 1 : 0, outer = 1 - inner;  // as the table lies in memory
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

  // What messages and multipliers make of the costs.
  struct Reparametrised {
    std::vector<std::vector<Wide>> unary;               // [variable][value]: scaled, with messages and priced uses
    std::vector<const Certificate::Message*> messages;  // [factor]; null: none
    Wide besides = 0;                                   // less the multipliers times the limit
  };
  // Factors over one variable alone are among the unaries, or as they were.
  enum class Singles { kAdded, kLeft };
  Reparametrised reparametrised(const Certificate::Leaf& leaf, const Allowed& allowed, Singles singles) const {
    const Network& n = network;
    Reparametrised out;
    for (const Table& costs : n.costs) {
      out.unary.emplace_back();
      for (int64_t cost : costs) out.unary.back().push_back(times(leaf.scale, cost));
    }
    out.messages.assign(factors.size(), nullptr);
    for (const Certificate::Message& m : leaf.messages) {
      auto it = number_of.find(m.variables);
      if (it == number_of.end() || m.variables.size() < 2)
        fail("the certificate has a message on variables [{}], which no edge joins", fmt::join(m.variables, ", "));
      if (out.messages[it->second])
        fail("the certificate has two messages on variables [{}]", fmt::join(m.variables, ", "));
      if (m.ends.size() != m.variables.size())
        fail("the certificate's message on variables [{}] has {} ends", fmt::join(m.variables, ", "), m.ends.size());
      out.messages[it->second] = &m;
      for (size_t i = 0; i < m.ends.size(); ++i) {
        const int v = m.variables[i];
        if (m.ends[i].empty()) continue;
        if (static_cast<int>(m.ends[i].size()) != n.domain(v))
          fail("the certificate's message to variable {} has {} numbers for {} values", v, m.ends[i].size(),
               n.domain(v));
        for (int x = 0; x < n.domain(v); ++x) out.unary[v][x] = plus(out.unary[v][x], m.ends[i][x]);
      }
    }
    for (const Factor& factor : factors)
      if (singles == Singles::kAdded && factor.variables.size() == 1) {
        const int v = factor.variables[0];
        for (int x = 0; x < n.domain(v); ++x)
          if (allowed[v][x])
            combinations(factor, allowed, 0, x, [&](const auto&, Wide cost) {
              return out.unary[v][x] = plus(out.unary[v][x], times(leaf.scale, cost)), false;
            });
      }
    if (!leaf.multipliers.empty()) price(leaf.multipliers, out);
    return out;
  }

  void price(const std::vector<Certificate::Multiplier>& multipliers, Reparametrised& out) const {
    if (!network.limit) fail("the certificate has multipliers, but the problem has no limit");
    std::vector<std::pair<int64_t, Wide>> sums;  // (time, of all multipliers until then, its own included)
    Wide sum = 0;
    for (const Certificate::Multiplier& m : multipliers) {
      if (m.value < 0) fail("the certificate's multiplier at time {} is negative: {}", m.time, m.value);
      if (!sums.empty() && sums.back().first >= m.time)
        fail("the certificate's multipliers are not in order of time at {}", m.time);
      sums.push_back({m.time, sum = plus(sum, m.value)});
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
        out.unary[u.variable][x] = plus(out.unary[u.variable][x], times(price, u.amounts[x]));
    }
    out.besides = minus(0, times(sum, *network.limit));
  }

  // The least of a factor over two or more variables, less its messages.
  Wide least_of(const Factor& factor, const Allowed& allowed, const Certificate::Message* message,
                int64_t scale) const {
    if (factor.variables.size() == 2 && factor.parts.size() == 1) return least_of_pair(factor, allowed, message, scale);
    std::optional<Wide> least;
    combinations(factor, allowed, -1, 0, [&](const std::vector<int>& values, Wide cost) {
      Wide sum = times(scale, cost);
      if (message)
        for (size_t i = 0; i < values.size(); ++i)
          if (const auto& end = message->ends[i]; !end.empty()) sum = plus(sum, -Wide{end[values[i]]});
      if (!least || sum < *least) least = sum;
      return true;
    });
    return least.value_or(0);  // nothing is allowed: no solution takes it
  }

  // Empty: one that has no value.
  std::optional<Wide> least_of(const std::vector<Wide>& costs, const std::vector<char>& allowed) const {
    std::optional<Wide> least;
    for (size_t x = 0; x < costs.size(); ++x)
      if (allowed[x] && (!least || costs[x] < *least)) least = costs[x];
    return least;
  }

  static std::optional<Wide> check(const Network& network, const Certificate& certificate, int depth);
  Wide of_parts(const Certificate& certificate, int depth) const;

  // Two of one table each, the same one: whether it lies the same way, with the same values to take and the same
  // messages.
  bool same_but_for_names(size_t f, size_t g, const std::vector<const Certificate::Message*>& messages) const {
    const std::vector<int>&a = factors[f].variables, &b = factors[g].variables;
    if (a.size() != b.size() || factors[f].parts[0].strides != factors[g].parts[0].strides ||
        !messages[f] != !messages[g])
      return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (left[a[i]] != left[b[i]]) return false;
    return !messages[f] || messages[f]->ends == messages[g]->ends;
  }

  // ------------------------------------------------------------------ steps

  void nothing_left() {
    for (auto& row : left) std::fill(row.begin(), row.end(), 0);
  }

  void sweep(const Certificate::Leaf& leaf, Wide claimed) {
    if (leaf.scale < 1) fail("the certificate's scale is {}; it must be positive", leaf.scale);
    if (!leaf.decisions.empty() || !leaf.order.empty()) fail("the certificate has a step with decisions or an order");
    const Allowed before = left;
    if (!narrow(left)) return nothing_left();
    for (size_t v = 0; v < left.size(); ++v)  // no solution takes these
      for (size_t x = 0; x < left[v].size(); ++x) beaten[v][x] |= before[v][x] && !left[v][x];
    Reparametrised now = reparametrised(leaf, left, Singles::kAdded);
    std::vector<Wide> least(factors.size(), 0);  // [factor]: less its messages it costs so much at least
    std::vector<std::array<std::vector<Wide>, 2>> ends(factors.size());
    Wide total = now.besides;
    for (size_t f = 0; f < factors.size(); ++f) {
      const Factor& factor = factors[f];
      if (factor.variables.size() == 1) continue;
      total = plus(total, least[f] = least_of(factor, left, now.messages[f], leaf.scale));
      for (size_t i = 0; i < 2 && is_pair(f); ++i) {
        if (now.messages[f]) ends[f][i].assign(now.messages[f]->ends[i].begin(), now.messages[f]->ends[i].end());
        ends[f][i].resize(network.costs[factor.variables[i]].size(), 0);
      }
    }
    for (int v = 0; v < network.variables(); ++v) total = plus(total, *least_of(now.unary[v], left[v]));
    const Wide needed = times(leaf.scale, plus(claimed, -1));  // what is above costs the claim
    for (int i = 0; i < 2 * network.variables(); ++i) {
      const bool upwards = i < network.variables();
      if (!visit(upwards ? i : 2 * network.variables() - 1 - i, upwards, leaf.scale, needed, now.unary, ends, least,
                 total))
        return nothing_left();
    }
  }

  bool is_pair(size_t f) const { return factors[f].variables.size() == 2; }

  // False if no value is left.
  bool visit(int v, bool upwards, int64_t scale, Wide needed, std::vector<std::vector<Wide>>& unaries,
             std::vector<std::array<std::vector<Wide>, 2>>& ends, std::vector<Wide>& least, Wide& total) {
    std::vector<Wide>& unary = unaries[v];
    std::vector<char>& there = left[v];
    std::vector<size_t> far;
    Wide near_count = 0;
    total = minus(total, *least_of(unary, there));
    for (int number : factors_of[v]) {
      const auto f = static_cast<size_t>(number);
      if (!is_pair(f)) continue;
      const size_t side = factors[f].variables[0] == v ? 0 : 1;
      if ((factors[f].variables[1 - side] < v) != upwards) {
        far.push_back(f);
        continue;
      }
      near_count += 1;
      gather(factors[f], side, scale, ends[f], unary, there, beaten[v]);
      total = minus(total, std::exchange(least[f], 0));
    }
    std::optional<Wide> lowest = least_of(unary, there);
    if (!lowest) return false;
    total = plus(total, *lowest);
    for (size_t x = 0; x < unary.size(); ++x)
      if (there[x] && plus(total, minus(unary[x], *lowest)) > needed) there[x] = 0, beaten[v][x] = 1;
    if (!least_of(unary, there)) return false;
    const Wide shares = std::max({near_count, static_cast<Wide>(far.size()), Wide{1}});
    std::vector<Wide> share;
    for (Wide cost : unary) share.push_back(cost / shares);
    const Wide least_share = *least_of(share, there);
    for (size_t f : far) {
      std::vector<Wide>& own = ends[f][factors[f].variables[0] == v ? 0 : 1];
      for (size_t x = 0; x < unary.size(); ++x)
        if (there[x]) unary[x] = minus(unary[x], share[x]), own[x] = minus(own[x], share[x]);
      least[f] = plus(least[f], least_share);
      total = plus(total, least_share);
    }
    total = plus(total, minus(*least_of(unary, there), *lowest));
    return true;
  }

  // What a pair is certain to cost with each value of one of its variables, less its messages, goes to that variable.
  // Values without a partner that is left go.
  void gather(const Factor& factor, size_t side, int64_t scale, std::array<std::vector<Wide>, 2>& ends,
              std::vector<Wide>& unary, std::vector<char>& there, std::vector<char>& went) const {
    constexpr Wide kMost = Wide{1} << 120;  // of a message
    const std::vector<char>& partners = left[factor.variables[1 - side]];
    std::vector<Wide>& own = ends[side];
    const std::vector<Wide>& other = ends[1 - side];
    for (size_t x = 0; x < own.size(); ++x) {
      if (!there[x]) continue;
      bool any = false;
      Wide least = 0;
      for (size_t z = 0; z < partners.size(); ++z) {
        if (!partners[z]) continue;
        Wide cost = 0;
        bool forbidden = false;
        for (const Factor::Part& part : factor.parts) {
          const int64_t c = (*part.table)[part.strides[side] * x + part.strides[1 - side] * z];
          forbidden |= c >= kForbidden;
          cost += c;
        }
        if (forbidden) continue;
        const bool is_small = cost == static_cast<int64_t>(cost);  // so that the product fits
        const Wide sum = minus(is_small ? scale * cost : times(scale, cost), other[z]);
        if (!any || sum < least) least = sum, any = true;
      }
      if (!any) {
        there[x] = 0, went[x] = 1;
        continue;
      }
      unary[x] = plus(unary[x], minus(least, own[x]));
      own[x] = least;
      if (least > kMost || least < -kMost || unary[x] > kMost || unary[x] < -kMost)
        fail("the certificate's sums leave 128 bits");
    }
  }

  int64_t most_left(const Network::Use& u) const {
    int64_t most = 0;
    for (size_t x = 0; x < u.amounts.size(); ++x)
      if (left[u.variable][x]) most = std::max(most, u.amounts[x]);
    return most;
  }

  // By use, whether it can be part of what breaks the limit.
  std::vector<char> uses_that_matter() const {
    std::vector<char> matter(network.uses.size(), 0);
    if (!network.limit) return matter;
    std::map<int64_t, Wide> load;  // by time: the change of what can be used at most
    for (const Network::Use& u : network.uses) {
      if (u.lower >= u.upper) continue;
      load[u.lower] += most_left(u);
      load[u.upper] -= most_left(u);
    }
    std::vector<int64_t> over;  // times from which on, until the next change, it can be broken
    Wide now = 0;
    for (const auto& [time, change] : load)
      if ((now += change) > *network.limit) over.push_back(time);
    for (size_t i = 0; i < network.uses.size(); ++i) {
      const Network::Use& u = network.uses[i];
      const auto at = std::lower_bound(over.begin(), over.end(), u.lower);
      matter[i] = at != over.end() && *at < u.upper;
    }
    return matter;
  }

  void substitute(const std::vector<Certificate::Substitution>& list) {
    const std::vector<char> matter = uses_that_matter();
    std::vector<std::vector<std::pair<const Network::Use*, int64_t>>> uses(
        network.costs.size());  // and what may be used where that does not matter
    for (size_t i = 0; i < matter.size(); ++i) {
      const Network::Use& u = network.uses[i];
      if (network.limit && u.lower < u.upper) uses[u.variable].push_back({&u, matter[i] ? 0 : most_left(u)});
    }
    for (const auto& [v, x, y] : list) {
      if (v < 0 || v >= network.variables())
        fail("the certificate substitutes for a value of variable {}; there are {}", v, network.variables());
      if (std::min(x, y) < 0 || std::max(x, y) >= network.domain(v) || x == y)
        fail("the certificate substitutes value {} for {} of variable {}; it has {}", y, x, v, network.domain(v));
      if (!left[v][x]) continue;  // it is gone
      auto refuse = [&, v = v, x = x, y = y](const char* why) {
        fail("the certificate substitutes value {} for {} of variable {}, but {}", y, x, v, why);
      };
      if (!left[v][y] && !beaten[v][y]) refuse("that is left out itself");
      for (const auto& [u, most] : uses[v])
        if (u->amounts[y] > std::max(u->amounts[x], most)) refuse("it uses more");
      Wide sum = Wide{network.costs[v][x]} - network.costs[v][y];
      for (int f : factors_of[v]) {
        const Factor& factor = factors[f];
        const auto place = static_cast<size_t>(std::lower_bound(factor.variables.begin(), factor.variables.end(), v) -
                                               factor.variables.begin());
        std::optional<Wide> least;
        combinations(factor, left, static_cast<int>(place), x, [&, y = y](std::vector<int> values, Wide cost) {
          values[place] = y;
          const auto other = cost_of(factor, values);
          if (!other) refuse("it is forbidden beside some values");
          if (!least || cost - *other < *least) least = cost - *other;
          return true;
        });
        if (least) sum = plus(sum, *least);
      }
      if (sum < 0) refuse("it can cost more");
      left[v][x] = 0;
    }
  }

  // Empty: forbidden.
  std::optional<Wide> cost_of(const Factor& factor, const std::vector<int>& values) const {
    Wide cost = 0;
    for (const Factor::Part& part : factor.parts) {
      size_t at = 0;
      for (size_t i = 0; i < values.size(); ++i) at += part.strides[i] * static_cast<size_t>(values[i]);
      if ((*part.table)[at] >= kForbidden) return std::nullopt;
      cost += (*part.table)[at];
    }
    return cost;
  }

  // ------------------------------------------------------------------ elimination

  // The least sum of all variables' and factors' costs; empty: everything takes something forbidden.
  std::optional<Wide> eliminated(const std::vector<int>& order, const std::vector<std::vector<Wide>>& unary,
                                 const Allowed& allowed, int64_t scale) const {
    constexpr size_t kMostEntries = size_t{1} << 27;  // of all tables
    constexpr Wide kNone = Wide{1} << 126;            // what is forbidden, and every sum with it
    constexpr Wide kMost = Wide{1} << 100;            // of what is not: many of these fit below
    const auto count = static_cast<size_t>(network.variables());
    std::vector<size_t> rank(count, count);
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] < 0 || static_cast<size_t>(order[i]) >= count || rank[order[i]] < count)
        fail("the certificate's order names variable {} twice, or there is none", order[i]);
      rank[order[i]] = i;
    }
    if (order.size() != count) fail("the certificate's order is of {} of {} variables", order.size(), count);
    std::vector<std::vector<int>> values(count);
    for (size_t v = 0; v < count; ++v)
      for (size_t x = 0; x < allowed[v].size(); ++x)
        if (allowed[v][x]) values[v].push_back(static_cast<int>(x));
    struct Summed {
      std::vector<int> scope;  // the last goes first in the order, and is the fastest
      std::vector<Wide> costs;
    };
    std::vector<std::vector<Summed>> of(count);  // [variable]: tables it is the first to go of
    size_t entries = 0;
    std::optional<Wide> constant = 0;
    auto put = [&](Summed table) {
      if ((entries += table.costs.size()) > kMostEntries)
        fail("the certificate's elimination takes tables of more than {} entries", kMostEntries);
      for (Wide c : table.costs)
        if (c != kNone && (c > kMost || c < -kMost)) fail("the certificate's sums leave 128 bits");
      if (!table.scope.empty()) return of[table.scope.back()].push_back(std::move(table));
      if (table.costs[0] >= kNone) constant.reset();
      else if (constant) constant = plus(*constant, table.costs[0]);
    };
    for (size_t v = 0; v < count; ++v) {
      Summed own{{static_cast<int>(v)}, {}};
      for (int x : values[v]) {
        if (unary[v][x] > kMost) fail("the certificate's sums leave 128 bits");
        own.costs.push_back(unary[v][x]);
      }
      put(std::move(own));
    }
    auto sorted = [&](std::vector<int> scope) {
      std::sort(scope.begin(), scope.end(), [&](int a, int b) { return rank[a] > rank[b]; });
      scope.erase(std::unique(scope.begin(), scope.end()), scope.end());
      std::erase_if(scope, [&](int v) { return values[v].size() == 1; });  // over the others, then
      return scope;
    };
    // f(places of values) for every combination over a scope.
    auto over = [&](const std::vector<int>& scope, auto&& f) {
      std::vector<size_t> at(scope.size(), 0);
      for (bool more = true; more;) {
        f(at);
        more = false;
        for (size_t i = scope.size(); i-- > 0 && !more;)
          if (!(more = ++at[i] < values[scope[i]].size())) at[i] = 0;
      }
    };
    for (const Factor& factor : factors) {
      if (factor.variables.size() == 1) continue;  // among the unaries
      Summed table{sorted(factor.variables), {}};
      std::vector<int> chosen;
      for (int v : factor.variables) chosen.push_back(values[v][0]);
      over(table.scope, [&](const std::vector<size_t>& at) {
        for (size_t i = 0; i < at.size(); ++i)
          chosen[static_cast<size_t>(
              std::lower_bound(factor.variables.begin(), factor.variables.end(), table.scope[i]) -
              factor.variables.begin())] = values[table.scope[i]][at[i]];
        const auto cost = cost_of(factor, chosen);
        table.costs.push_back(cost ? times(scale, *cost) : kNone);
        if (cost && table.costs.back() > kMost) fail("the certificate's sums leave 128 bits");
      });
      put(std::move(table));
    }
    for (int v : order) {
      const std::vector<Summed> mine = std::move(of[v]);
      Summed made;
      for (const Summed& table : mine) made.scope.insert(made.scope.end(), table.scope.begin(), table.scope.end() - 1);
      made.scope = sorted(std::move(made.scope));
      double size = 1;
      for (int w : made.scope) size *= static_cast<double>(values[w].size());
      if (size > static_cast<double>(kMostEntries))
        fail("the certificate's elimination takes tables of more than {} entries", kMostEntries);
      std::vector<std::vector<size_t>> strides(mine.size(), std::vector<size_t>(made.scope.size(), 0));
      for (size_t t = 0; t < mine.size(); ++t) {
        size_t stride = values[v].size();
        for (size_t i = mine[t].scope.size() - 1; i-- > 0; stride *= values[mine[t].scope[i]].size())
          strides[t][static_cast<size_t>(std::find(made.scope.begin(), made.scope.end(), mine[t].scope[i]) -
                                         made.scope.begin())] = stride;
      }
      std::vector<const Wide*> rows(mine.size());
      over(made.scope, [&](const std::vector<size_t>& at) {
        for (size_t t = 0; t < mine.size(); ++t) {
          rows[t] = mine[t].costs.data();
          for (size_t i = 0; i < at.size(); ++i) rows[t] += strides[t][i] * at[i];
        }
        Wide least = kNone;
        for (size_t x = 0; x < values[v].size(); ++x) {
          Wide sum = 0;
          for (const Wide* row : rows) sum = row[x] >= kNone || sum >= kNone ? kNone : sum + row[x];
          least = std::min(least, sum);
        }
        made.costs.push_back(least);
      });
      put(std::move(made));
    }
    return constant;
  }
  const Network& network;
  Allowed left;    // by steps
  Allowed beaten;  // left out, since they cost the claimed bound
  std::vector<Factor> factors;
  std::map<std::vector<int>, size_t> number_of;  // a factor's variables -> which
  std::vector<std::vector<int>> factors_of;      // [variable]
  Wide most = 0;                                 // no solution costs more
};

LeafJudge::LeafJudge(const Network& network, std::optional<Wide> most) {
  auto inside = std::make_unique<Inside>(network);
  if (most) inside->most = std::max(inside->most, *most);
  inside_ = std::move(inside);
}
Wide LeafJudge::most() const { return inside_->most; }
LeafJudge::~LeafJudge() = default;

void LeafJudge::take(const Certificate::Step& step, Wide claimed) {
  inside_->sweep(step.sweep, claimed);
  inside_->substitute(step.dominated);
}

std::optional<Wide> LeafJudge::bound(const Certificate::Leaf& leaf) const {
  const int64_t scale = leaf.scale;
  const Inside& in = *inside_;
  const Network& n = in.network;
  if (scale < 1) fail("the certificate's scale is {}; it must be positive", scale);
  Allowed allowed = in.left;
  for (const Certificate::Decision& d : leaf.decisions) {
    if (d.variable < 0 || d.variable >= n.variables())
      fail("the certificate decides on variable {}; there are {}", d.variable, n.variables());
    std::vector<char> kept(n.domain(d.variable), 0);
    for (int x : d.values) {
      if (x < 0 || x >= n.domain(d.variable))
        fail("the certificate keeps value {} of variable {}; it has {}", x, d.variable, n.domain(d.variable));
      kept[x] = allowed[d.variable][x];
    }
    allowed[d.variable] = kept;
  }
  if (!in.narrow(allowed)) return std::nullopt;
  const Inside::Reparametrised now = in.reparametrised(leaf, allowed, Inside::Singles::kAdded);
  Wide bound = now.besides;
  if (leaf.order.empty()) {
    for (size_t f = 0; f < in.factors.size(); ++f)
      if (in.factors[f].variables.size() > 1)
        bound = plus(bound, in.least_of(in.factors[f], allowed, now.messages[f], scale));
    for (int v = 0; v < n.variables(); ++v) bound = plus(bound, in.least_of(now.unary[v], allowed[v]).value());
  } else {
    if (!leaf.messages.empty()) fail("the certificate has a leaf with messages and an order");
    const auto least = in.eliminated(leaf.order, now.unary, allowed, scale);
    if (!least) return std::nullopt;
    bound = plus(bound, *least);
  }
  const Wide rounded = bound / scale + (bound % scale > 0 ? 1 : 0);
  if (rounded > in.most) return std::nullopt;
  return rounded;
}

namespace {

// Whether leaves[from, to) cover what their first `depth` decisions, which they share, leave. Throws if not.
void expect_cover(const Network& n, std::vector<const Certificate::Leaf*> leaves, size_t depth,
                  const Allowed& allowed) {
  if (leaves.size() == 1 && leaves[0]->decisions.size() == depth) return;
  std::map<std::vector<int>, std::vector<const Certificate::Leaf*>> parts;
  const int v = leaves[0]->decisions.size() > depth ? leaves[0]->decisions[depth].variable : -1;
  if (v < 0 || v >= n.variables())
    fail("the certificate's leaves overlap, or decide on no variable, after {} decisions", depth);
  for (const Certificate::Leaf* leaf : leaves) {
    if (leaf->decisions.size() <= depth || leaf->decisions[depth].variable != v)
      fail("the certificate's leaves do not all decide on variable {} after {} decisions", v, depth);
    parts[leaf->decisions[depth].values].push_back(leaf);
  }
  std::vector<int> times_kept(n.domain(v), 0);
  for (const auto& [values, part] : parts)
    for (int x : values) {
      if (x < 0 || x >= n.domain(v))
        fail("the certificate keeps value {} of variable {}; it has {}", x, v, n.domain(v));
      ++times_kept[x];
    }
  for (int x = 0; x < n.domain(v); ++x) {
    if (allowed[v][x] && times_kept[x] == 0)
      fail("the certificate's leaves leave out value {} of variable {} after {} decisions", x, v, depth);
    if (times_kept[x] > 1)
      fail("the certificate's leaves have value {} of variable {} {} times after {} decisions", x, v, times_kept[x],
           depth);
  }
  for (const auto& [values, part] : parts) {
    Allowed inner = allowed;
    std::vector<char> kept(n.domain(v), 0);
    for (int x : values) kept[x] = inner[v][x];
    inner[v] = kept;
    expect_cover(n, part, depth + 1, inner);
  }
}

}  // namespace

namespace {

Wide rounded_down(Wide sum, int64_t scale) { return sum / scale - (sum % scale < 0 ? 1 : 0); }

// Copies of parts: where each variable is.
struct Places {
  std::vector<int> copy, place;  // [variable]
};

Places places_of(const Network& n, const std::vector<Certificate::Part>& parts) {
  Places out{std::vector<int>(n.costs.size(), -1), std::vector<int>(n.costs.size(), 0)};
  int copies = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (parts[p].copies.empty()) fail("the certificate's part {} is nowhere", p);
    for (const std::vector<int>& copy : parts[p].copies) {
      if (copy.empty() || copy.size() != parts[p].copies[0].size())
        fail("the certificate's part {} has copies of {} and {} variables", p, parts[p].copies[0].size(), copy.size());
      for (size_t i = 0; i < copy.size(); ++i) {
        const int v = copy[i];
        if (v < 0 || v >= n.variables())
          fail("the certificate's part {} has variable {}; there are {}", p, v, n.variables());
        if (out.copy[v] >= 0) fail("the certificate has variable {} in parts twice", v);
        out.copy[v] = copies;
        out.place[v] = static_cast<int>(i);
      }
      ++copies;
    }
  }
  if (const auto left = std::find(out.copy.begin(), out.copy.end(), -1); left != out.copy.end())
    fail("the certificate has variable {} in no part", left - out.copy.begin());
  return out;
}

}  // namespace

std::optional<Wide> check(const Network& n, const Certificate& c) { return LeafJudge::Inside::check(n, c, 0); }

// In parts so deep.
std::optional<Wide> LeafJudge::Inside::check(const Network& n, const Certificate& c, int depth) {
  LeafJudge judge(n);
  if (!c.parts.empty()) return judge.inside_->of_parts(c, depth);
  if (c.leaves.empty()) fail("the certificate has no leaves");
  if (!c.steps.empty() && !c.bound) fail("the certificate has steps, but no bound that they could be taken for");
  for (const Certificate::Step& step : c.steps) judge.take(step, *c.bound);
  constexpr size_t kMostDecisions = 10'000;
  std::vector<const Certificate::Leaf*> leaves;
  for (const Certificate::Leaf& leaf : c.leaves) {
    if (leaf.decisions.size() > kMostDecisions)
      fail("the certificate has a leaf with {} decisions; {} are the most", leaf.decisions.size(), kMostDecisions);
    leaves.push_back(&leaf);
  }
  expect_cover(n, leaves, 0, judge.inside_->left);
  std::optional<Wide> least;
  for (const Certificate::Leaf& leaf : c.leaves)
    if (const auto bound = judge.bound(leaf); bound && (!least || *bound < *least)) least = bound;
  if (least && !c.bound)
    fail("the certificate claims that there is no solution, but proves only that none costs less than {}",
         to_string(*least));
  if (least && *c.bound > *least)
    fail("the certificate claims a bound of {}, but proves {}", to_string(*c.bound), to_string(*least));
  return c.steps.empty() ? least : c.bound;
}

Wide LeafJudge::Inside::of_parts(const Certificate& c, int depth) const {
  if (depth > Certificate::kDeepest)
    fail("the certificate's parts are proved in parts more than {} times over", Certificate::kDeepest);
  if (!c.leaves.empty() || !c.steps.empty()) fail("the certificate has parts beside steps or leaves");
  if (!c.bound) fail("the certificate has parts, but no bound");
  if (c.cut.scale < 1) fail("the certificate's scale is {}; it must be positive", c.cut.scale);
  if (!c.cut.decisions.empty() || !c.cut.order.empty()) fail("the certificate has a cut with decisions or an order");
  const Places at = places_of(network, c.parts);
  const Reparametrised now = reparametrised(c.cut, left, Singles::kLeft);  // they are edges of the part
  Wide bound = now.besides;
  std::map<const Table*, std::vector<std::pair<size_t, Wide>>> known;  // by table: factors, and the least of each
  auto least_across = [&](size_t f) {
    if (factors[f].parts.size() > 1) return least_of(factors[f], left, now.messages[f], c.cut.scale);
    std::vector<std::pair<size_t, Wide>>& alike = known[factors[f].parts[0].table];
    for (const auto& [other, least] : alike)
      if (same_but_for_names(f, other, now.messages)) return least;
    return alike.emplace_back(f, least_of(factors[f], left, now.messages[f], c.cut.scale)).second;
  };
  for (size_t f = 0; f < factors.size(); ++f) {
    const std::vector<int>& variables = factors[f].variables;
    const bool across =
        std::any_of(variables.begin(), variables.end(), [&](int v) { return at.copy[v] != at.copy[variables[0]]; });
    if (across) bound = plus(bound, least_across(f));
    else if (now.messages[f])
      fail("the certificate's cut has a message on variables [{}], which are in one part", fmt::join(variables, ", "));
  }
  using Edges = std::vector<std::pair<std::vector<int>, std::shared_ptr<const Table>>>;  // by places
  std::map<int, Edges> edges;                                                            // by copy
  for (const Network::Edge& e : network.edges) {
    const int copy = at.copy[e.variables[0]];
    if (std::any_of(e.variables.begin(), e.variables.end(), [&](int v) { return at.copy[v] != copy; })) continue;
    std::vector<int> places;
    for (int v : e.variables) places.push_back(at.place[v]);
    edges[copy].push_back({std::move(places), e.table});
  }
  auto part_of = [&](const std::vector<int>& copy) {
    Network part;
    for (int v : copy) {
      part.costs.emplace_back();
      for (size_t x = 0; x < network.costs[v].size(); ++x) {
        const Wide cost = left[v][x] ? rounded_down(now.unary[v][x], c.cut.scale) : kForbidden;
        if (left[v][x] && (cost >= kForbidden || cost <= -kForbidden))
          fail("the certificate's cut makes the costs of variable {} too large", v);
        part.costs.back().push_back(static_cast<int64_t>(cost));
      }
    }
    Edges& list = edges[at.copy[copy[0]]];
    std::sort(list.begin(), list.end());
    for (const auto& [variables, table] : list) part.edges.push_back({variables, table});
    return part;
  };
  for (size_t p = 0; p < c.parts.size(); ++p) {
    const auto& [copies, proof] = c.parts[p];
    const Network part = part_of(copies[0]);
    for (size_t i = 1; i < copies.size(); ++i) {
      const Network other = part_of(copies[i]);
      const bool same =
          other.costs == part.costs && other.edges.size() == part.edges.size() &&
          std::equal(other.edges.begin(), other.edges.end(), part.edges.begin(),
                     [](const auto& a, const auto& b) { return a.variables == b.variables && a.table == b.table; });
      if (!same) fail("the certificate's part {} is another one in copy {}", p, i);
    }
    const auto proved = check(part, proof, depth + 1);
    if (!proved) return *c.bound;  // and there is no solution at all
    bound = plus(bound, times(times(c.cut.scale, static_cast<Wide>(copies.size())), *proved));
  }
  const Wide rounded = bound / c.cut.scale + (bound % c.cut.scale > 0 ? 1 : 0);
  if (*c.bound > rounded)
    fail("the certificate claims a bound of {}, but proves {}", to_string(*c.bound), to_string(rounded));
  return rounded;
}

}  // namespace partita::solver

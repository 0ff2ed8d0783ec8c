#include "partita/network/certificate.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"

namespace partita::solver {

namespace {

using Allowed = std::vector<std::vector<char>>;  // [variable][value]

Wide plus(Wide a, Wide b) {
  Wide sum;
  if (__builtin_add_overflow(a, b, &sum)) fail("the certificate's sums leave 128 bits");
  return sum;
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
        part.strides[std::lower_bound(variables.begin(), variables.end(), e.variables[i]) - variables.begin()] += stride;
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

  // The least of scale * cost - messages; a pair whose values have partners. Sums of one product and two messages fit 128 bits:
  // |scale * cost| < 2^126.
  Wide least_of_pair(const Factor& factor, const Allowed& allowed, const Certificate::Message* message, int64_t scale) const {
    const Factor::Part& part = factor.parts[0];
    const auto &rows = allowed[factor.variables[0]], &columns = allowed[factor.variables[1]];
    const std::vector<int64_t> none;
    const auto &first = message ? message->ends[0] : none, &second = message ? message->ends[1] : none;
    Wide least = 0;
    bool any = false;
    for (size_t x = 0; x < rows.size(); ++x) {
      if (!rows[x]) continue;
      const Wide own = first.empty() ? 0 : first[x];
      for (size_t y = 0; y < columns.size(); ++y) {
        if (!columns[y]) continue;
        const int64_t cost = (*part.table)[part.strides[0] * x + part.strides[1] * y];
        if (cost >= kForbidden) continue;
        const Wide sum = Wide{scale} * cost - own - (second.empty() ? 0 : second[y]);
        if (!any || sum < least) least = sum, any = true;
      }
    }
    return least;
  }

  const Network& network;
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

std::optional<Wide> LeafJudge::bound(const Certificate::Leaf& leaf) const {
  const int64_t scale = leaf.scale;
  const Inside& in = *inside_;
  const Network& n = in.network;
  if (scale < 1) fail("the certificate's scale is {}; it must be positive", scale);
  Allowed allowed;
  for (const Table& costs : n.costs) {
    allowed.emplace_back();
    for (int64_t cost : costs) allowed.back().push_back(cost < kForbidden);
  }
  for (const Certificate::Decision& d : leaf.decisions) {
    if (d.variable < 0 || d.variable >= n.variables()) fail("the certificate decides on variable {}; there are {}", d.variable, n.variables());
    std::vector<char> kept(n.domain(d.variable), 0);
    for (int x : d.values) {
      if (x < 0 || x >= n.domain(d.variable)) fail("the certificate keeps value {} of variable {}; it has {}", x, d.variable, n.domain(d.variable));
      kept[x] = allowed[d.variable][x];
    }
    allowed[d.variable] = kept;
  }
  if (!in.narrow(allowed)) return std::nullopt;

  // Unaries with what messages and multipliers make of them, then factors less their messages.
  std::vector<std::vector<Wide>> unary;
  for (const Table& costs : n.costs) {
    unary.emplace_back();
    for (int64_t cost : costs) unary.back().push_back(times(scale, cost));
  }
  std::vector<const Certificate::Message*> messages(in.factors.size(), nullptr);
  for (const Certificate::Message& m : leaf.messages) {
    auto it = in.number_of.find(m.variables);
    if (it == in.number_of.end() || m.variables.size() < 2) fail("the certificate has a message on variables [{}], which no edge joins", fmt::join(m.variables, ", "));
    if (messages[it->second]) fail("the certificate has two messages on variables [{}]", fmt::join(m.variables, ", "));
    if (m.ends.size() != m.variables.size()) fail("the certificate's message on variables [{}] has {} ends", fmt::join(m.variables, ", "), m.ends.size());
    messages[it->second] = &m;
    for (size_t i = 0; i < m.ends.size(); ++i) {
      const int v = m.variables[i];
      if (m.ends[i].empty()) continue;
      if (static_cast<int>(m.ends[i].size()) != n.domain(v)) fail("the certificate's message to variable {} has {} numbers for {} values", v, m.ends[i].size(), n.domain(v));
      for (int x = 0; x < n.domain(v); ++x) unary[v][x] = plus(unary[v][x], m.ends[i][x]);
    }
  }
  Wide bound = 0;
  for (size_t f = 0; f < in.factors.size(); ++f) {
    const Factor& factor = in.factors[f];
    if (factor.variables.size() == 1) {
      const int v = factor.variables[0];
      for (int x = 0; x < n.domain(v); ++x)
        if (allowed[v][x]) in.combinations(factor, allowed, 0, x, [&](const auto&, Wide cost) { return unary[v][x] = plus(unary[v][x], times(scale, cost)), false; });
      continue;
    }
    if (factor.variables.size() == 2 && factor.parts.size() == 1) {
      bound = plus(bound, in.least_of_pair(factor, allowed, messages[f], scale));
      continue;
    }
    std::optional<Wide> least;
    in.combinations(factor, allowed, -1, 0, [&](const std::vector<int>& values, Wide cost) {
      Wide sum = times(scale, cost);
      if (messages[f])
        for (size_t i = 0; i < values.size(); ++i)
          if (const auto& end = messages[f]->ends[i]; !end.empty()) sum = plus(sum, -Wide{end[values[i]]});
      if (!least || sum < *least) least = sum;
      return true;
    });
    bound = plus(bound, least.value());  // there is one: all values left have partners
  }
  if (!leaf.multipliers.empty()) {
    if (!n.limit) fail("the certificate has multipliers, but the problem has no limit");
    std::vector<std::pair<int64_t, Wide>> sums;  // (time, of all multipliers until then, its own included)
    Wide sum = 0;
    for (const Certificate::Multiplier& m : leaf.multipliers) {
      if (m.value < 0) fail("the certificate's multiplier at time {} is negative: {}", m.time, m.value);
      if (!sums.empty() && sums.back().first >= m.time) fail("the certificate's multipliers are not in order of time at {}", m.time);
      sums.push_back({m.time, sum = plus(sum, m.value)});
    }
    auto before = [&](int64_t time) {
      auto it = std::lower_bound(sums.begin(), sums.end(), time, [](const auto& s, int64_t t) { return s.first < t; });
      return it == sums.begin() ? Wide{0} : std::prev(it)->second;
    };
    for (const Network::Use& u : n.uses) {
      if (u.lower >= u.upper) continue;
      const Wide price = before(u.upper) - before(u.lower);
      if (price == 0) continue;
      for (size_t x = 0; x < u.amounts.size(); ++x) unary[u.variable][x] = plus(unary[u.variable][x], times(price, u.amounts[x]));
    }
    bound = plus(bound, -times(sum, *n.limit));
  }
  for (int v = 0; v < n.variables(); ++v) {
    std::optional<Wide> least;
    for (int x = 0; x < n.domain(v); ++x)
      if (allowed[v][x] && (!least || unary[v][x] < *least)) least = unary[v][x];
    bound = plus(bound, least.value());
  }
  const Wide rounded = bound / scale + (bound % scale > 0 ? 1 : 0);
  if (rounded > in.most) return std::nullopt;
  return rounded;
}

namespace {

// Whether leaves[from, to) cover what their first `depth` decisions, which they share, leave. Throws if not.
void expect_cover(const Network& n, std::vector<const Certificate::Leaf*> leaves, size_t depth, const Allowed& allowed) {
  if (leaves.size() == 1 && leaves[0]->decisions.size() == depth) return;
  std::map<std::vector<int>, std::vector<const Certificate::Leaf*>> parts;
  const int v = leaves[0]->decisions.size() > depth ? leaves[0]->decisions[depth].variable : -1;
  if (v < 0 || v >= n.variables()) fail("the certificate's leaves overlap, or decide on no variable, after {} decisions", depth);
  for (const Certificate::Leaf* leaf : leaves) {
    if (leaf->decisions.size() <= depth || leaf->decisions[depth].variable != v) fail("the certificate's leaves do not all decide on variable {} after {} decisions", v, depth);
    parts[leaf->decisions[depth].values].push_back(leaf);
  }
  std::vector<int> times_kept(n.domain(v), 0);
  for (const auto& [values, part] : parts)
    for (int x : values) {
      if (x < 0 || x >= n.domain(v)) fail("the certificate keeps value {} of variable {}; it has {}", x, v, n.domain(v));
      ++times_kept[x];
    }
  for (int x = 0; x < n.domain(v); ++x) {
    if (allowed[v][x] && times_kept[x] == 0) fail("the certificate's leaves leave out value {} of variable {} after {} decisions", x, v, depth);
    if (times_kept[x] > 1) fail("the certificate's leaves have value {} of variable {} {} times after {} decisions", x, v, times_kept[x], depth);
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

std::optional<Wide> check(const Network& n, const Certificate& c) {
  if (c.leaves.empty()) fail("the certificate has no leaves");
  const LeafJudge judge(n);
  Allowed all;
  for (const Table& costs : n.costs) all.emplace_back(costs.size(), 1);
  std::vector<const Certificate::Leaf*> leaves;
  for (const Certificate::Leaf& leaf : c.leaves) leaves.push_back(&leaf);
  expect_cover(n, leaves, 0, all);
  std::optional<Wide> least;
  for (const Certificate::Leaf& leaf : c.leaves)
    if (const auto bound = judge.bound(leaf); bound && (!least || *bound < *least)) least = bound;
  if (least && !c.bound) fail("the certificate claims that there is no solution, but proves only that none costs less than {}", to_string(*least));
  if (least && *c.bound > *least) fail("the certificate claims a bound of {}, but proves {}", to_string(*c.bound), to_string(*least));
  return least;
}

std::string print_certificate(const Certificate& c) {
  std::string out;
  auto at = std::back_inserter(out);
  fmt::format_to(at, "{{\"schema_version\": 1, \"bound\": {},\n \"leaves\": [", c.bound ? "\"" + to_string(*c.bound) + "\"" : "null");
  auto list = [&](const char* open, const auto& items, auto&& print) {
    out += open;
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) out += ",";
      print(item);
    }
    out += "]";
  };
  bool first = true;
  for (const Certificate::Leaf& leaf : c.leaves) {
    out += std::exchange(first, false) ? "\n  {" : ",\n  {";
    fmt::format_to(at, "\"scale\": {},\n   ", leaf.scale);
    list("\"decisions\": [", leaf.decisions, [&](const auto& d) { fmt::format_to(at, "{{\"variable\": {}, \"values\": [{}]}}", d.variable, fmt::join(d.values, ",")); });
    list(",\n   \"multipliers\": [", leaf.multipliers, [&](const auto& m) { fmt::format_to(at, "[{},{}]", m.time, m.value); });
    list(",\n   \"messages\": [", leaf.messages, [&](const auto& m) {
      fmt::format_to(at, "\n    {{\"variables\": [{}], ", fmt::join(m.variables, ","));
      list("\"ends\": [", m.ends, [&](const auto& end) { fmt::format_to(at, "[{}]", fmt::join(end, ",")); });
      out += "}";
    });
    out += "}";
  }
  out += "]}\n";
  return out;
}

Certificate parse_certificate(const std::string& text, const std::string& file) {
  using Json = nlohmann::json;
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& e) {
    fail("{}: is not JSON: {}", file, e.what());
  }
  auto member = [&](const Json& object, const char* name, const std::string& place) -> const Json& {
    if (!object.is_object() || !object.contains(name)) fail("{}: {} has no {}", file, place, name);
    return object[name];
  };
  auto integer = [&](const Json& value, const std::string& place) -> int64_t {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))) fail("{}: {} is not an integer of 64 bits", file, place);
    return value.get<int64_t>();
  };
  auto small = [&](const Json& value, const std::string& place) {
    const int64_t number = integer(value, place);
    if (number < 0 || number > INT32_MAX) fail("{}: {} is out of range: {}", file, place, number);
    return static_cast<int>(number);
  };
  auto items = [&](const Json& value, const std::string& place) -> const Json& {
    if (!value.is_array()) fail("{}: {} is not a list", file, place);
    return value;
  };
  Certificate c;
  if (integer(member(json, "schema_version", "the certificate"), "schema_version") != 1) fail("{}: schema_version is not 1", file);
  if (const Json& bound = member(json, "bound", "the certificate"); bound.is_string()) {
    c.bound = parse_wide(bound.get<std::string>());
    if (!c.bound) fail("{}: bound is not an integer of 128 bits", file);
  } else if (!bound.is_null()) {
    c.bound = integer(bound, "bound");
  }
  for (const Json& l : items(member(json, "leaves", "the certificate"), "leaves")) {
    Certificate::Leaf leaf;
    const std::string place = fmt::format("leaves[{}]", c.leaves.size());
    leaf.scale = integer(member(l, "scale", place), place + ".scale");
    for (const Json& d : items(member(l, "decisions", place), place + ".decisions")) {
      Certificate::Decision decision{small(member(d, "variable", place + ".decisions"), place + ".decisions"), {}};
      for (const Json& x : items(member(d, "values", place + ".decisions"), place + ".decisions")) decision.values.push_back(small(x, place + ".decisions"));
      leaf.decisions.push_back(std::move(decision));
    }
    for (const Json& m : items(member(l, "multipliers", place), place + ".multipliers")) {
      if (!m.is_array() || m.size() != 2) fail("{}: {}.multipliers holds what is not [time, value]", file, place);
      leaf.multipliers.push_back({integer(m[0], place + ".multipliers"), integer(m[1], place + ".multipliers")});
    }
    for (const Json& m : items(member(l, "messages", place), place + ".messages")) {
      Certificate::Message message;
      for (const Json& v : items(member(m, "variables", place + ".messages"), place + ".messages")) message.variables.push_back(small(v, place + ".messages"));
      for (const Json& end : items(member(m, "ends", place + ".messages"), place + ".messages")) {
        message.ends.emplace_back();
        for (const Json& x : items(end, place + ".messages")) message.ends.back().push_back(integer(x, place + ".messages"));
      }
      leaf.messages.push_back(std::move(message));
    }
    c.leaves.push_back(std::move(leaf));
  }
  return c;
}

}  // namespace partita::solver

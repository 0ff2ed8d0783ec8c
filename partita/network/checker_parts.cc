// Checks a certificate in parts: the networks that the cut makes, the equality of a part's copies, and their proofs.
#include <algorithm>

#include "partita/network/checker.h"

namespace partita::solver {

namespace {

Wide rounded_down(Wide sum, int64_t scale) { return sum / scale - (sum % scale < 0 ? 1 : 0); }

// The place of each variable: the copy of a part, counted over all parts, and the place in it.
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

bool crosses_copies(const std::vector<int>& variables, const Places& at) {
  return std::any_of(variables.begin(), variables.end(), [&](int v) { return at.copy[v] != at.copy[variables[0]]; });
}

// ------------------------------------------------------------------ factors across copies

// Tells whether two factors of one table each, the same one, are equal but for names: in orientation, values and
// messages.
bool same_but_for_names(const CheckedNetwork& j, size_t f, size_t g,
                        const std::vector<const Certificate::Message*>& messages) {
  const std::vector<int>&a = j.factors[f].variables, &b = j.factors[g].variables;
  if (a.size() != b.size() || j.factors[f].parts[0].strides != j.factors[g].parts[0].strides ||
      !messages[f] != !messages[g])
    return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (j.left[a[i]] != j.left[b[i]]) return false;
  return !messages[f] || messages[f]->ends == messages[g]->ends;
}

// The sum of the least costs of all factors across copies, less their messages. Factors that are the same but for names
// are computed once.
Wide least_across(const CheckedNetwork& j, const Places& at, const Reparametrised& now, int64_t scale) {
  std::map<const Table*, std::vector<std::pair<size_t, Wide>>> known;  // by table: factors, and the least of each
  auto least_of_one = [&](size_t f) {
    if (j.factors[f].parts.size() > 1) return least_cost(j.factors[f], j.left, now.messages[f], scale);
    std::vector<std::pair<size_t, Wide>>& alike = known[j.factors[f].parts[0].table];
    for (const auto& [other, least] : alike)
      if (same_but_for_names(j, f, other, now.messages)) return least;
    return alike.emplace_back(f, least_cost(j.factors[f], j.left, now.messages[f], scale)).second;
  };
  Wide sum = now.besides;
  for (size_t f = 0; f < j.factors.size(); ++f) {
    const std::vector<int>& variables = j.factors[f].variables;
    if (crosses_copies(variables, at)) sum = checked_sum(sum, least_of_one(f));
    else if (now.messages[f])
      fail(
          "the certificate's cut has a message on variables [{}], which are "
          "in one part",
          fmt::join(variables, ", "));
  }
  return sum;
}

// ------------------------------------------------------------------ parts

// The edges within each copy, by the places of their variables.
using Edges = std::vector<std::pair<std::vector<int>, std::shared_ptr<const Table>>>;

std::map<int, Edges> edges_within(const Network& n, const Places& at) {
  std::map<int, Edges> edges;
  for (const Network::Edge& e : n.edges) {
    if (crosses_copies(e.variables, at)) continue;
    std::vector<int> places;
    for (int v : e.variables) places.push_back(at.place[v]);
    edges[at.copy[e.variables[0]]].push_back({std::move(places), e.table});
  }
  for (auto& [copy, list] : edges) std::sort(list.begin(), list.end());
  return edges;
}

// Makes one copy a network: the costs after the cut, and the edges within.
Network network_of(const CheckedNetwork& j, const std::vector<int>& copy, const Edges& edges, const Reparametrised& now,
                   int64_t scale) {
  Network part;
  for (int v : copy) {
    part.costs.emplace_back();
    for (size_t x = 0; x < j.network.costs[v].size(); ++x) {
      const Wide cost = j.left[v][x] ? rounded_down(now.unary[v][x], scale) : kForbidden;
      if (j.left[v][x] && (cost >= kForbidden || cost <= -kForbidden))
        fail("the certificate's cut makes the costs of variable {} too large", v);
      part.costs.back().push_back(static_cast<int64_t>(cost));
    }
  }
  for (const auto& [variables, table] : edges) part.edges.push_back({variables, table});
  return part;
}

bool are_same(const Network& a, const Network& b) {
  return a.costs == b.costs && a.edges.size() == b.edges.size() &&
         std::equal(a.edges.begin(), a.edges.end(), b.edges.begin(),
                    [](const auto& x, const auto& y) { return x.variables == y.variables && x.table == y.table; });
}

void check_form(const Certificate& c, int depth) {
  if (depth > Certificate::kDeepest)
    fail("the certificate's parts are proved in parts more than {} times over", Certificate::kDeepest);
  if (!c.leaves.empty() || !c.steps.empty()) fail("the certificate has parts beside steps or leaves");
  if (!c.bound) fail("the certificate has parts, but no bound");
  if (c.cut.scale < 1) fail("the certificate's scale is {}; it must be positive", c.cut.scale);
  if (!c.cut.decisions.empty() || !c.cut.order.empty()) fail("the certificate has a cut with decisions or an order");
}

}  // namespace

Wide bound_of_parts(const CheckedNetwork& j, const Certificate& c, int depth) {
  check_form(c, depth);
  const int64_t scale = c.cut.scale;
  const Places at = places_of(j.network, c.parts);
  const Reparametrised now = reparametrise(j, c.cut, j.left, Singles::kLeft);  // they are edges of the part
  Wide bound = least_across(j, at, now, scale);
  std::map<int, Edges> edges = edges_within(j.network, at);
  auto part_of = [&](const std::vector<int>& copy) { return network_of(j, copy, edges[at.copy[copy[0]]], now, scale); };
  for (size_t p = 0; p < c.parts.size(); ++p) {
    const auto& [copies, proof] = c.parts[p];
    const Network part = part_of(copies[0]);
    for (size_t i = 1; i < copies.size(); ++i)
      if (!are_same(part_of(copies[i]), part)) fail("the certificate's part {} is another one in copy {}", p, i);
    const auto proved = check_at_depth(part, proof, depth + 1);
    if (!proved) return *c.bound;  // and there is no solution at all
    bound = checked_sum(bound, checked_product(checked_product(scale, static_cast<Wide>(copies.size())), *proved));
  }
  const Wide rounded = bound / scale + (bound % scale > 0 ? 1 : 0);
  if (*c.bound > rounded)
    fail("the certificate claims a bound of {}, but proves {}", to_string(*c.bound), to_string(rounded));
  return rounded;
}

}  // namespace partita::solver

// Checks certificates: the bound of a leaf, the cover of the space by leaves, and the claim of the whole.
#include "partita/network/certificate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "partita/network/checker.h"

namespace partita::solver {

namespace {

Allowed decided(const CheckedNetwork& j, const std::vector<Certificate::Decision>& decisions) {
  const Network& n = j.network;
  Allowed allowed = j.left;
  for (const Certificate::Decision& d : decisions) {
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
  return allowed;
}

std::optional<Wide> leaf_bound(const CheckedNetwork& j, const Certificate::Leaf& leaf) {
  const int64_t scale = leaf.scale;
  const Network& n = j.network;
  if (scale < 1) fail("the certificate's scale is {}; it must be positive", scale);
  Allowed allowed = decided(j, leaf.decisions);
  if (!narrow_allowed(j, allowed)) return std::nullopt;
  const Reparametrised now = reparametrise(j, leaf, allowed, Singles::kAdded);
  Wide bound = now.besides;
  if (leaf.order.empty()) {
    for (size_t f = 0; f < j.factors.size(); ++f)
      if (j.factors[f].variables.size() > 1)
        bound = checked_sum(bound, least_cost(j.factors[f], allowed, now.messages[f], scale));
    for (int v = 0; v < n.variables(); ++v) bound = checked_sum(bound, least_cost(now.unary[v], allowed[v]).value());
  } else {
    if (!leaf.messages.empty()) fail("the certificate has a leaf with messages and an order");
    const auto least = least_by_elimination(j, leaf.order, now.unary, allowed, scale);
    if (!least) return std::nullopt;
    bound = checked_sum(bound, *least);
  }
  const Wide rounded = bound / scale + (bound % scale > 0 ? 1 : 0);
  if (rounded > j.most) return std::nullopt;
  return rounded;
}

// Throws unless each allowed value of v is in exactly one of the lists.
template <typename Lists>
void check_partition(const Network& n, int v, const Lists& lists, size_t depth, const std::vector<char>& allowed) {
  std::vector<int> times_kept(n.domain(v), 0);
  for (const auto& [values, leaves] : lists)
    for (int x : values) {
      if (x < 0 || x >= n.domain(v))
        fail("the certificate keeps value {} of variable {}; it has {}", x, v, n.domain(v));
      ++times_kept[x];
    }
  for (int x = 0; x < n.domain(v); ++x) {
    if (allowed[x] && times_kept[x] == 0)
      fail(
          "the certificate's leaves leave out value {} of variable {} after "
          "{} decisions",
          x, v, depth);
    if (times_kept[x] > 1)
      fail(
          "the certificate's leaves have value {} of variable {} {} times "
          "after {} decisions",
          x, v, times_kept[x], depth);
  }
}

// Checks that the leaves cover all that their first `depth` decisions, which they share, leave. Throws if not.
void check_cover(const Network& n, const std::vector<const Certificate::Leaf*>& leaves, size_t depth,
                 const Allowed& allowed) {
  if (leaves.size() == 1 && leaves[0]->decisions.size() == depth) return;
  const int v = leaves[0]->decisions.size() > depth ? leaves[0]->decisions[depth].variable : -1;
  if (v < 0 || v >= n.variables())
    fail(
        "the certificate's leaves overlap, or decide on no variable, after {} "
        "decisions",
        depth);
  std::map<std::vector<int>, std::vector<const Certificate::Leaf*>> parts;
  for (const Certificate::Leaf* leaf : leaves) {
    if (leaf->decisions.size() <= depth || leaf->decisions[depth].variable != v)
      fail(
          "the certificate's leaves do not all decide on variable {} after {} "
          "decisions",
          v, depth);
    parts[leaf->decisions[depth].values].push_back(leaf);
  }
  check_partition(n, v, parts, depth, allowed[v]);
  for (const auto& [values, part] : parts) {
    Allowed inner = allowed;
    std::vector<char> kept(n.domain(v), 0);
    for (int x : values) kept[x] = inner[v][x];
    inner[v] = kept;
    check_cover(n, part, depth + 1, inner);
  }
}

std::vector<const Certificate::Leaf*> leaves_of(const Certificate& c) {
  constexpr size_t kMostDecisions = 10'000;
  std::vector<const Certificate::Leaf*> leaves;
  for (const Certificate::Leaf& leaf : c.leaves) {
    if (leaf.decisions.size() > kMostDecisions)
      fail("the certificate has a leaf with {} decisions; {} are the most", leaf.decisions.size(), kMostDecisions);
    leaves.push_back(&leaf);
  }
  return leaves;
}

}  // namespace

LeafChecker::LeafChecker(const Network& network, std::optional<Wide> most)
    : checked_(std::make_unique<CheckedNetwork>(network)) {
  if (most) checked_->most = std::max(checked_->most, *most);
}
LeafChecker::~LeafChecker() = default;

Wide LeafChecker::most() const { return checked_->most; }
void LeafChecker::take(const Certificate::Step& step, Wide claimed) { apply_step(*checked_, step, claimed); }
std::optional<Wide> LeafChecker::bound(const Certificate::Leaf& leaf) const { return leaf_bound(*checked_, leaf); }

std::optional<Wide> check(const Network& n, const Certificate& c) { return check_at_depth(n, c, 0); }

std::optional<Wide> check_at_depth(const Network& n, const Certificate& c, int depth) {
  CheckedNetwork j(n);
  if (!c.parts.empty()) return bound_of_parts(j, c, depth);
  if (c.leaves.empty()) fail("the certificate has no leaves");
  if (!c.steps.empty() && !c.bound) fail("the certificate has steps, but no bound that they could be taken for");
  for (const Certificate::Step& step : c.steps) apply_step(j, step, *c.bound);
  check_cover(n, leaves_of(c), 0, j.left);
  std::optional<Wide> least;
  for (const Certificate::Leaf& leaf : c.leaves)
    if (const auto bound = leaf_bound(j, leaf); bound && (!least || *bound < *least)) least = bound;
  if (least && !c.bound)
    fail(
        "the certificate claims that there is no solution, but proves only "
        "that none costs less than {}",
        to_string(*least));
  if (least && *c.bound > *least)
    fail("the certificate claims a bound of {}, but proves {}", to_string(*c.bound), to_string(*least));
  return c.steps.empty() ? least : c.bound;
}

}  // namespace partita::solver

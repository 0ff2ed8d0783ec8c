// Tests networks with some of their values against the whole ones.
#include "partita/solver/subset.h"

#include <gtest/gtest.h>

#include "partita/base/rng.h"
#include "partita/network/testing/random_networks.h"

namespace partita::solver {
namespace {

std::vector<std::vector<int>> some_values(Rng& rng, const Network& n) {
  std::vector<std::vector<int>> values(n.variables());
  for (int v = 0; v < n.variables(); ++v) {
    const int one = static_cast<int>(rng.below(n.domain(v)));
    for (int x = 0; x < n.domain(v); ++x)
      if (x == one || rng.below(3) != 0) values[v].push_back(x);
  }
  return values;
}

// Adds edges over one, two and three variables, and over one twice; parallel ones, and in both directions.
void add_edges(Rng& rng, Network& n) {
  for (const int count : {1, 2, 2, 2, 3, 3}) {
    Network::Edge e;
    size_t size = 1;
    for (int i = 0; i < count; ++i) {
      e.variables.push_back(static_cast<int>(rng.below(n.variables())));
      size *= static_cast<size_t>(n.domain(e.variables.back()));
    }
    Table t(size);
    for (int64_t& c : t) c = rng.below(9) == 0 ? kForbidden : rng.between(-50, 50);
    e.table = std::make_shared<const Table>(std::move(t));
    n.edges.push_back(std::move(e));
  }
}

TEST(Subset, CostsAndUsesAreThoseOfTheWhole) {
  const uint64_t seed = 20261123;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int fewer = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    Network n = random_network(
        {.family = kFamilies[i % 5], .size = 12, .values = 4, .forbidden = 0.1, .limited = i % 2 == 0}, i);
    add_edges(rng, n);
    const std::vector<std::vector<int>> values = some_values(rng, n);
    const Subset subset(n, values);
    validate(subset.network());
    for (int k = 0; k < 10; ++k) {
      Assignment y;
      for (int v = 0; v < n.variables(); ++v) y.push_back(static_cast<int>(rng.below(values[v].size())));
      const Assignment x = subset.whole(y);
      ASSERT_EQ(subset.lowered(x), y);
      const Evaluation part = evaluate(subset.network(), y), whole = evaluate(n, x);
      ASSERT_EQ(part.feasible, whole.feasible) << "seed " << seed << ", network " << i;
      ASSERT_EQ(to_string(part.cost), to_string(whole.cost)) << "seed " << seed << ", network " << i;
      ASSERT_EQ(to_string(part.peak.value_or(-1)), to_string(whole.peak.value_or(-1)))
          << "seed " << seed << ", network " << i;
    }
    Assignment away(n.variables());  // a value that is not kept stays within the kept ones
    for (int v = 0; v < n.variables(); ++v) away[v] = static_cast<int>(rng.below(n.domain(v)));
    evaluate(subset.network(), subset.lowered(away));

    Certificate::Leaf leaf = random_messages(rng, n);
    if (n.limit) leaf.multipliers = {{1, 3}};
    const std::optional<Wide> all = LeafChecker(n).bound(leaf),
                              left = LeafChecker(subset.network()).bound(subset.lowered(leaf));
    if (!left) continue;
    ASSERT_TRUE(all) << "seed " << seed << ", network " << i;
    ASSERT_TRUE(*left >= *all) << "seed " << seed << ", network " << i;
    fewer += *left > *all;
  }
  EXPECT_GT(fewer, 50);
}

}  // namespace
}  // namespace partita::solver

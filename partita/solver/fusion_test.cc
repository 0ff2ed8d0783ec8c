// Tests fused assignments against all mixtures of the originals.
#include "partita/solver/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/tuples.h"
#include "partita/network/testing/random_networks.h"

namespace partita::solver {
namespace {

TEST(Fusion, IsTheBestOfAllMixtures) {
  const uint64_t seed = 20261130;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int better = 0, none = 0;
  for (int i = 0; i < 200; ++i) {
    const Network n = random_network({kFamilies[i % 5], 6, 4, i % 3 == 0 ? 0.3 : 0.0}, rng.next());
    if (n.variables() > 10) continue;
    std::vector<Assignment> from(2 + (n.variables() < 9 && i % 2));
    for (Assignment& x : from)
      for (int v = 0; v < n.variables(); ++v) x.push_back(static_cast<int>(rng.below(n.domain(v))));
    std::optional<Wide> truth;
    std::vector<size_t> counts(n.costs.size(), from.size());
    for_each_tuple(counts, [&](const std::vector<size_t>& which) {
      Assignment x;
      for (int v = 0; v < n.variables(); ++v) x.push_back(from[which[v]][v]);
      if (const Evaluation e = evaluate(n, x); e.forbidden == 0 && (!truth || e.cost < *truth)) truth = e.cost;
    });
    const auto made = fuse_assignments(n, from);
    ASSERT_EQ(made.has_value(), truth.has_value()) << "seed " << seed << ", network " << i;
    if (!made) {
      ++none;
      continue;
    }
    const Evaluation e = evaluate(n, *made);
    ASSERT_EQ(e.forbidden, 0) << "seed " << seed << ", network " << i;
    ASSERT_EQ(to_string(e.cost), to_string(*truth)) << "seed " << seed << ", network " << i;
    better += std::all_of(from.begin(), from.end(), [&](const Assignment& a) { return evaluate(n, a).cost > e.cost; });
  }
  EXPECT_GT(better, 50);
  EXPECT_GT(none, 10);
}

}  // namespace
}  // namespace partita::solver

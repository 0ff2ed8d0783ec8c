// FLOPs and touched elements (21 to 23).
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/tdl/testing/instances.h"

namespace partita::tdl {
namespace {

using testing::named;

double flops_of(std::string_view name) { return flops(testing::bind(named(name))); }

constexpr std::string_view kGuarded = R"(att(q, k, v)[n, h, i, d] =
    s[n, h, i, j] = sum(e) if(j <= i + O, q[n, h, i, e] * k[n, h, j, e], 0)
    m[n, h, i]    = max(j) if(j <= i + O, 0.5 * s[n, h, i, j], -inf)
    p[n, h, i, j] = if(j <= i + O, exp(0.5 * s[n, h, i, j] - m[n, h, i]), 0)
    l[n, h, i]    = sum(j) if(j <= i + O, p[n, h, i, j], 0)
    a[n, h, i, d] = sum(j) if(j <= i + O, p[n, h, i, j] * v[n, h, j, d], 0)
    a[n, h, i, d] / l[n, h, i])";

TEST(Flops, OfAMatrixProductAreTwoMNK) { EXPECT_EQ(flops_of("matmul"), 2 * 5 * 7 * 3); }

TEST(Flops, OfConvolutionAreTwoPerPoint) { EXPECT_EQ(flops_of("conv2d"), 2 * 3 * 4 * 9 * 5 * 27); }

TEST(Flops, AnIndexThatDataDeterminesIsNotCounted) {
  EXPECT_EQ(flops_of("embedding"), 0);
  EXPECT_EQ(flops_of("embedding grad"), 3 * 2 * 5);  // one addition an element of the cotangent
}

TEST(Flops, AGuardOfAReducerRestrictsItsPoints) {
  EXPECT_EQ(flops_of("cumsum"), 3 * 7 * 8 / 2);
  int64_t n = 64, d = 8;
  std::vector<Shape> shapes(3, Shape{1, 1, n, d});
  double guarded = flops(tdl::bind(kGuarded, shapes, {{"O", 0}}));
  double all = flops(tdl::bind(kGuarded, shapes, {{"O", static_cast<double>(n)}}));
  double half = static_cast<double>(n * (n + 1)) / 2;
  // products: d multiplications and additions each; maximum 2, exponential 3 and sum 1 a score; one division an element
  EXPECT_EQ(guarded, half * static_cast<double>(4 * d + 2 + 3 + 1) + static_cast<double>(n * d));
  EXPECT_NEAR(guarded / all, 0.5, 0.02);
}

TEST(Flops, GuardsOnLargeExtentsAreSolvedNotEnumerated) {
  int64_t n = 4096;
  std::vector<Shape> shapes(3, Shape{8, 32, n, 128});
  double half = static_cast<double>(n) * static_cast<double>(n + 1) / 2;
  EXPECT_EQ(flops(tdl::bind(kGuarded, shapes, {{"O", 0}})),
            256.0 * (half * (4 * 128 + 6) + static_cast<double>(n * 128)));
}

TEST(Flops, IndicesThatGuardsEquateAreSolved) {
  Bound b = tdl::bind(
      "f(g)[x, y] where x < 300, y < 400 = sum(i, j) if(y == (800*i + j) % 400, if(x == (800*i + j)//400, g[i, j], 0), "
      "0)",
      {{150, 800}});
  EXPECT_EQ(flops(b), 150 * 800);
}

TEST(Flops, ATransposedConvolutionCountsOnlyWhatItsStrideHits) {
  // every (input position, tap) pair hits one output, except where the padding is cut off
  Bound b = testing::bind(named("conv transpose"));
  int64_t hits = 0;
  for (int64_t u = 0; u < 13; ++u)
    for (int64_t r = 0; r < 3; ++r) hits += (u + 1 - r + 2) % 2 == 0;
  EXPECT_EQ(flops(b), 2.0 * 2 * 3 * 4 * static_cast<double>(hits));
}

TEST(Flops, PartsOfAnEvenSplitAddUpToTheWhole) {
  for (const char* name : {"matmul", "attention guarded", "embedding grad", "conv2d", "conv transpose"}) {
    Bound b = testing::bind(named(name));
    for (const AxisStrategy& s : strategies(b, 3)) {
      if (s.names.size() != 1) continue;
      std::optional<Derived> d = derive(b, {3}, {s});
      ASSERT_TRUE(d);
      std::vector<double> whole = stage_flops(b, full_ranges(b)), sum(whole.size());
      std::vector<double> copied;  // a stage without the split index is computed whole by every worker
      for (const std::vector<Interval> ranges : d->ranges) {
        copied = stage_flops(b, ranges);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += copied[i];
      }
      for (size_t i = 0; i < sum.size(); ++i)
        EXPECT_TRUE(std::abs(sum[i] - whole[i]) < 1e-6 || std::abs(sum[i] - 3 * whole[i]) < 1e-6)
            << name << " " << to_string(s) << " stage " << i;
    }
  }
}

TEST(Flops, CausalAttentionSplitOnQueriesIsUnbalanced) {
  int64_t n = 64;
  Bound b = tdl::bind(kGuarded, std::vector<Shape>(3, Shape{1, 1, n, 8}), {{"O", 0}});
  std::optional<Derived> d = derive(b, {4}, {parse_strategy("i")});
  ASSERT_TRUE(d);
  double most = 0, sum = 0;
  for (const std::vector<Interval> ranges : d->ranges) {
    most = std::max(most, flops(b, ranges));
    sum += flops(b, ranges);
  }
  EXPECT_GT(most * 4 / sum, 1.4);
  EXPECT_LT(most * 4 / sum, 1.8);
}

std::vector<int64_t> touched(const Bound& b, std::string_view strategy, int p, int position) {
  std::optional<Derived> d = derive(b, {p}, {parse_strategy(strategy)});
  EXPECT_TRUE(d) << strategy;
  return touched_elements(b, *d, position);
}

TEST(Touched, BoxesDividedByTheStride) {
  Bound slice = tdl::bind("slice(x)[i] where i < 5 = x[i*2 + 1]", {{11}});
  EXPECT_EQ(touched(slice, "replicate", 2, 0), (std::vector<int64_t>{5, 5}));
  Bound conv = tdl::bind("conv(x, w)[y] where y < 5 = sum(r) x[y*2 + r] * w[r]", {{11}, {3}});
  EXPECT_EQ(touched(conv, "replicate", 2, 0), (std::vector<int64_t>{11, 3, 5}));
}

TEST(Touched, ADeterminedIndexCountsNoMoreThanThePointsOfItsData) {
  Bound b = tdl::bind("emb(ids, t)[b, h] = t[v = ids[b], h]", {{6}, {1000, 4}});
  EXPECT_EQ(touched(b, "b", 3, 0), (std::vector<int64_t>{2, 2 * 4, 2 * 4}));
  EXPECT_EQ(touched(b, "v", 500, 0), (std::vector<int64_t>{6, 2 * 4, 6 * 4}));
}

}  // namespace
}  // namespace partita::tdl

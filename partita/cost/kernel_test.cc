// Tests times of kernels, worked out by hand.
#include "partita/cost/kernel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "partita/cost/cost.h"
#include "partita/cost/kernel_form.h"

namespace partita {
namespace {

// 100 multiprocessors of 8 TFLOP/s in float16 and 1 in float32 at half of the peak each; 1 TB/s, of which half is
// reached; 5 us a launch.
Device gpu() {
  Device d;
  d.name = "gpu";
  d.peak_flops_per_s = {{DType::kFloat32, 200e12}, {DType::kFloat64, 100e12}, {DType::kFloat16, 1600e12}};
  d.memory_bandwidth_bytes_per_s = 1e12;
  d.efficiency = 0.25;
  d.launch_overhead_us = 5;
  d.kernels = {100, 1e9, {{DType::kFloat32, 0.5}, {DType::kFloat16, 0.5}}, 0.5, 1};
  return d;
}

KernelSize product(DType rate, Product p, double bytes = 0) {
  KernelSize k;
  k.rate = rate;
  k.products = {p};
  k.bytes = bytes;
  k.flops = p.flops();
  return k;
}

// A wave of tiles of 256 x 128 and 64 of k takes 2 x 256 x 128 x 64 FLOPs at 8 TFLOP/s: 524.288 ns.
constexpr double kStepNs = 524.288;

TEST(KernelTime, TheLastWaveOfTilesIsWhole) {
  // 10 x 10 tiles fill the device once; k = 64 is not split. One row more would be a second wave. Tiles of 64 x 64 then
  // are better, 41 x 20 in nine waves of an eighth of the work, at 32 / 42 over (256 / 3) / (256 / 3 + 10) of the rate.
  const double large = 256.0 / 3, rate = 32.0 / 42 / (large / (large + 10));
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 2560, 1280, 64})), 5000 + kStepNs, 1e-6);
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 2561, 1280, 64})), 5000 + 9 * kStepNs / 8 / rate, 1e-6);
  // Batches are more tiles.
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {100, 256, 128, 64})), 5000 + kStepNs, 1e-6);
  // k counts in steps of 64.
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 2560, 1280, 65})), 5000 + 2 * kStepNs, 1e-6);
}

TEST(KernelTime, AtAPartOfTheClockWhatComputesTakesLonger) {
  const KernelSize full = product(DType::kFloat16, {1, 2560, 1280, 64});
  EXPECT_NEAR(kernel_ns(gpu(), full, 0.8), 5000 + kStepNs / 0.8, 1e-6);
  KernelSize copy;
  copy.bytes = 1e9;
  EXPECT_DOUBLE_EQ(kernel_ns(gpu(), copy, 0.8), kernel_ns(gpu(), copy));
  copy.flops = 1e12;  // 10 ms at 100 TFLOP/s
  EXPECT_NEAR(kernel_ns(gpu(), copy, 0.8), 5000 + 1e7 / 0.8, 1e-3);
  // A plan's kernels, and searches' prices, are at the clock that the device sustains.
  Cluster cluster;
  cluster.devices = {gpu()};
  cluster.devices[0].kernels.sustained = 0.8;
  EXPECT_EQ(CostModel(cluster).kernel_ns(DeviceId(0), full), std::llround(5000 + kStepNs / 0.8));
}

TEST(KernelTime, SmallTilesWhereLargeOnesLeaveMultiprocessorsIdle) {
  // One tile of 256 x 128, or eight of 64 x 64, each of them an eighth of the work at 32 / 42 over (256 / 3) / (256 / 3
  // + 10) of the rate.
  const double large = 256.0 / 3, rate = 32.0 / 42 / (large / (large + 10));
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 256, 128, 64})), 5000 + kStepNs / 8 / rate, 1e-6);
}

TEST(KernelTime, LongSumsOfFewTilesAreSplit) {
  // 64 x 64 results of k = 8192: 16 splits of 512, eight steps each, and 16 partial results of 16 KiB.
  const double large = 256.0 / 3, rate = 32.0 / 42 / (large / (large + 10));
  const double joining = 1500 + 16 * 64 * 64 * 4 / 0.5e12 * 1e9;
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 64, 64, 8192})), 5000 + 8 * kStepNs / 8 / rate + joining,
              1e-6);
}

// Not either if another split becomes worth it: float64 takes so long here that sums of 256 are split.
TEST(KernelTime, LongerSumsTakeNoLessTime) {
  Device d = gpu();
  d.peak_flops_per_s[DType::kFloat64] = 20e12;
  for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kFloat16})
    for (double side : {1, 7, 64, 200, 1500}) {
      double before = 0;
      for (int k = 1; k < 1500; ++k) {
        const double ns = kernel_ns(d, product(dtype, {1, side, side, static_cast<double>(k)}, 8 * side * k));
        ASSERT_GE(ns, before) << name_of(dtype) << " " << side << " " << k;
        before = ns;
      }
    }
  // A split is no shorter than 128: two of them, at a rate of 5 a ns of one multiprocessor in float64.
  const double rate = 50.0 * (32.0 / 42) / (64.0 / 74), two_parts = 2.0 * 64 * 64 * 128 / rate;
  EXPECT_NEAR(kernel_ns(d, product(DType::kFloat64, {1, 7, 7, 255})), 5000 + two_parts + 1500 + 2 * 49 * 4 / 500.0,
              1e-6);
}

TEST(KernelTime, MemoryAndComputeOverlapInPart) {
  // 500 bytes a ns. As long as compute: the cube root of two times it.
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 2560, 1280, 64}, kStepNs * 500)),
              5000 + std::cbrt(2.0) * kStepNs, 1e-6);
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat16, {1, 2560, 1280, 64}, 1e9)), 5000 + 2e6, 1);
  KernelSize none;
  none.bytes = 1e9;
  none.flops = 100e9;  // 1 ms at half of 200 TFLOP/s
  EXPECT_NEAR(kernel_ns(gpu(), none), 5000 + 2e6, 1e-6);
  none.flops = 300e9;
  EXPECT_NEAR(kernel_ns(gpu(), none), 5000 + 3e6, 1e-6);
}

TEST(KernelTime, WithoutAUnitForMatricesTilesAreSmaller) {
  // 10 x 10 tiles of 128 x 128 at 1 TFLOP/s. float64 has no fraction of its own: a quarter.
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat32, {1, 1280, 1280, 64})), 5000 + 2 * 128 * 128 * 64 / 1000.0,
              1e-6);
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat64, {1, 1280, 1280, 64})), 5000 + 2 * 128 * 128 * 64 / 250.0, 1e-6);
}

TEST(KernelTime, AVectorNeedsNoTiles) {
  // 1e8 channels of 9 values: at 100 TFLOP/s 18 us, while tiles 32 wide would take 32 times as long.
  EXPECT_NEAR(kernel_ns(gpu(), product(DType::kFloat32, {1000, 100000, 1, 9})), 5000 + 18000, 1e-6);
}

TEST(KernelTime, RowsThatBeginAnywhereSlowDownAUnitForMatrices) {
  Device d = gpu();
  d.kernels.unaligned = {{2, 0.25}, {4, 0.5}};
  auto ns = [&](DType dtype, int aligned) { return kernel_ns(d, product(dtype, {1, 2560, 1280, 64, aligned})) - 5000; };
  for (int whole : {16, 8}) EXPECT_NEAR(ns(DType::kFloat16, whole), kStepNs, 1e-6);
  for (int half : {4, 2}) EXPECT_NEAR(ns(DType::kFloat16, half), 2 * kStepNs, 1e-6);  // of 8 bytes as of 4
  EXPECT_NEAR(ns(DType::kFloat16, 1), 4 * kStepNs, 1e-6);
  EXPECT_EQ(ns(DType::kFloat32, 1), ns(DType::kFloat32, 16)) << "no unit for matrices";
  d.kernels.unaligned.clear();
  EXPECT_NEAR(ns(DType::kFloat16, 1), kStepNs, 1e-6);
}

TEST(KernelTime, WhatIsReadAgainCountsTwice) {
  KernelSize k;
  k.bytes = 1e9;
  k.reread_fraction = 0.5;
  EXPECT_NEAR(kernel_ns(gpu(), k), 5000 + 1.5 * 2e6, 1e-6);
}

TEST(KernelTime, WhatGuardsLeaveOutShortensTheSum) {
  KernelSize k = product(DType::kFloat16, {1, 2560, 1280, 128});
  k.computed = 0.5;
  k.flops /= 2;
  EXPECT_NEAR(kernel_ns(gpu(), k), 5000 + kStepNs, 1e-6);
}

KernelSize attention(double queries, double keys, bool backward = false) {
  KernelSize k;
  k.rate = DType::kFloat16;
  k.products = {{50, queries, keys, 64}, {50, queries, 64, keys}};
  if (backward) k.products.insert(k.products.end(), 3, {50, queries, 64, keys});
  k.bytes = 5e6;  // 10 us
  k.fused_attention = true;
  return k;
}

// A tile of 128 x 128 pairs with 2 x 2 x 64 FLOPs at 8,000 a ns and an exponential, 16 of which take 1 ns.
constexpr double kTileNs = 128 * 128 * (256 / 8000.0 + 1 / 16.0);

TEST(KernelTime, FusedAttention) {
  // 50 x 4 x 8 tiles over 100.
  EXPECT_NEAR(kernel_ns(gpu(), attention(512, 1024)), 5000 + 16 * kTileNs + 10000, 1e-6);
  // Causal: four rows of 1 to 4 tiles, ten of which the mask leaves; half of each of the four it cuts is in them.
  KernelSize causal = attention(512, 512);
  causal.computed = 0.5;
  EXPECT_NEAR(kernel_ns(gpu(), causal), 5000 + 50 * 10 / 100.0 * kTileNs + 10000, 1e-6);
  // One head: the longest row.
  causal.products[0].batch = causal.products[1].batch = 1;
  EXPECT_NEAR(kernel_ns(gpu(), causal), 5000 + 4 * kTileNs + 10000, 1e-6);
  // The gradient: five products, at 0.8 of the rate.
  EXPECT_NEAR(kernel_ns(gpu(), attention(512, 1024, true)),
              5000 + 16 * 128 * 128 * (640 / 8000.0 + 1 / 16.0) / 0.8 + 10000, 1e-6);
  Device slow = gpu();
  slow.kernels.fused_attention = 0.5;
  EXPECT_NEAR(kernel_ns(slow, attention(512, 1024)), 5000 + 32 * kTileNs + 10000, 1e-6);
  // One query: tiles of 16 rows, keys split, and a second kernel.
  EXPECT_NEAR(kernel_ns(gpu(), attention(1, 1024)), 5000 + 4 * kTileNs / 8 + 10000 + 5000, 1e-6);
}

// Two products and softmax's two passes, each over 50 x 512 x 1024 scores of 2 bytes: four times 52.4 MB at 500 bytes a
// ns, and three launches.
TEST(KernelTime, AttentionWithoutAFusedKernel) {
  Device d = gpu();
  d.kernels.fused_attention = 0;
  constexpr double kPasses = 2.0 * 50 * 512 * 1024 * 2;
  KernelSize products = attention(512, 1024);
  products.fused_attention = false;
  products.bytes += kPasses;
  const double unfused = kernel_ns(d, attention(512, 1024));
  EXPECT_NEAR(unfused, kernel_ns(d, products) + kPasses / 500 + 2 * 5000, 1e-6);
  EXPECT_GT(unfused, 3 * 5000 + 10000 + 2 * kPasses / 500);
  // A mask saves it nothing.
  KernelSize causal = attention(512, 1024);
  causal.computed = 0.5;
  EXPECT_NEAR(kernel_ns(d, causal), unfused, 1e-6);
}

TEST(KernelTime, WithoutMultiprocessorsItIsTheRoofline) {
  Device d = gpu();
  d.kernels = {};
  KernelSize k = product(DType::kFloat16, {1, 1, 1, 1000000}, 1000);
  EXPECT_NEAR(kernel_ns(d, k), 5000 + 2e6 / (1600e12 * 0.25) * 1e9, 1e-6);
  k.bytes = 1e9;
  EXPECT_NEAR(kernel_ns(d, k), 5000 + 4e6, 1e-6);
  k.fused_attention = true;
  EXPECT_NEAR(kernel_ns(d, k), 5000 + 4e6, 1e-6);
}

tdl::Bound attention_formula(bool softmax) {
  return tdl::bind(std::string("at(q, k, v)[h, i, d] =\n"
                               " s[h, i, j] = sum(e) if(j <= i, q[h, i, e] * k[h, j, e], 0)\n"
                               " p[h, i, j] = ") +
                       (softmax ? "if(j <= i, exp(s[h, i, j]), 0)" : "s[h, i, j] * 2") +
                       "\n l[h, i] = sum(j) if(j <= i, p[h, i, j], 0)\n"
                       " a[h, i, d] = sum(j) if(j <= i, p[h, i, j] * v[h, j, d], 0)\n a[h, i, d] / l[h, i]",
                   {{3, 8, 4}, {3, 8, 4}, {3, 8, 5}});
}

TEST(KernelForm, AttentionIsAChainOfProductsThroughAnExponential) {
  const tdl::Bound bound = attention_formula(true);
  const KernelForm form = kernel_form_of(bound, 0, static_cast<int>(bound.stages.size()));
  ASSERT_EQ(form.products.size(), 2u);
  EXPECT_TRUE(form.fused_attention);
  const std::vector<Interval> ranges = tdl::full_ranges(bound);
  const KernelSize kernel = kernel_size_over(form, ranges, tdl::flops(bound, ranges));
  EXPECT_TRUE(kernel.fused_attention);
  EXPECT_EQ(kernel.products[0], (Product{3, 8, 8, 4, 4}));
  EXPECT_EQ(kernel.products[1], (Product{3, 8, 5, 8, 1}));
  EXPECT_NEAR(kernel.computed, 36.0 / 64, 0.02);  // of the pairs; the quotient counts as well
  EXPECT_FALSE(kernel_form_of(attention_formula(false), 0, 5).fused_attention) << "no softmax between";
  EXPECT_FALSE(kernel_form_of(bound, 0, 1).fused_attention) << "scores alone";
}

// By hand: rows of a [i, k], b [k, j] and the result are k and j long.
TEST(KernelForm, RowsSayHowProductsAreAligned) {
  auto aligned = [](const char* text, const std::vector<Shape>& shapes) {
    const tdl::Bound bound = tdl::bind(text, shapes);
    const std::vector<Interval> ranges = tdl::full_ranges(bound);
    return kernel_size_over(kernel_form_of(bound, 0, 1), ranges, tdl::flops(bound, ranges)).products.at(0).aligned;
  };
  const char* mm = "mm(a, b)[i, j] = sum(k) a[i, k] * b[k, j]";
  EXPECT_EQ(aligned(mm, {{7, 32}, {32, 48}}), 16);
  EXPECT_EQ(aligned(mm, {{7, 32}, {32, 12}}), 4);
  EXPECT_EQ(aligned(mm, {{7, 34}, {34, 48}}), 2);
  EXPECT_EQ(aligned(mm, {{7, 32}, {32, 9}}), 1);
  EXPECT_EQ(aligned("tn(a, b)[i, j] = sum(k) a[k, i] * b[k, j]", {{7, 32}, {7, 48}}), 16) << "k is no row";
  EXPECT_EQ(aligned("one(a, b)[i, j, u] where u < 1 = sum(k) a[i, k, u] * b[k, j]", {{7, 32, 1}, {32, 48}}), 16);
  // Images lie with channels last, here 24 of x and 16 of the result.
  EXPECT_EQ(aligned("conv(x, w)[n, o, y, z] where y < 6, z < 5 = sum(c, r, t) x[n, c, y + r, z + t] * w[o, c, r, t]",
                    {{2, 24, 8, 7}, {16, 24, 3, 3}}),
            8);
}

// Batch norm reads x twice and writes y: half of the bytes of one pass once more.
TEST(KernelForm, StatisticsOfMoreThanIsHeldAreASecondPass) {
  auto again = [](const char* text, const std::vector<Shape>& shapes) {
    const tdl::Bound bound = tdl::bind(text, shapes);
    return kernel_size_over(kernel_form_of(bound, 0, static_cast<int>(bound.stages.size())), tdl::full_ranges(bound), 0)
        .reread_fraction;
  };
  const char* batch_norm =
      "bn(x) -> y =\n m[c] = sum(n, s) x[n, c, s]\n v[c] = sum(n, s) (x[n, c, s] - m[c])^2\n"
      " y[n, c, s] = (x[n, c, s] - m[c]) / sqrt(v[c])";
  EXPECT_DOUBLE_EQ(again(batch_norm, {{64, 2, 1024}}), 0.5);
  EXPECT_EQ(again(batch_norm, {{4, 2, 1024}}), 0) << "4,096 values stay where they are";
  const char* rows = "ln(x) -> y =\n m[n] = sum(i) x[n, i]\n y[n, i] = x[n, i] - m[n]";
  EXPECT_EQ(again(rows, {{64, 4096}}), 0);
  EXPECT_DOUBLE_EQ(again(rows, {{64, 65536}}), 0.5);
  // The gradient: g and z twice, dx written; z is made of x point by point.
  const char* gradient =
      "grad(x, g) -> dx, dw =\n z[n, c] = x[n, c] * 2\n dw[c] = sum(n) g[n, c] * z[n, c]\n"
      " dx[n, c] = g[n, c] - z[n, c] * dw[c]";
  EXPECT_NEAR(again(gradient, {{65536, 2}, {65536, 2}}), 2.0 / 3, 1e-4);
  EXPECT_EQ(again("total(x)[c] = sum(n) x[n, c]", {{65536, 2}}), 0);
}

TEST(KernelForm, ConvolutionsAreProducts) {
  const tdl::Bound bound = tdl::bind(
      "conv(x, w, b)[n, o, y, z] where y < 6, z < 5 = (sum(c, r, t) x[n, c, y + r, z + t] * w[o, c, r, t]) + b[o]",
      {{2, 3, 8, 7}, {4, 3, 3, 3}, {4}});
  const std::vector<Interval> ranges = tdl::full_ranges(bound);
  const KernelSize kernel = kernel_size_over(kernel_form_of(bound, 0, static_cast<int>(bound.stages.size())), ranges,
                                             tdl::flops(bound, ranges));
  ASSERT_EQ(kernel.products.size(), 1u);
  EXPECT_EQ(kernel.products[0].flops(), 2.0 * (2 * 6 * 5) * 4 * (3 * 3 * 3));
  EXPECT_TRUE(kernel.products[0] == (Product{1, 60, 4, 27, 1})) << kernel.products[0].m;
  EXPECT_EQ(kernel.computed, 1);
  EXPECT_FALSE(kernel.fused_attention);
}

}  // namespace
}  // namespace partita

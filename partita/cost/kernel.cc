// Computes the formulas of kernels' times (kernel.h).
#include "partita/cost/kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "partita/base/error.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;

struct Tile {
  double m, n;
  double half() const { return m * n / (m + n); }  // FLOPs for each element read, halved
};
// Tiles, the largest first: those of units for matrix products, and those without.
constexpr Tile kMatrixTiles[] = {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}};
constexpr Tile kVectorTiles[] = {{128, 128}, {128, 64}, {64, 128}, {64, 64}, {128, 32}, {32, 128}};
constexpr double kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
constexpr double kShortestSplit = 128, kStep = 64;  // of k; a shorter split takes as long as this
constexpr double kHalfRate = 10;                    // half() of a tile at half of the rate that no tile exceeds
constexpr double kJoinNs = 1500, kPartialBytes = 4;
constexpr int kAlignedBytes = 16;
constexpr double kAttentionTile = 128, kShortTile = 16, kExponentials = 16, kBackward = 0.8;

double rising(double half) { return half / (half + kHalfRate); }

double norm(double a, double b) { return std::cbrt(a * a * a + b * b * b); }

// A device at a fraction of its clock.
struct Paced {
  const Device& device;
  double clock;
  const KernelFigures& figures() const { return device.kernels; }
  double flops_per_s(DType dtype) const { return clock * reached_flops_per_s(device, dtype); }
};

// FLOPs in a nanosecond of one multiprocessor.
double rate_of_one(const Paced& on, DType rate) {
  return on.flops_per_s(rate) / kNsPerS / on.figures().multiprocessors;
}

double memory_ns(const Paced& on, double bytes) { return bytes / reached_bytes_per_s(on.device) * kNsPerS; }

bool has_matrix_unit(const Device& on, DType rate) {
  return on.peak_flops_per_s.at(rate) > 2 * on.peak_flops_per_s.at(DType::kFloat32);
}

// The fraction of the rate of units for matrices, by the alignment of rows.
double aligned_fraction(const Paced& on, DType rate, int elements) {
  const auto& parts = on.figures().unaligned;
  const auto bytes = static_cast<int>(elements * bytes_of(rate));
  if (bytes >= kAlignedBytes || parts.empty() || !has_matrix_unit(on.device, rate)) return 1;
  const auto above = parts.upper_bound(bytes);
  return above == parts.begin() ? above->second : std::prev(above)->second;
}

double product_ns(const Paced& on, const KernelSize& kernel, const Product& p, double bytes) {
  const double memory = memory_ns(on, bytes), k = std::max(1.0, p.k * kernel.computed);
  const double rate = rate_of_one(on, kernel.rate) * aligned_fraction(on, kernel.rate, p.aligned);
  const double partial = memory_ns(on, p.batch * p.m * p.n * kPartialBytes);
  const std::span<const Tile> tiles = has_matrix_unit(on.device, kernel.rate) ? std::span<const Tile>(kMatrixTiles)
                                                                              : std::span<const Tile>(kVectorTiles);
  double best = std::numeric_limits<double>::infinity();
  if (p.m == 1 || p.n == 1)
    best = std::max(memory, p.flops() * kernel.computed / on.flops_per_s(kernel.vector) * kNsPerS);
  for (const Tile& tile : tiles) {
    const double step = 2 * tile.m * tile.n / (rate * rising(tile.half()) / rising(tiles[0].half()));
    const double count = p.batch * std::ceil(p.m / tile.m) * std::ceil(p.n / tile.n);
    for (double split : kSplits) {
      const double part = split > 1 ? std::max(k / split, kShortestSplit) : k;
      const double waves = std::ceil(count * split / on.figures().multiprocessors);
      const double compute = waves * std::ceil(part / kStep) * kStep * step;
      const double joining = split > 1 ? kJoinNs + split * partial : 0;
      if (std::max(compute, memory) + joining < best) best = std::min(best, norm(compute, memory) + joining);
      if (k / split <= kShortestSplit) break;  // more splits would be no shorter
    }
  }
  return best;
}

double products_ns(const Paced& on, const KernelSize& kernel) {
  auto elements = [](const Product& p) { return p.batch * (p.m * p.k + p.k * p.n + p.m * p.n); };
  double all = 0, flops = 0, ns = 0;
  for (const Product& p : kernel.products) {
    all += elements(p);
    flops += p.flops() * kernel.computed;
  }
  for (const Product& p : kernel.products) ns += product_ns(on, kernel, p, kernel.bytes * elements(p) / all);
  const double others = std::max(0.0, kernel.flops - flops) / on.flops_per_s(kernel.vector) * kNsPerS;
  return std::max(ns, others);
}

double attention_ns(const Paced& on, const KernelSize& kernel) {
  const Product& scores = kernel.products[0];
  double flops = 0;
  for (const Product& p : kernel.products) flops += p.flops();
  const double pair_ns = flops / (scores.batch * scores.m * scores.n) / rate_of_one(on, kernel.rate) +
                         kNsPerS / (kExponentials * on.clock * on.figures().clock_hz);
  const double height = std::min(kAttentionTile, std::ceil(scores.m / kShortTile) * kShortTile);
  const double rows = std::ceil(scores.m / height), columns = std::ceil(scores.n / kAttentionTile);
  double tiles = rows * columns;
  if (kernel.computed < 1)  // and half a tile of each row, where the mask begins
    tiles = std::min(tiles, kernel.computed * scores.m * scores.n / (height * kAttentionTile) + rows / 2);
  const bool split = scores.m < kAttentionTile && columns > 1;
  const double longest = split ? 1 : std::min(columns, 2 * tiles / rows);
  const double busiest = std::max(scores.batch * tiles / on.figures().multiprocessors, longest);
  const double reach = on.figures().fused_attention * (kernel.products.size() > 2 ? kBackward : 1);
  return busiest * height * kAttentionTile * pair_ns / reach + memory_ns(on, kernel.bytes) +
         (split ? on.device.launch_overhead_us * kNsPerUs : 0);
}

// One kernel after another. Each product reads or writes the scores, and so do as many kernels between them. Softmax
// does both, and its gradient reads its result too.
double unfused_attention_ns(const Paced& on, const KernelSize& kernel) {
  const Product& scores = kernel.products[0];
  const auto kernels = static_cast<double>(kernel.products.size());
  const double passes = kernels * scores.batch * scores.m * scores.n * static_cast<double>(bytes_of(kernel.rate));
  KernelSize products = kernel;
  products.computed = 1;
  products.bytes += passes;
  return products_ns(on, products) + memory_ns(on, passes) + kernels * on.device.launch_overhead_us * kNsPerUs;
}

}  // namespace

double reached_flops_per_s(const Device& device, DType dtype) {
  if (!is_float(dtype)) dtype = DType::kFloat32;
  const auto peak = device.peak_flops_per_s.find(dtype);
  if (peak == device.peak_flops_per_s.end())
    fail("cluster: device '{}' has no peak FLOP/s for {}", device.name, name_of(dtype));
  const auto part = device.kernels.parts.find(dtype);
  return peak->second * (part == device.kernels.parts.end() ? device.efficiency : part->second);
}

double reached_bytes_per_s(const Device& device) {
  return device.memory_bandwidth_bytes_per_s *
         (device.kernels.multiprocessors > 0 ? device.kernels.memory_part : device.efficiency);
}

double kernel_ns(const Device& device, const KernelSize& kernel, double clock) {
  const Paced on{device, clock};
  const double launch = device.launch_overhead_us * kNsPerUs;
  if (device.kernels.multiprocessors > 0 && !kernel.products.empty())
    return launch + (!kernel.fused_attention              ? products_ns(on, kernel)
                     : device.kernels.fused_attention > 0 ? attention_ns(on, kernel)
                                                          : unfused_attention_ns(on, kernel));
  const double compute = kernel.flops > 0 ? kernel.flops / on.flops_per_s(kernel.rate) * kNsPerS : 0;
  return launch + std::max(memory_ns(on, kernel.bytes * (1 + kernel.reread_fraction)), compute);
}

}  // namespace partita

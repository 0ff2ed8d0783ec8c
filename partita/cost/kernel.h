// Computes the time of a kernel on a device, by its size. The device's figures are those of data sheets and the
// fraction of them that large kernels reach (docs/reference/cluster.md). All other constants are the same for all
// devices, and fitted to published times.
//
// Without `multiprocessors`: launch + max(FLOPs / (peak x efficiency), bytes / (bandwidth x efficiency)), the roofline
// (Williams et al., CACM 2009). With them, in terms of the peaks that the device reaches:
//
// Bound by memory   launch + max(bytes / bandwidth, FLOPs / peak); bytes that are read twice count twice.
// Product           launch + the least, over tiles and splits s of k, of norm(compute, bytes / bandwidth) + joining:
//     compute = ceil(tiles s / multiprocessors) x ceil(k / s / 64) 64 x 2 tm tn / rate of one multiprocessor
//     tiles   = batch ceil(m / tm) ceil(n / tn)
//   The last wave, and elements of a tile outside the result, are lost. A smaller tile reads more for each product: its
//   rate is e(tm, tn) of the peak, as h / (h + 10) for h = tm tn / (tm + tn), 1 for the largest tile. norm(a, b) =
//   (a^3 + b^3)^(1/3): the two overlap, but not wholly if they are alike. A split writes s partial results of 4 bytes,
//   and another kernel adds them up; a split takes at least as long as 128 of k. If the peak is over twice float32's, a
//   matrix unit computes, which takes larger tiles. Elements that guards leave out shorten k. A vector's product (m or
//   n is 1) may also run without tiles. Several products in a kernel share its bytes as their matrices have elements;
//   their times add up. A matrix unit has `unaligned` of its rate if rows begin at no multiple of 16 bytes.
// Fused attention   launch + compute + bytes / bandwidth, in tiles of 128 queries by 128 keys:
//     compute = tiles of the busiest multiprocessor x 128^2 x (FLOPs of a pair / rate + 1 / (16 clock)) / reach
//   16 exponentials a clock and multiprocessor is NVIDIA's figure from compute capability 3.x on (CUDA C++ Programming
//   Guide, arithmetic instructions); they are why small heads are slower. The busiest has the average, or the longest
//   row of tiles. With a mask by position a tile is computed whole if any of it counts. The gradient's kernel (more
//   than two products) reaches 0.8 of the forward kernel's rate. A few queries (decoding) are one short tile. The keys
//   are split then, and a second kernel joins them.
//
// Without a kernel that fuses it (fused_attention is missing), attention is its products one after another, which read
// or write the scores once each, and as many passes over the scores between them. Nothing is left out for a mask.
//
// Example: 2048 x 8192 times 8192 x 8192 on an H100 in bfloat16: 8 x 64 tiles of 256 x 128 are 4 waves of 132; with
// 989 TFLOP/s, of which 0.82 are reached, each takes 8192 x 65,536 / 6.14 TFLOP/s = 87 us, all of them 350 us.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/cluster/cluster.h"

namespace partita {

// [batch, m, k] x [batch, k, n], in elements.
struct Product {
  double batch = 1, m = 1, n = 1, k = 1;
  int aligned = 16;  // rows of operands and of the result begin at multiples of so many elements: 1, 2, 4, 8 or 16
  double flops() const { return 2 * batch * m * n * k; }
  bool operator==(const Product&) const = default;
};

// The numbers that determine the time of a kernel on a device.
struct KernelSize {
  DType rate = DType::kFloat32;    // of its products; without them of all its arithmetic
  DType vector = DType::kFloat32;  // of other arithmetic
  double flops = 0;                // all of it
  double bytes = 0;                // read and written
  std::vector<Product> products;   // guards aside
  double computed = 1;             // the fraction of `products` that guards leave
  // The products are attention's: the first makes scores of m queries and n keys, which do not leave the kernel.
  bool fused_attention = false;
  double reread_fraction = 0;  // the fraction of `bytes` that is read once more (cost/second_pass.h)
  bool operator==(const KernelSize&) const = default;
};

// Returns the time in ns at a fraction of the device's clock, on which arithmetic depends and memory does not. It is 1
// for an isolated kernel, `sustained` of the device in a step (CostModel).
double kernel_ns(const Device& device, const KernelSize& kernel, double clock = 1);

// The rates that the device reaches. FLOP/s of integers and booleans are float32's; bad input if the device has none.
double reached_flops_per_s(const Device& device, DType dtype);
double reached_bytes_per_s(const Device& device);

}  // namespace partita

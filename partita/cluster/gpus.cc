// Lists the GPUs of presets: figures from data sheets and published times, and figures derived from them.
#include "partita/cluster/gpus.h"

#include <fmt/format.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace partita {

// Sources of the figures of kernels (cost/kernel.h). Multiprocessors: NVIDIA's architecture white papers. Clock: the
// one that the data sheet's peak of matrix products belongs to. reached, launch_overhead_us and fused_attention: fitted
// to published times, and rounded; docs/reference/cluster.md has the errors. The published products in bfloat16 and
// float16 and attention of H100, H200, B200 and A100 come from NVIDIA's aiconfigurator, DeepGEMM, Azure's benchmarking
// guides and Stas Bekman. Those of memory come from gpu-benches and BabelStream. fused_attention belongs to the kernel
// of a training step on that architecture: FlashAttention 2 (A100), 3 (H100, H200), 4 (B200). No times of products in
// float32 and float64 were found for A100 and later: their fractions are nominal. Capacities: PyTorch's messages when
// memory runs out ("GPU 0 has a total capacity of 79.15 GiB").

// NVIDIA's K80 board specification, halved: 8.73 and 2.91 TFLOP/s at boost clock, 480 GB/s, 26 multiprocessors.
const Gpu kK80 = {.model = "K80",
                  .remark = "one of the two GK210 of a board",
                  .tflop_float32 = 4.37,
                  .tflop_float64 = 1.46,
                  .sold_gibytes = 12,
                  .capacity_gibytes = 11.17,
                  .bandwidth_gbytes_per_s = 240,
                  .efficiency = 0.6,
                  .multiprocessors = 13,
                  .clock_ghz = 0.875,
                  .reached = {.float32 = 0.6, .float64 = 0.6, .memory = 0.75},
                  .reached_remark = "nominal",
                  .launch_overhead_us = 5};

// NVIDIA's Tesla P100 white paper: SXM2, 16 GB at 732 GB/s; 5.3, 10.6 and 21.2 TFLOP/s; 56 multiprocessors at 1.48 GHz.
// Fractions and launch are fitted to DeepBench's products. Those in half precision compute in float32, the default of
// libraries there, and so reach 0.43 of the peak. The fractions of memory and float64 are nominal.
const Gpu kP100 = {.model = "P100",
                   .tflop_float32 = 10.6,
                   .tflop_float64 = 5.3,
                   .tflop_float16 = 21.2,
                   .sold_gibytes = 16,
                   .capacity_gibytes = 15.9,
                   .bandwidth_gbytes_per_s = 732,
                   .efficiency = 0.7,
                   .multiprocessors = 56,
                   .clock_ghz = 1.48,
                   .reached = {.float32 = 0.86, .float64 = 0.86, .float16 = 0.43, .bfloat16 = 0.86, .memory = 0.75},
                   .launch_overhead_us = 5};

// Tesla V100 SXM2 data sheet: 7.8, 15.7 and, with tensor cores, 125 TFLOP/s; 16 or 32 GB at 900 GB/s; 80
// multiprocessors at 1.53 GHz. Fractions and launch are fitted to DeepBench's products and gpu-benches' streams. The
// fraction of float64 is nominal.
constexpr Gpu v100(double sold, double capacity) {
  return {.model = "V100",
          .tflop_float32 = 15.7,
          .tflop_float64 = 7.8,
          .tflop_float16 = 125,
          .sold_gibytes = sold,
          .capacity_gibytes = capacity,
          .bandwidth_gbytes_per_s = 900,
          .efficiency = 0.7,
          .multiprocessors = 80,
          .clock_ghz = 1.53,
          .reached = {.float32 = 0.9, .float64 = 0.9, .float16 = 0.83, .bfloat16 = 0.9, .memory = 0.87},
          .launch_overhead_us = 5,
          .runs = 66,
          .low = 0.94,
          .high = 1.51};
}
const Gpu kV100 = v100(16, 15.78), kV100Of32 = v100(32, 31.75);

// NVIDIA A100 data sheet: 9.7, 19.5 and, with tensor cores, 312 TFLOP/s; 40 GB at 1,555 or 80 GB at 2,039 GB/s.
constexpr Gpu a100(double sold, double capacity, double bandwidth, double memory_reached) {
  return {.model = "A100",
          .tflop_float32 = 19.5,
          .tflop_float64 = 9.7,
          .tflop_float16 = 312,
          .tflop_bfloat16 = 312,
          .sold_gibytes = sold,
          .capacity_gibytes = capacity,
          .bandwidth_gbytes_per_s = bandwidth,
          .efficiency = 0.7,
          .multiprocessors = 108,
          .clock_ghz = 1.41,
          .reached = {.float32 = 0.9, .float64 = 0.9, .float16 = 0.87, .bfloat16 = 0.87, .memory = memory_reached},
          .fused_attention = 1,
          .launch_overhead_us = 4.5,
          .runs = 36,
          .low = 0.92,
          .high = 1.39};
}
const Gpu kA100 = a100(80, 79.15, 2039, 0.85), kA100Of40 = a100(40, 39.59, 1555, 0.9);

// Measured on an H100 (docs/reference/cluster.md). B200 is assumed to lose as much. Its kernels, as Hopper's, fetch
// tiles by tensor maps, whose rows begin at multiples of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled).
constexpr std::string_view kHopperUnaligned = "{2: 0.17, 4: 0.3}";

// NVIDIA H100 SXM5 specification: 80 GB at 3.35 TB/s; 34, 67 and, with tensor cores, 989 TFLOP/s, half of the figure
// for sparse matrices. NVIDIA H200 data sheet: the same with 141 GB at 4.8 TB/s.
constexpr Gpu hopper(std::string_view model, double sold, double capacity, double bandwidth, double memory_reached,
                     int runs, double low = 0, double high = 0) {
  return {.model = model,
          .tflop_float32 = 67,
          .tflop_float64 = 34,
          .tflop_float16 = 989,
          .tflop_bfloat16 = 989,
          .sold_gibytes = sold,
          .capacity_gibytes = capacity,
          .bandwidth_gbytes_per_s = bandwidth,
          .efficiency = 0.7,
          .multiprocessors = 132,
          .clock_ghz = 1.83,
          .reached = {.float32 = 0.85, .float64 = 0.85, .float16 = 0.82, .bfloat16 = 0.82, .memory = memory_reached},
          .fused_attention = 1.05,
          .unaligned = kHopperUnaligned,
          .launch_overhead_us = 3,
          .runs = runs,
          .low = low,
          .high = high};
}
const Gpu kH100 = hopper("H100", 80, 79.1, 3350, 0.88, 35, 0.99, 1.75);
const Gpu kH200 = hopper("H200", 141, 139.8, 4800, 0.87, 3);

// NVIDIA DGX B200 data sheet, an eighth of it: 180 GB at 8 TB/s; 2,250 TFLOP/s in bfloat16, half of the figure for
// sparse matrices; 75 in float32 and 37 in float64 (HGX B200).
const Gpu kB200 = {.model = "B200",
                   .tflop_float32 = 75,
                   .tflop_float64 = 37,
                   .tflop_float16 = 2250,
                   .tflop_bfloat16 = 2250,
                   .sold_gibytes = 180,
                   .capacity_gibytes = 178.35,
                   .bandwidth_gbytes_per_s = 8000,
                   .efficiency = 0.7,
                   .multiprocessors = 148,
                   .clock_ghz = 1.86,
                   .reached = {.float32 = 0.85, .float64 = 0.85, .float16 = 0.74, .bfloat16 = 0.74, .memory = 0.82},
                   .fused_attention = 1.2,
                   .unaligned = kHopperUnaligned,
                   .launch_overhead_us = 3};

namespace {

// The losses of a step beside the kernels that a plan counts, in one figure for all devices. kStepFlops: FLOPs of
// products for each byte that frameworks move more than the plan (casts, gradients of norms, the loss). kBesideFlops:
// FLOPs of products for each byte that products wait for while a collective runs beside them. Bytes are those of half
// precision; elements of float32 are twice as wide. Fitted to published steps: docs/reproduction/published-steps.md.
constexpr double kStepFlops = 1000, kBesideFlops = 400;
// Eight of ten published steps took between these multiples of the time predicted by constants of other devices' steps.
// They are the least low and the greatest high of a device.
constexpr double kOthersLow = 0.85, kOthersHigh = 1.76;
// A context, the kernels' code and the collective library's buffers.
constexpr double kKeptGibytes = 1;

// FLOPs of products in the time in which a byte of half precision moves, both at the rates that kernels reach.
double flops_a_byte(const Gpu& gpu) {
  const bool has_matrix_unit = gpu.tflop_float16 > 2 * gpu.tflop_float32;
  const double tflops =
      has_matrix_unit ? gpu.tflop_float16 * gpu.reached.float16 : 2 * gpu.tflop_float32 * gpu.reached.float32;
  return 1e3 * tflops / (gpu.bandwidth_gbytes_per_s * gpu.reached.memory);
}

double kept(const Gpu& gpu, double flops) { return std::round(100 / (1 + flops_a_byte(gpu) / flops)) / 100; }

// Writes figures that are given, as "{float32: 67, float64: 34}".
std::string figures(std::initializer_list<std::pair<std::string_view, double>> given) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : given)
    if (value > 0) texts.push_back(fmt::format("{}: {}", name, value));
  return fmt::format("{{{}}}", fmt::join(texts, ", "));
}

std::string remark(std::string_view text) { return text.empty() ? "" : fmt::format("  # {}", text); }

}  // namespace

double usable_gibytes(const Gpu& gpu) { return std::round(100 * (gpu.capacity_gibytes - kKeptGibytes)) / 100; }
double sustained(const Gpu& gpu) { return kept(gpu, kStepFlops); }
double beside_collectives(const Gpu& gpu) { return kept(gpu, kBesideFlops); }

std::string yaml_of(const Gpu& gpu) {
  const auto& r = gpu.reached;
  std::string text = fmt::format("  {}:{}\n    kind: gpu\n", gpu.model, remark(gpu.remark));
  const auto add = [&](std::string_view key, const auto& value, std::string_view behind = "") {
    text += fmt::format("    {}: {}{}\n", key, value, remark(behind));
  };
  add("peak_tflop_per_s", figures({{"float32", gpu.tflop_float32},
                                   {"float64", gpu.tflop_float64},
                                   {"float16", gpu.tflop_float16},
                                   {"bfloat16", gpu.tflop_bfloat16}}));
  add("memory_gibytes", usable_gibytes(gpu), fmt::format("of {}; docs/reference/cluster.md", gpu.sold_gibytes));
  add("memory_bandwidth_gbytes_per_s", gpu.bandwidth_gbytes_per_s);
  add("efficiency", gpu.efficiency, "nominal; of what `reached` does not name");
  add("multiprocessors", gpu.multiprocessors);
  add("clock_ghz", gpu.clock_ghz);
  add("reached",
      figures({{"float32", r.float32},
               {"float64", r.float64},
               {"float16", r.float16},
               {"bfloat16", r.bfloat16},
               {"memory", r.memory}}),
      gpu.reached_remark);
  if (gpu.fused_attention > 0) add("fused_attention", gpu.fused_attention);
  add("sustained", sustained(gpu), "derived, as the next; docs/reference/cluster.md");
  add("beside_collectives", beside_collectives(gpu));
  if (!gpu.unaligned.empty()) add("unaligned", gpu.unaligned);
  add("launch_overhead_us", gpu.launch_overhead_us);
  const bool has_band = gpu.high > 0;
  add("validation", fmt::format("{{runs: {}, low: {}, high: {}}}", gpu.runs, has_band ? gpu.low : kOthersLow,
                                has_band ? gpu.high : kOthersHigh));
  return text;
}

}  // namespace partita

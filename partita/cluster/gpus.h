// Describes the GPUs of presets: figures from sources, and figures derived alike for all. Internal to cluster/.
//
// Example: H100's products in half precision reach 811 TFLOP/s and its copies 2.95 TB/s, 275 FLOPs a byte. A step moves
// a byte beside the plan's for each kStepFlops FLOPs of products, so products keep kStepFlops / (kStepFlops + 275) of
// their rate.
#pragma once
#include <string>
#include <string_view>

namespace partita {

struct Gpu {
  std::string_view model;   // "H100"
  std::string_view remark;  // follows its name in the text
  double tflop_float32, tflop_float64;
  double tflop_float16 = 0, tflop_bfloat16 = 0;  // 0: not given
  double sold_gibytes, capacity_gibytes;  // capacity by its name; capacity that PyTorch finds before it has a context
  double bandwidth_gbytes_per_s;
  double efficiency;
  int multiprocessors;
  double clock_ghz;
  struct {
    double float32, float64, float16 = 0, bfloat16 = 0, memory;  // 0: not given
  } reached;
  std::string_view reached_remark;
  double fused_attention = 0;  // 0: there is none
  std::string_view unaligned;  // empty: none
  double launch_overhead_us;
  // Published steps of this GPU (docs/reproduction/published-steps.md): how many, and the multiples of predicted times
  // that hold eight of ten. Both are 0 if there are few or none. Then the widest band of the other devices counts, each
  // by constants of the others.
  int runs = 0;
  double low = 0, high = 0;
};

extern const Gpu kK80, kP100, kV100, kV100Of32, kA100, kA100Of40, kH100, kH200, kB200;

// Derived, as the presets print them.
double usable_gibytes(const Gpu& gpu);
double sustained(const Gpu& gpu);
double beside_collectives(const Gpu& gpu);

// Writes the GPU as a device type of a cluster file; rows of collectives may follow.
std::string yaml_of(const Gpu& gpu);

}  // namespace partita

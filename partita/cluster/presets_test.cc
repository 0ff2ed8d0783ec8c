// Tests that all GPU presets state kernel rates in a step, memory and prediction errors alike.
#include <gtest/gtest.h>

#include <map>

#include "partita/base/error.h"
#include "partita/cluster/cluster.h"
#include "partita/cluster/validation.h"
#include "partita/profile/profile.h"

namespace partita {
namespace {

const std::vector<std::string> kPresetsOfGpus = {
    "p2.8xlarge", "flexflow-p100", "flexflow-k80", "dgx-1", "dgx-1-32gb", "oneflow-v100", "dgx-a100", "dgx-a100-40gb",
    "dgx-h100",   "dgx-h200",      "dgx-b200",     "p4d",   "p5"};

KernelFigures figures(const std::string& preset) { return load_cluster(preset).devices[0].kernels; }

// FLOPs of the fastest products in the time in which an element of theirs moves.
double flops_an_element(const std::string& preset) {
  const Device d = load_cluster(preset).devices[0];
  const bool matrix = d.peak_flops_per_s.at(DType::kFloat16) > 2 * d.peak_flops_per_s.at(DType::kFloat32);
  const DType dtype = matrix ? DType::kFloat16 : DType::kFloat32;
  return d.peak_flops_per_s.at(dtype) * d.kernels.parts.at(dtype) * static_cast<double>(bytes_of(dtype)) /
         (d.memory_bandwidth_bytes_per_s * d.kernels.memory_part);
}

// No device has 1 merely because nothing was published about it.
TEST(Presets, EveryGpuLosesInAStepAndBesideCollectives) {
  for (const std::string& preset : kPresetsOfGpus) {
    const KernelFigures k = figures(preset);
    EXPECT_GT(k.sustained, 0.5) << preset;
    EXPECT_LT(k.sustained, 1) << preset;
    EXPECT_GT(k.beside_collectives, 0.3) << preset;
    EXPECT_LT(k.beside_collectives, k.sustained) << preset;
  }
}

// One quotient orders all devices: more FLOPs for each byte that moves mean a larger loss.
TEST(Presets, LossesFollowFromFlopsAByte) {
  for (const std::string& a : kPresetsOfGpus)
    for (const std::string& b : kPresetsOfGpus)
      if (flops_an_element(a) > 1.05 * flops_an_element(b)) {
        EXPECT_LE(figures(a).sustained, figures(b).sustained) << a << " " << b;
        EXPECT_LE(figures(a).beside_collectives, figures(b).beside_collectives) << a << " " << b;
      }
  // By hand, for H100: 0.82 x 989 TFLOP/s over 0.88 x 3.35 TB/s are 275.1 FLOPs a byte.
  EXPECT_NEAR(flops_an_element("dgx-h100") / 2, 275.1, 0.1);
  EXPECT_DOUBLE_EQ(figures("dgx-h100").sustained, 0.78);           // 1000 / 1275
  EXPECT_DOUBLE_EQ(figures("dgx-h100").beside_collectives, 0.59);  // 400 / 675
}

// H200 is H100's silicon; only its memory differs.
TEST(Presets, H200IsH100WithOtherMemory) {
  const Device h100 = load_cluster("dgx-h100").devices[0], h200 = load_cluster("dgx-h200").devices[0];
  EXPECT_EQ(h100.peak_flops_per_s, h200.peak_flops_per_s);
  EXPECT_EQ(h100.kernels.parts, h200.kernels.parts);
  EXPECT_EQ(h100.kernels.unaligned, h200.kernels.unaligned);
  EXPECT_GT(h200.kernels.sustained, h100.kernels.sustained);
  EXPECT_LT(h200.kernels.sustained, 1.1 * h100.kernels.sustained);
}

// Compares the GiB that are sold with those that a plan may have.
TEST(Presets, OfMemoryAllLoseAlike) {
  for (const auto& [preset, sold] : std::map<std::string, double>{{"p2.8xlarge", 12},
                                                                  {"flexflow-p100", 16},
                                                                  {"flexflow-k80", 12},
                                                                  {"dgx-1", 16},
                                                                  {"dgx-1-32gb", 32},
                                                                  {"dgx-a100", 80},
                                                                  {"dgx-a100-40gb", 40},
                                                                  {"dgx-h100", 80},
                                                                  {"dgx-h200", 141},
                                                                  {"dgx-b200", 180}}) {
    const double gibytes = static_cast<double>(load_cluster(preset).devices[0].memory_bytes) / 0x1p30;
    EXPECT_LE(gibytes, sold - 1) << preset;
    EXPECT_GE(gibytes, sold - 2.7) << preset;
  }
}

TEST(Presets, SayHowTheyAreKnown) {
  for (const std::string& preset : kPresetsOfGpus) {
    const std::vector<Validation> known = validations(load_cluster(preset));
    ASSERT_EQ(known.size(), 1u) << preset;
    EXPECT_EQ(known[0].device, load_cluster(preset).devices[0].model);
    EXPECT_LT(known[0].low, 1) << preset;
    EXPECT_GT(known[0].high, 1) << preset;
  }
  const Validation h100 = validations(load_cluster("dgx-h100"))[0], b200 = validations(load_cluster("dgx-b200"))[0];
  EXPECT_GT(h100.runs, 20);
  EXPECT_EQ(b200.runs, 0);
  EXPECT_LE(b200.low, h100.low);  // not better known than devices with published steps
  EXPECT_GE(b200.high, h100.high);
  EXPECT_EQ(validations(load_cluster("dgx-b200", 3)), validations(load_cluster("dgx-b200")));
  EXPECT_TRUE(validations(load_cluster("local:4")).empty());
  Cluster measured = load_cluster("dgx-h100");
  measured.profile = std::make_shared<Profile>();
  EXPECT_TRUE(validations(measured).empty());
}

}  // namespace
}  // namespace partita

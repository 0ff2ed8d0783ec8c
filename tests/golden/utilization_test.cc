// Compares model FLOPs utilisation with the formula that is mostly used for it.
#include <gtest/gtest.h>

#include "partita/pipeline/pipeline.h"

namespace partita {
namespace {

Planned planned(const std::string& cluster, DType dtype, const std::string& recompute = "none") {
  Request request;
  request.model = "zoo:gpt2?layers=2,hidden=64,heads=4,vocabulary=512,steps=32";
  request.bindings["batch"] = "16";
  request.search = "data-parallel";
  request.cluster = cluster;
  request.dtype = dtype;
  request.recompute = recompute;
  Runner runner;
  return plan_model(request, runner);
}

// Chowdhery et al. (PaLM, 2022), appendix B: a token takes 6 N + 12 L H Q T. Here N counts the weights that are
// multiplied: 12 h^2 a layer, and the head.
TEST(Utilization, IsPalmsFormulaOverThePeak) {
  const double token = 6.0 * (2 * 12 * 64 * 64 + 64 * 512) + 12.0 * 2 * 64 * 32;
  for (const char* recompute : {"none", "layer"}) {
    const Planned p = planned("dgx-h100", DType::kBFloat16, recompute);
    const auto used = p.utilization();
    ASSERT_TRUE(used);
    EXPECT_DOUBLE_EQ(used->model_flops, 16 * 32 * token) << recompute;
    const double peak = 8 * p.cluster.devices[0].peak_flops_per_s.at(DType::kBFloat16);
    EXPECT_DOUBLE_EQ(used->part, used->model_flops / (static_cast<double>(p.step_time_ns()) * 1e-9 * peak));
    EXPECT_LT(used->part, 1);
  }
}

TEST(Utilization, IsNotToldWhereThePeakIsNotKnown) {
  EXPECT_TRUE(planned("p2.8xlarge", DType::kFloat32).utilization());
  EXPECT_FALSE(planned("p2.8xlarge", DType::kBFloat16).utilization());
  EXPECT_FALSE(planned("local:4", DType::kFloat32).utilization());
}

}  // namespace
}  // namespace partita

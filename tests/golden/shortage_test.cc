// Tests the listed contents of a device's memory.
#include "partita/physical/shortage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "partita/base/error.h"
#include "partita/schedule/plan_evaluation.h"
#include "planned.h"

namespace partita {
namespace {

std::map<std::string, int64_t> contents(const Planned& p, int device) {
  std::map<std::string, int64_t> out;
  for (const auto& [what, bytes] : contents_at_peak(p.training, p.physical, DeviceId(device)))
    EXPECT_TRUE(out.emplace(what, bytes).second && bytes > 0) << what;
  return out;
}

TEST(Shortage, ContentsAddUpToThePeak) {
  for (const char* model :
       {"zoo:lenet?batch=12", "zoo:transformer?layers=1,hidden=24,heads=2,steps=6,vocabulary=30,batch=6",
        "zoo:rnnlm?steps=3,hidden=8,vocabulary=12,batch=6"})
    for (const char* search : {"data-parallel", "model-parallel", "zero?stage=3", "soybean"}) {
      SCOPED_TRACE(fmt::format("{} by {}", model, search));
      const Planned p = planned(model, search, "local:3", {"adam", 0.01});
      for (int d = 0; d < 3; ++d) {
        int64_t sum = 0;
        for (const auto& [what, bytes] : contents(p, d)) sum += bytes;
        EXPECT_EQ(sum, p.physical.peak_bytes[static_cast<size_t>(d)]);
      }
    }
}

// Data parallelism keeps weights whole and Adam's two moments of each; ZeRO 3 keeps shards.
TEST(Shortage, WeightsAndStatesAreThoseOfTheModel) {
  const char* const model = "zoo:mlp?layers=4,width=96,batch=12";
  const Planned whole = planned(model, "data-parallel", "local:3", {"adam", 0.01}),
                parts = planned(model, "zero?stage=3", "local:3", {"adam", 0.01});
  int64_t weights = 0, states = 0;
  for (const Tensor& t : whole.training.tensors) {
    if (t.role == Role::kParameter) weights += t.bytes();
    if (t.role == Role::kState) states += t.bytes();
  }
  std::map<std::string, int64_t> in_whole = contents(whole, 0), in_shards = contents(parts, 0);
  EXPECT_EQ(in_whole["weights"], weights);
  EXPECT_EQ(in_whole["optimizer states"], states);
  EXPECT_LT(in_shards["weights"], weights / 2);
  EXPECT_LT(in_shards["optimizer states"], states / 2);
}

// Inputs and outputs lie on hosts. A plan for which a host has too little memory fits for nobody who asks.
TEST(Shortage, AHostThatLacksMemoryIsADeficitOfTheEvaluation) {
  Planned p = planned("zoo:mlp?layers=2,width=16,batch=12", "data-parallel", "p2.8xlarge");
  const size_t host = static_cast<size_t>(p.cluster.compute_count);
  const int64_t peak = p.physical.peak_bytes[host];
  ASSERT_GT(peak, 1);
  EXPECT_TRUE(evaluate_memory(p.training, p.plan, p.cluster).fits());
  p.cluster.devices[host].memory_bytes = peak - 1;
  const PlanEvaluation evaluation = evaluate_memory(p.training, p.plan, p.cluster);
  EXPECT_FALSE(evaluation.fits());
  EXPECT_THROW(check_capacity(p.training, p.physical, p.cluster), Error);
}

TEST(Shortage, OneLineForAllDevicesAlike) {
  Planned p = planned("zoo:mlp?layers=2,width=16,batch=12", "data-parallel", "local:4");
  for (Device& d : p.cluster.devices) d.memory_bytes = 1000;
  try {
    check_capacity(p.training, p.physical, p.cluster);
    FAIL() << "it fits";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInfeasible);
    const std::string text = e.what();
    EXPECT_NE(text.find("each of 4 devices needs"), std::string::npos) << text;
    EXPECT_NE(text.find("weights"), std::string::npos) << text;
    EXPECT_EQ(text.find("cpu1"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  p.cluster.devices[1].memory_bytes = 900;
  try {
    check_capacity(p.training, p.physical, p.cluster);
    FAIL() << "it fits";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("4 devices lack memory; cpu1, which lacks most, needs"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace partita

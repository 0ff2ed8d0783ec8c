// Tests plans on clusters of two device types: stages that are cut by their own devices' time and memory, and the
// waiting time of faster devices if a plan splits evenly.
#include "partita/pipeline/mixed_devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/pipeline/pipeline.h"
#include "partita/schedule/representatives.h"
#include "tests/golden/planned.h"

namespace partita {
namespace {

// Four A100 and four V100, 2.3 times as slow on this model; the node of A100 comes first, or second.
std::string cluster_of(bool new_first) {
  return fmt::format("{}/tests/data/cases/heterogeneous_pipeline/{}.yaml", PARTITA_SOURCE_DIR,
                     new_first ? "hetero" : "hetero_oldfirst");
}

Request gpt2(const std::string& search, bool new_first) {
  Request request;
  request.model = "zoo:gpt2?layers=6,vocabulary=1024,steps=256";
  request.bindings["batch"] = "32";
  request.dtype = DType::kBFloat16;
  request.cluster = cluster_of(new_first);
  request.search = search;
  return request;
}

Planned made(const Request& request) {
  Runner runner(false);
  return plan_model(request, runner);
}

// Counts the operations of a micro-batch's forward pass on devices of this type.
int ops_on(const Planned& p, const std::string& type) {
  int count = 0;
  for (size_t i = 0; i < p.training.ops.size(); ++i)
    if (p.training.ops[i].phase == Phase::kForward && p.training.ops[i].per_micro_batch)
      count += p.cluster.device(p.plan.ops[i].mesh.devices[0]).model == type;
  return count;
}

TEST(MixedDevices, HaveStagesOfTheirOwnSpeed) {
  for (const bool new_first : {true, false})
    for (const char* search : {"pipeline?stages=2,micro-batches=8", "pipeline?stages=2,virtual=2,micro-batches=8"}) {
      SCOPED_TRACE(fmt::format("{} {}", search, new_first));
      const Planned p = made(gpt2(search, new_first));
      EXPECT_GE(ops_on(p, "A100"), 1.3 * ops_on(p, "V100"));
      std::vector<double> compute;
      for (const StageFigures& stage : p.breakdown().stages)
        compute.push_back(static_cast<double>(stage.time.compute_ns));
      ASSERT_EQ(compute.size(), 2U);
      EXPECT_LT(*std::max_element(compute.begin(), compute.end()),
                1.5 * *std::min_element(compute.begin(), compute.end()));
      EXPECT_TRUE(times_of_mixed_devices(p).empty());  // each stage has one type
    }
}

// 13 layers or so on A100 with 86 GB, 7 or so on V100 with 34 GB: 18 bytes a weight over four devices.
TEST(MixedDevices, HaveStagesThatFitTheirOwnMemory) {
  for (const bool new_first : {true, false}) {
    Request request;
    request.model = std::string(PARTITA_SOURCE_DIR) + "/tests/data/huggingface/llama-3-70b";
    request.bindings = {{"num_hidden_layers", "20"}, {"steps", "2048"}, {"batch", "8"}};
    request.dtype = DType::kBFloat16;
    request.optimizer = {.kind = "adamw"};
    request.recompute = "layer";
    request.cluster = cluster_of(new_first);
    request.search = "megatron?tensor=4,pipeline=2,zero=1,micro-batches=8";
    const Planned p = made(request);
    for (size_t d = 0; d < p.physical.peak_bytes.size() && static_cast<int>(d) < p.cluster.compute_count; ++d)
      EXPECT_LE(p.physical.peak_bytes[d], p.cluster.devices[d].memory_bytes);
    EXPECT_GT(p.peak_memory_bytes(), 45'000'000'000);  // more than a V100 has
  }
}

TEST(MixedDevices, WaitWhereAPlanSplitsEvenly) {
  const Planned p = made(gpt2("data-parallel", true));
  const std::vector<TypeTime> times = times_of_mixed_devices(p);
  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].type, "A100");
  EXPECT_EQ(times[1].type, "V100");
  // V100 computes as long as on a cluster of its own; the A100s wait for the rest of the time.
  EXPECT_GT(times[1].compute_ns, 1.5 * static_cast<double>(times[0].compute_ns));
  EXPECT_EQ(times[0].waits_ns, times[1].compute_ns - times[0].compute_ns);
  EXPECT_EQ(times[1].waits_ns, 0);
  EXPECT_EQ(p.breakdown().compute_ns, times[1].compute_ns);
  EXPECT_TRUE(times_of_mixed_devices(planned("zoo:mlp?batch=8", "data-parallel", "local:4")).empty());
}

// If figures are extrapolated from representatives, the slowest type is among them, wherever it stands.
TEST(MixedDevices, StandAmongTypicalDevices) {
  for (const bool new_first : {true, false})
    for (const char* search : {"data-parallel", "pipeline?stages=2,micro-batches=4", "megatron?tensor=4"}) {
      const Planned p = made(gpt2(search, new_first));
      std::set<std::string> types;
      for (const DeviceId d : representative_devices(p.cluster, p.plan)) types.insert(p.cluster.device(d).model);
      EXPECT_EQ(types, (std::set<std::string>{"A100", "V100"})) << search << new_first;
    }
}

}  // namespace
}  // namespace partita

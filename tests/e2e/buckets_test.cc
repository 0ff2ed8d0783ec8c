// Tests that gradients exchanged in buckets are, bit for bit, those exchanged one by one, and that the run equals the
// serial one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/pipeline/pipeline.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

struct Case {
  std::string model, search;
  int devices = 2, batch = 8, micro_batches = 1;
  std::string batch_norm_groups = {};
};

Planned planned(const Case& c, std::optional<int64_t> bucket_bytes, DType dtype) {
  Request request;
  request.model = c.model;
  request.bindings["batch"] = std::to_string(c.batch);
  request.search = c.search;
  request.cluster = fmt::format("local:{}", c.devices);
  request.micro_batches = c.micro_batches;
  request.batch_norm_groups = c.batch_norm_groups;
  request.dtype = dtype;
  // adamw divides gradients of convolutions before a norm, which are zero, by themselves (docs/reference/cli.md).
  request.optimizer =
      c.model.starts_with("zoo:resnet") ? Optimizer{"sgd", 0.01, 0.9, 0} : Optimizer{"adamw", 0.01, 0, 0.1};
  request.optimizer.clip_norm = 0.5;
  request.bucket_bytes = bucket_bytes;
  Runner runner(false);
  return plan_model(request, runner);
}

// Collectives of the first device, and the most tensors in one.
struct Counts {
  int collectives = 0;
  std::size_t most = 0;
};
Counts counts(const PhysicalGraph& graph) {
  Counts counts;
  for (const Task& task : graph.tasks) {
    if (!std::holds_alternative<CollectiveWork>(task.work) || task.device.value != 0) continue;
    ++counts.collectives;
    counts.most = std::max(counts.most, task.reads.size());
  }
  return counts;
}

constexpr const char* kMlp = "zoo:mlp?layers=4,width=12";
constexpr const char* kGpt2 = "zoo:gpt2?layers=2,hidden=16,heads=4,steps=6,vocabulary=24";
constexpr const char* kResNet = "zoo:resnet-18?image=32,classes=8";

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {kMlp, "data-parallel", 3},
      {kMlp, "data-parallel", 2, 8, 4},
      {kMlp, "zero?stage=1", 3},
      {kMlp, "zero?stage=2", 2, 8, 2},
      {kMlp, "zero?stage=3", 2, 7, 3},  // micro-batches of two sizes
      {kMlp, "pipeline?stages=2", 4, 8, 4},
      {kGpt2, "data-parallel", 2},
      {kGpt2, "data-parallel", 2, 8, 2},
      {kGpt2, "zero?stage=1", 2},
      {kGpt2, "zero?stage=2", 2, 8, 2},
      {kGpt2, "zero?stage=3", 2},
      {kGpt2, "megatron?tensor=2", 4},
      {kGpt2, "megatron?tensor=2,zero=2", 4, 8, 2},
      {kGpt2, "megatron?tensor=1,pipeline=2,zero=1", 4, 8, 4},
      {kResNet, "data-parallel", 2},
      {kResNet, "data-parallel", 2, 8, 1, "replica"},
  };
  return kCases;
}

std::string name_of(const Case& c) {
  return fmt::format("{} {} on {}, batch {} in {}", c.model, c.search, c.devices, c.batch, c.micro_batches);
}

// In float64, all in one bucket a kind, and in buckets of few tensors.
TEST(Buckets, TrainAsSerial) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const Planned apart = planned(c, 0, DType::kFloat64), whole = planned(c, {}, DType::kFloat64);
    EXPECT_EQ(counts(apart.physical).most, 1u);
    EXPECT_EQ(whole.plan.bucket_bytes, kBucketBytes);
    EXPECT_GT(counts(whole.physical).most, 1u);
    EXPECT_LT(counts(whole.physical).collectives, counts(apart.physical).collectives);
    std::printf("%d collectives, in buckets %d: ", counts(apart.physical).collectives,
                counts(whole.physical).collectives);
    train_as_serial(whole, name_of(c));
  }
}

// In float32, in which another order of terms would show.
TEST(Buckets, ChangeNoBit) {
  TrainOptions options;
  options.steps = 3;
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const TrainReport apart = train(planned(c, 0, DType::kFloat32), options, kernels());
    for (const std::optional<int64_t> bytes : {std::optional<int64_t>(), std::optional<int64_t>(1500)}) {
      const TrainReport joined = train(planned(c, bytes, DType::kFloat32), options, kernels());
      EXPECT_EQ(joined.losses, apart.losses);
      ASSERT_EQ(joined.weights.size(), apart.weights.size());
      for (const auto& [name, values] : apart.weights) EXPECT_EQ(joined.weights.at(name).real, values.real);
    }
  }
}

}  // namespace
}  // namespace partita

// What is made again in the backward pass and not kept until then: the same training to the bit, in less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "partita/base/output_file.h"
#include "partita/base/testing/error_of.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

Planned plan(const std::string& model, const std::string& recompute, int devices, const std::string& search,
             DType dtype = DType::kFloat32) {
  Request request;
  request.model = model;
  request.recompute = recompute;
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  request.optimizer = {"adamw", 0.01, 0, 0.1};
  Runner runner;
  return plan_model(request, runner);
}

TrainReport trained(const Planned& planned) {
  TrainOptions options;
  options.steps = 3;
  return train(planned, options, kernels());
}

// Results of forward ops that backward ops read.
std::set<std::string> kept(const Graph& graph) {
  std::set<std::string> names;
  for (const Op& op : graph.ops)
    if (op.phase == Phase::kBackward)
      for (TensorId t : op.operands)
        if (const OpId producer = graph.tensor(t).producer;
            producer.valid() && graph.op(producer).phase == Phase::kForward)
          names.insert(graph.tensor(t).name);
  return names;
}

constexpr const char* kModels[] = {
    "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20,batch=12,dropout=0.25",
    "zoo:transformer?layers=1,hidden=24,heads=2,steps=6,vocabulary=20,batch=12,fine=true",
    "zoo:rnnlm?steps=3,hidden=8,vocabulary=9,batch=12",
    "zoo:lenet?batch=12",
    "zoo:cnn?layers=2,image=6,filters=12,batch=12,loss=cross_entropy",
    "zoo:moe?layers=1,hidden=16,heads=2,steps=6,vocabulary=20,batch=8,experts=4,groups=4"};

TEST(Recompute, TrainsTheSameToTheBit) {
  for (const char* model : kModels) {
    SCOPED_TRACE(model);
    const Planned all = plan(model, "none", 1, "single");
    const TrainReport a = trained(all);
    const std::set<std::string> everything = kept(all.training);
    std::set<std::string> before = everything;
    std::printf("%s: %zu tensors kept, peak %lld bytes\n", model, everything.size(),
                static_cast<long long>(all.peak_memory_bytes()));
    for (const char* kind : {"pointwise", "cheap"}) {
      SCOPED_TRACE(kind);
      const Planned less = plan(model, kind, 1, "single");
      const TrainReport b = trained(less);
      EXPECT_EQ(a.losses, b.losses);
      EXPECT_EQ(a.weights, b.weights);
      const std::set<std::string> after = kept(less.training);
      EXPECT_TRUE(std::includes(before.begin(), before.end(), after.begin(), after.end()));
      EXPECT_LT(after.size(),
                everything.size());  // each kind keeps no more than the one before it; a model need not have norms
      std::printf("  %s: %zu tensors, peak %lld bytes\n", kind, after.size(),
                  static_cast<long long>(less.peak_memory_bytes()));
      before = after;
    }
  }
}

TEST(Recompute, ParallelEqualsSerial) {
  for (const char* model : kModels)
    for (const char* search : {"data-parallel", "soybean", "exact"}) {
      SCOPED_TRACE(fmt::format("{} by {}", model, search));
      const TrainReport serial = trained(plan(model, "cheap", 1, "single", DType::kFloat64)),
                        parallel = trained(plan(model, "cheap", 3, search, DType::kFloat64));
      for (size_t i = 0; i < serial.losses.size(); ++i)
        EXPECT_NEAR(parallel.losses[i], serial.losses[i], 1e-12 * std::abs(serial.losses[i]));
    }
}

// Batch norm is made again from what the convolution before it has made; its running statistics are not written twice.
TEST(Recompute, BatchNorm) {
  const std::string model = "zoo:resnet-18?image=32,classes=5,batch=6";
  const Planned all = plan(model, "none", 1, "single"), less = plan(model, "cheap", 1, "single");
  const TrainReport a = trained(all), b = trained(less);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.weights, b.weights);
  const auto norms = std::count_if(less.training.ops.begin(), less.training.ops.end(), [](const Op& op) {
    return op.definition == "batch_norm" && op.phase == Phase::kBackward;
  });
  EXPECT_EQ(norms, 20);
}

// Of a step in bfloat16 the gated and the normalised activations, and the weights' copies, need not be kept: only what
// products make, and the residual stream.
TEST(Recompute, Memory) {
  const std::string model =
      "zoo:llama-3-8b?layers=4,hidden=256,heads=4,key_heads=2,inner=896,vocabulary=256,steps=64,batch=16";
  const Planned all = plan(model, "none", 1, "single", DType::kBFloat16),
                less = plan(model, "cheap", 1, "single", DType::kBFloat16);
  std::printf("peak: all kept %lld, less %lld bytes\n", static_cast<long long>(all.peak_memory_bytes()),
              static_cast<long long>(less.peak_memory_bytes()));
  EXPECT_LT(static_cast<double>(less.peak_memory_bytes()), 0.8 * static_cast<double>(all.peak_memory_bytes()));
  for (const std::string& name : kept(less.training)) EXPECT_EQ(name.find(".mlp.silu"), std::string::npos) << name;
  const OpId again = less.training.find_op("model.layers.1.mlp.silu.recompute");
  ASSERT_TRUE(again.valid());
  EXPECT_EQ(less.training.op(again).phase, Phase::kBackward);
  EXPECT_EQ(less.training.op(again).forward, less.training.find_op("model.layers.1.mlp.silu"));
}

// What reduces something is kept then, and read again by nothing.
TEST(Recompute, NormsAreKept) {
  const Planned less =
      plan("zoo:llama-3-8b?layers=1,hidden=64,heads=4,key_heads=2,inner=96,vocabulary=32,steps=8,batch=4", "pointwise",
           1, "single");
  size_t again = 0;
  for (const Op& op : less.training.ops) {
    if (!op.name.ends_with(".recompute")) continue;
    ++again;
    EXPECT_NE(op.definition, "rms_norm") << op.name;
  }
  EXPECT_GT(again, 0);
  const std::set<std::string> names = kept(less.training);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                          [](const std::string& name) { return name.find("layernorm") != std::string::npos; }));
}

TEST(Recompute, APlanKeepsIt) {
  const Planned p = plan("zoo:mlp?layers=3,width=20", "cheap", 2, "soybean");
  const std::string text = print(p.plan, p.training);
  EXPECT_EQ(parse_model_reference(text).recompute, "cheap");
  const std::string path = fmt::format("{}/recompute_plan.json", PARTITA_BINARY_DIR);
  write_file(path, text);
  Runner runner;
  EXPECT_EQ(open_plan(path, runner).plan, p.plan);
  const Planned without = plan("zoo:mlp?layers=3,width=20", "none", 2, "soybean");
  EXPECT_EQ(print(without.plan, without.training).find("recompute"), std::string::npos);
  EXPECT_NE(error_of([] {
              plan("zoo:mlp", "all", 1, "single");
            }).find("recompute: 'all' is not one of none, pointwise, cheap"),
            std::string::npos);
}

}  // namespace
}  // namespace partita

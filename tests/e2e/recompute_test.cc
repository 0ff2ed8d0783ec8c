// Tests recomputation in the backward pass: the same training to the bit, in less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "partita/base/output_file.h"
#include "partita/base/testing/error_of.h"
#include "partita/graph/autodiff.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

Planned plan(const std::string& model, const std::string& recompute, int devices, const std::string& search,
             DType dtype = DType::kFloat32, const Optimizer& optimizer = {"adamw", 0.01, 0, 0.1}) {
  Request request;
  request.model = model;
  if (model.ends_with("tiny-gpt2")) request.bindings["batch"] = "8";
  request.recompute = recompute;
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  request.optimizer = optimizer;
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

// Models with layers and attention, fused and in pieces, with dropout; with steps of a recurrence; of a file.
constexpr const char* kLayered[] = {
    "zoo:mlp?layers=4,width=12,batch=8",
    "zoo:lenet?batch=12",
    "zoo:gpt2?layers=3,hidden=24,heads=2,vocabulary=20,steps=6,batch=8,dropout=0.1",
    "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20,batch=8,dropout=0.1,fine=true",
    "zoo:llama-3-8b?layers=3,hidden=24,heads=4,key_heads=2,inner=40,vocabulary=20,steps=6,batch=8",
    "zoo:rnnlm?steps=4,hidden=8,vocabulary=9,batch=12",
    "zoo:moe?layers=2,hidden=16,heads=2,steps=6,vocabulary=20,batch=8,experts=4,groups=4",
    "tests/data/huggingface/tiny-gpt2",
    "examples/language_model.onnx"};

std::string file_of(const std::string& model) {
  return model.starts_with("zoo:") ? model : fmt::format("{}/{}", PARTITA_SOURCE_DIR, model);
}

TEST(Recompute, LayersAndAttentionTrainTheSameToTheBit) {
  for (const char* model : kLayered) {
    SCOPED_TRACE(model);
    const Planned all = plan(file_of(model), "none", 1, "single", DType::kFloat64);
    const TrainReport a = trained(all);
    std::printf("%s: %zu tensors kept, peak %lld bytes\n", model, kept(all.training).size(),
                static_cast<long long>(all.peak_memory_bytes()));
    for (const char* kind : {"attention", "layer"}) {
      SCOPED_TRACE(kind);
      const Planned less = plan(file_of(model), kind, 1, "single", DType::kFloat64);
      const TrainReport b = trained(less);
      EXPECT_EQ(a.losses, b.losses);
      EXPECT_EQ(a.weights, b.weights);
      EXPECT_LE(b.peak_bytes[0], less.physical.peak_bytes[0]);
      std::printf("  %s: %zu tensors, peak %lld bytes\n", kind, kept(less.training).size(),
                  static_cast<long long>(less.peak_memory_bytes()));
    }
  }
}

TEST(ManyRecompute, LayersAndAttentionInParallelEqualSerial) {
  const std::string searches[] = {"data-parallel", "soybean", "fsdp", "megatron?tensor=2", "zero?stage=2", "exact"};
  const Optimizer sgd{"sgd", 0.05, 0.9, 0};
  TrainOptions options;
  options.steps = 3;
  size_t turn = 0;
  int runs = 0;
  for (const char* model : kLayered) {
    const SerialRun serial =
        train_serial(plan(file_of(model), "none", 1, "single", DType::kFloat64, sgd).training, options, kernels());
    for (const char* kind : {"attention", "layer"})
      for (int k = 0; k < 2; ++k) {
        const std::string& search = searches[turn++ % std::size(searches)];
        SCOPED_TRACE(fmt::format("{} of {} by {}", kind, model, search));
        Planned planned;
        try {
          planned = plan(file_of(model), kind, 4, search, DType::kFloat64, sgd);
        } catch (const Error& error) {  // a rule that does not apply to the model
          EXPECT_TRUE(search.starts_with("megatron")) << error.what();
          continue;
        }
        TrainReport report = train(planned, options, kernels());
        compare_with(serial, report);
        EXPECT_LE(*report.max_error_vs_serial, 1e-10);
        EXPECT_LE(*report.max_loss_error_vs_serial, 1e-10);
        for (int d = 0; d < planned.cluster.compute_count; ++d)
          EXPECT_LE(report.peak_bytes[d], planned.physical.peak_bytes[d]) << "device " << d;
        ++runs;
      }
  }
  EXPECT_GE(runs, 30);
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

// Batch norm is recomputed from the result of the convolution before it. Its running statistics are not written twice.
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

// A step in bfloat16 need not keep the gated and the normalised activations, and the weights' copies: only the results
// of products, and the residual stream.
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

// A layer's casts of weights, products and attention are recomputed too. One layer's are there at a time; only the
// activations between layers remain of the others.
TEST(Recompute, MemoryOfLayers) {
  const std::string model =
      "zoo:llama-3-8b?layers=6,hidden=128,heads=4,key_heads=2,inner=448,vocabulary=128,steps=64,batch=16";
  for (const char* search : {"single", "fsdp"}) {
    SCOPED_TRACE(search);
    const int devices = search == std::string("single") ? 1 : 4;
    int64_t before = INT64_MAX;
    for (const char* kind : {"none", "attention", "cheap", "layer"}) {
      const Planned planned = plan(model, kind, devices, search, DType::kBFloat16);
      std::printf("%s, %s: peak %lld bytes\n", search, kind, static_cast<long long>(planned.peak_memory_bytes()));
      EXPECT_LT(planned.peak_memory_bytes(), before) << kind;
      before = planned.peak_memory_bytes();
      if (kind != std::string("layer")) continue;
      const OpId cast = planned.training.find_op("model.layers.3.mlp.up_proj.weight.bfloat16.recompute");
      EXPECT_TRUE(cast.valid());
      for (const std::string& name : kept(planned.training))
        EXPECT_TRUE(!name.starts_with("model.layers.") || name.ends_with(".mlp.add")) << name;
    }
  }
}

// Results of reductions are kept then, and nothing reads their operands again.
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
            }).find("recompute: 'all' is not one of none, pointwise, cheap, attention, layer"),
            std::string::npos);
}

}  // namespace
}  // namespace partita

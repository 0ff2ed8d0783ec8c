// Tests models from files in stages: a U-Net, whose activations are read several stages on, and BERT, with results of
// constants; and a GPT-2 in micro-batches against PyTorch's gradient accumulation.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "partita/base/error.h"
#include "partita/pipeline/pipeline.h"
#include "partita/runtime/npz.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

const std::string kData = PARTITA_SOURCE_DIR "/tests/data/";

struct Case {
  std::string file, search;
  int devices = 4, batch = 8, micro_batches = 4;
  std::string groups = {}, recompute = "none";
};

Planned planned(const Case& c, const Optimizer& optimizer = {"sgd", 0.01, 0.9, 0}) {
  Request request;
  request.model = kData + c.file;
  request.bindings["batch"] = std::to_string(c.batch);
  request.dtype = DType::kFloat64;
  request.cluster = fmt::format("local:{}", c.devices);
  request.search = c.search;
  request.micro_batches = c.micro_batches;
  request.batch_norm_groups = c.groups;
  request.recompute = c.recompute;
  request.optimizer = optimizer;
  Runner runner;
  return plan_model(request, runner);
}

std::string text_of(const Case& c) {
  return fmt::format("{} --batch {} --devices {} --micro-batches {} --search {} --recompute {}", c.file, c.batch,
                     c.devices, c.micro_batches, c.search, c.recompute);
}

TEST(UNet, InStages) {
  for (const char* search : {"pipeline?stages=2,schedule=gpipe", "pipeline?stages=4,schedule=1f1b",
                             "pipeline?stages=2,schedule=interleaved", "pipeline?stages=2,inner=soybean"})
    for (const char* recompute : {"none", "layer"}) {
      const Case c{.file = "unet.onnx", .search = search, .groups = "4", .recompute = recompute};
      train_as_serial(planned(c), text_of(c));
    }
  const Case uneven{.file = "unet.onnx", .search = "pipeline?stages=4", .batch = 6, .micro_batches = 3, .groups = "3"};
  train_as_serial(planned(uneven), text_of(uneven));
}

// Results of the way down are read on the way up, several stages on. They go there, and to no stage between.
TEST(UNet, SendsWhatIsJoinedStraightToItsStage) {
  const Planned p = planned({.file = "unet.onnx", .search = "pipeline?stages=4", .groups = "4"});
  std::map<TensorId, std::set<int>> read_on;  // forward activations: the stages of their readers
  for (size_t i = 0; i < p.training.ops.size(); ++i)
    if (p.training.ops[i].phase == Phase::kForward)
      for (const TensorId t : p.training.ops[i].operands)
        if (const OpId by = p.training.tensor(t).producer; by.valid() && p.training.op(by).per_micro_batch)
          read_on[t].insert(p.plan.ops[i].stage);
  int far = 0;
  for (const auto& [id, stages] : read_on) {
    const int from = p.plan.ops[p.training.tensor(id).producer.index()].stage;
    if (*stages.rbegin() < from + 2) continue;
    ++far;
    std::set<int> lies_on;  // devices are stages here
    int slots_there = 0;
    for (const Register& reg : p.physical.registers)
      if (reg.tensor == id) {
        lies_on.insert(reg.device.value);
        if (reg.device.value == *stages.rbegin()) slots_there = std::max(slots_there, reg.count);
      }
    std::set<int> expected = stages;
    expected.insert(from);
    EXPECT_EQ(lies_on, expected) << p.training.tensor(id).name;
    EXPECT_GT(slots_there, 0);
  }
  EXPECT_GE(far, 1);
}

TEST(Bert, InStages) {
  for (const char* search : {"pipeline?stages=2,schedule=gpipe", "pipeline?stages=2", "megatron?tensor=2,pipeline=2",
                             "megatron?tensor=2,pipeline=2,sequence=1,zero=1", "fsdp"}) {
    const Case c{.file = "bert.onnx", .search = search, .batch = 16};
    train_as_serial(planned(c), text_of(c));
  }
  const Case uneven{.file = "bert.onnx", .search = "pipeline?stages=2", .devices = 2, .batch = 7, .micro_batches = 3};
  train_as_serial(planned(uneven), text_of(uneven));
}

// Against PyTorch's loop over micro-batches: its losses and weights after five steps of AdamW, clipped.
TEST(Accumulation, OfAGpt2IsPyTorchs) {
  const std::string data = kData + "gpt2-accumulated.npz";
  const Arrays expected = read_arrays(data);
  Optimizer adamw{"adamw", 0.01, 0, 0.1};
  adamw.clip_norm = 0.5;
  for (const auto& [parts, search, devices] : {std::tuple(2, "single", 1),
                                               {4, "single", 1},
                                               {2, "data-parallel", 2},
                                               {4, "pipeline?stages=2", 2},
                                               {4, "megatron?tensor=2,pipeline=2,zero=1", 4}}) {
    const Case c{.file = "gpt2.onnx", .search = search, .devices = devices, .batch = 12, .micro_batches = parts};
    SCOPED_TRACE(text_of(c));
    TrainOptions options;
    options.data = data;
    options.shuffle = false;
    options.steps = 5;
    const TrainReport report = train(planned(c, adamw), options, kernels());
    const Values& losses = expected.at(fmt::format("{}.losses", parts));
    ASSERT_EQ(report.losses.size(), losses.real.size());
    for (size_t i = 0; i < losses.real.size(); ++i)
      EXPECT_LE(std::abs(report.losses[i] / losses.real[i] - 1), 1e-9) << "step " << i;
    double worst = 0;
    const std::string prefix = fmt::format("{}.final.", parts);
    int weights = 0;
    for (const auto& [key, value] : expected) {
      if (!key.starts_with(prefix)) continue;
      const std::string name = key.substr(prefix.size());
      const auto found = report.weights.find(name.ends_with("wte.weight") ? "model.lm_head.weight" : name);  // tied
      ASSERT_NE(found, report.weights.end()) << name;
      worst = std::max(worst, relative_error(found->second, value));
      ++weights;
    }
    std::printf("%s: weights %.1e\n", text_of(c).c_str(), worst);
    EXPECT_LE(worst, 1e-8);
    EXPECT_EQ(weights, 28);
  }
}

}  // namespace
}  // namespace partita

// Compares the estimated memory of stages when a model is cut with the planned one; and tests cuts that memory decides.
#include "partita/search/pipelines/stage_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "partita/base/error.h"
#include "partita/pipeline/pipeline.h"

namespace partita {
namespace {

constexpr const char* kGpt2 = "zoo:gpt2?layers=8,hidden=64,heads=4,vocabulary=512,steps=32,batch=32";
constexpr const char* kUntied = "zoo:transformer?layers=8,hidden=64,heads=4,vocabulary=96,steps=32,batch=32";
constexpr const char* kResNet = "zoo:resnet-18?image=32,width=16,batch=32";

Request request_for(const std::string& model, const std::string& cluster, const std::string& search) {
  Request request;
  request.model = model;
  request.cluster = cluster;
  request.search = search;
  request.optimizer = {.kind = "adamw"};
  return request;
}

Planned planned(const Request& request) {
  Runner runner;
  return plan_model(request, runner);
}

void look_at(const Planned& plan, const std::string& text) {
  std::vector<int> stage_of_op;
  for (const OpChoice& choice : plan.plan.ops) stage_of_op.push_back(choice.stage);
  const std::vector<StageFigures> stages = plan.breakdown().stages;
  const auto memory = layer_block_memory(plan.training, plan.plan, stage_of_op, static_cast<int>(stages.size()));
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto said = static_cast<double>(bytes_of(memory[s], stages[s].in_flight));
    const double part = said / static_cast<double>(stages[s].peak_memory_bytes);
    std::printf("%s, stage %zu: %.3f of what is planned\n", text.c_str(), s, part);
    EXPECT_GT(part, 0.75);  // not counted: the overlap budget
    EXPECT_LT(part, 1.1);
  }
}

TEST(StageMemory, IsNearToWhatIsPlanned) {
  for (const char* search :
       {"pipeline?stages=4,micro-batches=8", "pipeline?stages=2,micro-batches=4,schedule=gpipe",
        "pipeline?stages=2,micro-batches=8,inner=zero", "pipeline?stages=4,micro-batches=8,recompute=layer",
        "megatron?tensor=2,pipeline=4,zero=1,micro-batches=8"})
    for (const char* model : {kGpt2, kUntied})
      look_at(planned(request_for(model, "dgx-1", search)), fmt::format("{} {}", model, search));
  Request request = request_for(kResNet, "local:4", "pipeline?stages=4,micro-batches=4,schedule=gpipe");
  request.batch_norm_groups = "4";
  look_at(planned(request), kResNet);
}

// The first stage has most micro-batches in flight: with less memory it gets fewer layers, until nothing fits.
TEST(StageMemory, DecidesWhereTheEvenestCutDoesNotFit) {
  Request request = request_for(kUntied, "local:4", "pipeline?stages=4,micro-batches=8");
  const Planned even = planned(request);
  request.memory_limit_bytes = even.peak_memory_bytes() * 9 / 10;
  const Planned fitting = planned(request);
  EXPECT_LE(fitting.peak_memory_bytes(), *request.memory_limit_bytes);
  EXPECT_GE(fitting.step_time_ns(), even.step_time_ns());
}

// More memory never gives a longer step: cuts of less memory are compared too. The limits are such that the evenest cut
// by estimate does not fit.
TEST(StageCuts, WithMoreMemoryTakeNoLonger) {
  Request resnet = request_for("zoo:resnet-18", "dgx-h100", "megatron?tensor=2,pipeline=2");
  resnet.bindings["batch"] = "64";
  resnet.optimizer = {.kind = "adam"};
  Request gpt2 = request_for("zoo:gpt2?layers=4", "flexflow-p100", "pipeline?stages=2,schedule=interleaved");
  gpt2.bindings["batch"] = "16";
  gpt2.dtype = DType::kBFloat16;
  gpt2.optimizer = {.kind = "adam"};
  gpt2.recompute = "cheap";
  for (const auto& [asked, limits] :
       {std::pair(resnet, std::vector<int64_t>{500'974'596, 420'000'000}), {gpt2, {1'268'155'524, 1'200'000'000}}}) {
    const int64_t with_all = planned(asked).step_time_ns();
    for (const int64_t limit : limits) {
      Request less = asked;
      less.memory_limit_bytes = limit;
      EXPECT_GE(planned(less).step_time_ns(), with_all) << asked.model << " " << limit;
    }
  }
}

}  // namespace
}  // namespace partita

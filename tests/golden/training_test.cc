// Steps of whole models beside published ones, and what training over many devices keeps (docs/training.md).
#include <gtest/gtest.h>

#include <cstdio>

#include "partita/pipeline.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

// So many a second, of `count` in a step.
double rate(const Request& request, double count) {
  Runner runner;
  return 1e9 * count / static_cast<double>(plan_model(request, runner).step_time_ns());
}

// OneFlow's DLPerf report: Megatron-LM on eight V100 of 16 GB.
TEST(Training, MegatronOnV100IsWithinAFifth) {
  std::vector<double> found;
  for (const auto& [search, published] : std::vector<std::pair<std::string, double>>{{"data-parallel", 33.3},
                                                                                     {"megatron?tensor=2", 27.0},
                                                                                     {"megatron?tensor=4", 27.8},
                                                                                     {"megatron?tensor=8", 24.1}}) {
    Request request;
    request.model = "zoo:gpt2?layers=16,hidden=1536,heads=16,vocabulary=51200,steps=2048,dropout=0.1";
    request.bindings["batch"] = "16";
    request.search = search;
    request.cluster = "dgx-1";
    request.dtype = DType::kFloat16;
    request.optimizer = {.kind = "adam"};
    request.recompute = "layer";
    found.push_back(rate(request, 16));
    std::printf("%s: %.1f sequences/s, published %.1f\n", search.c_str(), found.back(), published);
    EXPECT_NEAR(found.back(), published, 0.2 * published) << search;
  }
  EXPECT_GT(found.front(), found.back());
}

// ZeRO's stage 3 of eight billion parameters keeps nine tenths of its throughput from 8 H100 to 128.
TEST(Training, Zero3ScalesFromANodeToSixteen) {
  auto tokens_a_device = [](int nodes) {
    Request request;
    request.model = "zoo:llama-3-8b";
    request.bindings["batch"] = std::to_string(8 * nodes);
    request.search = "fsdp";
    request.cluster = "dgx-h100:" + std::to_string(nodes);
    request.dtype = DType::kBFloat16;
    request.optimizer = {.kind = "adamw"};
    return rate(request, 8192);
  };
  const double one = tokens_a_device(1), sixteen = tokens_a_device(16);
  std::printf("tokens a second and device: %.0f on 8, %.0f on 128\n", one, sixteen);
  EXPECT_GE(sixteen, 0.9 * one);
}

}  // namespace
}  // namespace partita

// Tests that models by their config.json, with weights as the transformers package saves them, compute the same as it,
// and are saved as it saves them. tests/data/make_huggingface.py makes the reference arrays.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "partita/base/error.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/weight_files.h"
#include "partita/train/forward.h"
#include "partita/train/train.h"
#include "partita/train/weights_of_model.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

std::string folder(const std::string& name) {
  return fmt::format("{}/tests/data/huggingface/{}", PARTITA_SOURCE_DIR, name);
}

Planned plan(const std::string& name, int devices, const std::string& search, DType dtype) {
  Request request;
  request.model = folder(name);
  request.bindings = {{"batch", "3"}, {"steps", "8"}};
  request.optimizer = {"sgd", 0.01, 0, 0};
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  Runner runner;
  return runnable(plan_model(request, runner), runner);
}

void expect_forward_in_float32(const std::string& name) {
  SCOPED_TRACE(name);
  const Arrays reference = read_arrays(folder(name) + "/reference.npz");
  const Planned p = plan(name, 1, "single", DType::kFloat32);
  const Graph graph = evaluation_graph(p.forward);
  const Arrays weights = load_weights(folder(name), p.forward, p.weight_names).values;
  const Arrays outputs = run_forward(graph, evaluation_plan(graph, p), p.cluster, reference, weights, 1, kernels());
  ASSERT_EQ(outputs.size(), reference.contains("y2") ? 2u : 1u);
  double error = relative_error(outputs.at(graph.tensor(graph.outputs[0]).name), reference.at("y"));
  if (reference.contains("y2"))
    error = std::max(error, relative_error(outputs.at(graph.tensor(graph.outputs[1]).name), reference.at("y2")));
  std::printf("%-22s forward in float32 %.2e\n", name.c_str(), error);
  EXPECT_LE(error, 1e-4);
}

// Five steps in float64, from the files and into a file: losses, and the saved arrays.
void expect_five_steps(const std::string& name, int devices, const std::string& search) {
  SCOPED_TRACE(fmt::format("{} with {} on {} devices", name, search, devices));
  const Arrays reference = read_arrays(folder(name) + "/reference.npz");
  const std::string saved = fmt::format("{}/huggingface-{}-{}.safetensors", ::testing::TempDir(), name, devices);
  TrainOptions options;
  options.data = folder(name) + "/reference.npz";
  options.weights = folder(name);
  options.save = saved;
  options.shuffle = false;
  options.steps = 5;
  const TrainReport report = train(plan(name, devices, search, DType::kFloat64), options, kernels());
  const Values& losses = reference.at("losses");
  ASSERT_EQ(report.losses.size(), losses.real.size());
  double worst_loss = 0, worst = 0;
  for (std::size_t i = 0; i < report.losses.size(); ++i)
    worst_loss = std::max(worst_loss, std::abs(report.losses[i] / losses.real[i] - 1));
  EXPECT_LE(worst_loss, 1e-5);
  const Arrays weights = read_safetensors(saved);
  std::filesystem::remove(saved);
  std::size_t compared = 0;
  for (const auto& [key, value] : reference) {
    if (!key.starts_with("final.")) continue;
    ASSERT_TRUE(weights.contains(key.substr(6))) << key;
    const double error = relative_error(weights.at(key.substr(6)), value);
    EXPECT_LE(error, 1e-8) << key;
    worst = std::max(worst, error);
    ++compared;
  }
  EXPECT_EQ(compared, weights.size());
  EXPECT_GE(compared, 14u);
  std::printf("%-22s %d devices, %s: losses %.1e, %zu weights %.1e after five steps\n", name.c_str(), devices,
              search.c_str(), worst_loss, compared, worst);
}

void expect_all(const std::string& name) {
  expect_forward_in_float32(name);
  expect_five_steps(name, 1, "single");
  expect_five_steps(name, 3, "soybean");
}

TEST(HuggingfaceRun, Llama) { expect_all("tiny-llama"); }
TEST(HuggingfaceRun, LlamaWithATiedHead) { expect_all("tiny-llama-tied"); }
TEST(HuggingfaceRun, Gpt2) { expect_all("tiny-gpt2"); }
TEST(HuggingfaceRun, Gpt2WithItsOptions) { expect_all("tiny-gpt2-untied"); }
TEST(HuggingfaceRun, BertForMaskedLm) { expect_all("tiny-bert-lm"); }
TEST(HuggingfaceRun, BertForPreTraining) { expect_all("tiny-bert-pretraining"); }
TEST(HuggingfaceRun, BertForSequenceClassification) { expect_all("tiny-bert-classifier"); }
TEST(HuggingfaceRun, Mixtral) { expect_all("tiny-mixtral"); }
TEST(HuggingfaceRun, MixtralWithItsBalance) { expect_all("tiny-mixtral-balanced"); }
TEST(HuggingfaceRun, Mistral) { expect_all("tiny-mistral"); }
TEST(HuggingfaceRun, Qwen2) { expect_all("tiny-qwen2"); }
TEST(HuggingfaceRun, Qwen3WithYarn) { expect_all("tiny-qwen3"); }
TEST(HuggingfaceRun, Gemma) { expect_all("tiny-gemma"); }
TEST(HuggingfaceRun, Gemma2) { expect_all("tiny-gemma2"); }
TEST(HuggingfaceRun, Gemma3) { expect_all("tiny-gemma3"); }
TEST(HuggingfaceRun, Phi3) { expect_all("tiny-phi3"); }
TEST(HuggingfaceRun, Phi3WithLongRope) { expect_all("tiny-phi3-long"); }
TEST(HuggingfaceRun, Olmo2) { expect_all("tiny-olmo2"); }
TEST(HuggingfaceRun, GptNeoX) { expect_all("tiny-neox"); }
TEST(HuggingfaceRun, GptNeoXOneAfterTheOther) { expect_all("tiny-neox-sequential"); }
TEST(HuggingfaceRun, Opt) { expect_all("tiny-opt"); }
TEST(HuggingfaceRun, OptWithNormsAfterwards) { expect_all("tiny-opt-after"); }
TEST(HuggingfaceRun, OptWithoutBiasesAndScales) { expect_all("tiny-opt-bare"); }
TEST(HuggingfaceRun, Qwen2Moe) { expect_all("tiny-qwen2-moe"); }
TEST(HuggingfaceRun, Qwen3Moe) { expect_all("tiny-qwen3-moe"); }
TEST(HuggingfaceRun, DeepSeekV2) { expect_all("tiny-deepseek-v2"); }
TEST(HuggingfaceRun, DeepSeekV2WithGroups) { expect_all("tiny-deepseek-v2-groups"); }
TEST(HuggingfaceRun, DeepSeekV3) { expect_all("tiny-deepseek-v3"); }
TEST(HuggingfaceRun, DeepSeekV32) { expect_all("tiny-deepseek-v3.2"); }
TEST(HuggingfaceRun, Olmo3) { expect_all("tiny-olmo3"); }
TEST(HuggingfaceRun, SmolLm3) { expect_all("tiny-smollm3"); }
TEST(HuggingfaceRun, Granite) { expect_all("tiny-granite"); }
TEST(HuggingfaceRun, TextOfQwen25Vl) { expect_all("tiny-qwen2.5-vl"); }
TEST(HuggingfaceRun, TextOfQwen3Vl) { expect_all("tiny-qwen3-vl"); }
TEST(HuggingfaceRun, Glm4Moe) { expect_all("tiny-glm4-moe"); }
TEST(HuggingfaceRun, GptOss) { expect_all("tiny-gpt-oss"); }
TEST(HuggingfaceRun, TextOfLlama4) { expect_all("tiny-llama4"); }
// A run has more places for its experts than the plan counts; the same layers are recomputed.
TEST(HuggingfaceRun, LayersOfExpertsBehindADenseOneAreMadeAgain) {
  for (const char* name : {"tiny-deepseek-v3", "tiny-glm4-moe"})
    expect_five_steps(name, 2, "data-parallel?recompute=layer");
}

}  // namespace
}  // namespace partita

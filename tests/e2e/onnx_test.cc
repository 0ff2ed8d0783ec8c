// Tests that ONNX files, planned and run on 1 and 3 devices, compute the same as PyTorch. tests/data/make_models.py and
// make_transformers.py make the reference arrays.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/runtime/npz.h"
#include "partita/train/forward.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

std::string model_file(const std::string& name) {
  return fmt::format("{}/{}/{}.onnx", PARTITA_SOURCE_DIR, name == "digits" ? "examples" : "tests/data", name);
}
std::string reference_file(const std::string& name) {
  return fmt::format("{}/tests/data/{}-reference.npz", PARTITA_SOURCE_DIR, name.substr(0, name.find('-')));
}

Planned plan(const std::string& name, const Arrays& reference, int devices, const std::string& search, DType dtype,
             const Optimizer& optimizer = {}) {
  Request request;
  request.model = model_file(name);
  request.bindings["batch"] = std::to_string(reference.at("x").shape[0]);
  request.optimizer = optimizer;
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  Runner runner;
  return plan_model(request, runner);
}

void expect_forward(const std::string& name, double float32_tolerance, double float64_tolerance) {
  const Arrays reference = read_arrays(reference_file(name));
  for (int devices : {1, 3})
    for (const auto& [dtype, tolerance] :
         {std::pair{DType::kFloat32, float32_tolerance}, std::pair{DType::kFloat64, float64_tolerance}}) {
      SCOPED_TRACE(fmt::format("{} on {} devices in {}", name, devices, name_of(dtype)));
      const Planned p = plan(name, reference, devices, "soybean", dtype);
      const Graph graph = evaluation_graph(p.forward);
      const Arrays outputs =
          run_forward(graph, evaluation_plan(graph, p), p.cluster, {{"x", reference.at("x")}}, {}, 1, kernels());
      ASSERT_EQ(outputs.size(), 1u);
      const double error = relative_error(outputs.begin()->second, reference.at("y"));
      std::printf("%-22s %d devices, %s: forward %.2e\n", name.c_str(), devices, std::string(name_of(dtype)).c_str(),
                  error);
      EXPECT_LE(error, tolerance);
    }
}

void expect_losses(const std::vector<double>& losses, const Values& expected) {
  ASSERT_EQ(losses.size(), expected.real.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_LE(std::abs(losses[i] / expected.real[i] - 1), 1e-9) << "step " << i;
}

void expect_training(const std::string& name) {
  const Arrays reference = read_arrays(reference_file(name));
  TrainOptions options;
  options.data = reference_file(name);
  options.shuffle = false;
  for (const auto& [devices, search] :
       {std::pair{1, "single"}, std::pair{3, "soybean"}, std::pair{3, "data-parallel"}}) {
    SCOPED_TRACE(fmt::format("{} with {} on {} devices", name, search, devices));
    options.steps = 5;
    const TrainReport report = train(plan(name, reference, devices, search, DType::kFloat64), options, kernels());
    expect_losses(report.losses, reference.at("losses"));
    double worst = 0;
    int compared = 0;
    for (const auto& [key, value] : reference) {
      if (!key.starts_with("final.")) continue;
      const std::string weight = key.substr(6);
      ASSERT_TRUE(report.weights.contains(weight)) << weight;
      const double error = relative_error(report.weights.at(weight), value);
      EXPECT_LE(error, 1e-8) << weight;
      worst = std::max(worst, error);
      ++compared;
    }
    EXPECT_GE(compared, 6);
    std::printf("%-22s %d devices, %s: %d weights and statistics after five steps %.2e\n", name.c_str(), devices,
                search, compared, worst);
  }
  options.steps = 10;
  expect_losses(
      train(plan(name, reference, 3, "soybean", DType::kFloat64, {.momentum = 0.9}), options, kernels()).losses,
      reference.at("momentum_losses"));
}

// ---------------------------------------------------------------- transformers, and models that no one here wrote

// The forward pass in float32, on 1 device; the reference is PyTorch's in float64.
void expect_forward_in_float32(const std::string& name) {
  SCOPED_TRACE(name);
  const Arrays reference = read_arrays(reference_file(name));
  const Planned p = plan(name, reference, 1, "single", DType::kFloat32);
  const Graph graph = evaluation_graph(p.forward);
  const Arrays outputs =
      run_forward(graph, evaluation_plan(graph, p), p.cluster, {{"x", reference.at("x")}}, {}, 1, kernels());
  ASSERT_EQ(outputs.size(), 1u);
  const double error = relative_error(outputs.begin()->second, reference.at("y"));
  std::printf("%-22s forward in float32 %.2e\n", name.c_str(), error);
  EXPECT_LE(error, 1e-4);
}

// Five steps in float64. `complete`: the file has every parameter under PyTorch's name, except `another_name`, a tied
// weight's that the file does not use. Else the parameters that it has are compared.
void expect_five_steps(const std::string& name, int devices, const std::string& search, bool complete = true,
                       const std::string& another_name = "") {
  SCOPED_TRACE(fmt::format("{} with {} on {} devices", name, search, devices));
  const Arrays reference = read_arrays(reference_file(name));
  TrainOptions options;
  options.data = reference_file(name);
  options.shuffle = false;
  options.steps = 5;
  const TrainReport report = train(plan(name, reference, devices, search, DType::kFloat64), options, kernels());
  const Values& losses = reference.at("losses");
  ASSERT_EQ(report.losses.size(), losses.real.size());
  double worst_loss = 0, worst = 0;
  for (std::size_t i = 0; i < report.losses.size(); ++i)
    worst_loss = std::max(worst_loss, std::abs(report.losses[i] / losses.real[i] - 1));
  EXPECT_LE(worst_loss, 1e-5);
  int compared = 0;
  for (const auto& [key, value] : reference) {
    if (!key.starts_with("final.")) continue;
    const std::string weight = key.substr(6);
    if ((!complete || weight == another_name) && !report.weights.contains(weight)) continue;
    ASSERT_TRUE(report.weights.contains(weight)) << weight;
    const double error = relative_error(report.weights.at(weight), value);
    EXPECT_LE(error, 1e-8) << weight;
    worst = std::max(worst, error);
    ++compared;
  }
  EXPECT_GE(compared, complete ? 12 : 6);
  std::printf("%-22s %d devices, %s: losses %.1e, %d weights %.1e after five steps\n", name.c_str(), devices,
              search.c_str(), worst_loss, compared, worst);
}

// As make_transformers.py's `summary`.
std::vector<double> summary(const Values& values) {
  constexpr std::size_t kSamples = 24;
  const std::size_t n = values.real.size();
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(n, kSamples); ++i)
    out.push_back(values.real[n <= kSamples ? i : i * n / kSamples]);
  double first = 0, second = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i);
    first += values.real[i] * std::cos(1 + x), second += values.real[i] * std::cos(0.3 * x * x);
  }
  out.insert(out.end(), {first, second});
  return out;
}

// Five steps in float64 of each of make_transformers.py's OPTIMIZERS. `another_name`: see expect_five_steps.
void expect_optimizers(const std::string& name, int devices, const std::string& search,
                       const std::string& another_name = "") {
  const Arrays reference = read_arrays(reference_file(name)),
               runs = read_arrays(fmt::format("{}/tests/data/{}-optimizers.npz", PARTITA_SOURCE_DIR, name));
  for (const auto& [run, optimizer] :
       {std::pair<const char*, Optimizer>{"momentum", {.kind = "sgd", .momentum = 0.9, .weight_decay = 0.01}},
        {"adam", {.kind = "adam"}},
        {"adamw", {.kind = "adamw", .weight_decay = 0.1}},
        {"adagrad", {.kind = "adagrad"}},
        {"clipped", {.kind = "sgd", .clip_norm = 0.5}}}) {
    SCOPED_TRACE(fmt::format("{} by {} with {} on {} devices", name, run, search, devices));
    TrainOptions options;
    options.data = reference_file(name);
    options.shuffle = false;
    options.steps = 5;
    const TrainReport report =
        train(plan(name, reference, devices, search, DType::kFloat64, optimizer), options, kernels());
    const Values &losses = runs.at(fmt::format("{}.losses", run)), &weights = runs.at(fmt::format("{}.weights", run));
    ASSERT_EQ(report.losses.size(), losses.real.size());
    double worst_loss = 0, worst = 0;
    for (std::size_t i = 0; i < report.losses.size(); ++i)
      worst_loss = std::max(worst_loss, std::abs(report.losses[i] / losses.real[i] - 1));
    EXPECT_LE(worst_loss, 1e-5);
    std::size_t at = 0;
    int compared = 0;
    for (const auto& [key, value] : reference) {
      if (!key.starts_with("final.")) continue;
      const std::string weight = key.substr(6);
      const std::size_t numbers = std::min<std::size_t>(value.real.size(), 24) + 2;
      ASSERT_LE(at + numbers, weights.real.size());
      if (weight != another_name || report.weights.contains(weight)) {
        ASSERT_TRUE(report.weights.contains(weight)) << weight;
        const std::vector<double> ours = summary(report.weights.at(weight));
        ASSERT_EQ(ours.size(), numbers) << weight;
        double scale = 0, difference = 0;
        for (double v : report.weights.at(weight).real) scale = std::max(scale, std::abs(v));
        for (std::size_t i = 0; i < numbers; ++i) {
          const double d = std::abs(ours[i] - weights.real[at + i]);
          difference = d == d ? std::max(difference, d) : INFINITY;
        }
        EXPECT_LE(difference, 1e-8 * scale) << weight;
        worst = std::max(worst, difference / scale);
        ++compared;
      }
      at += numbers;
    }
    EXPECT_EQ(at, weights.real.size());
    EXPECT_GE(compared, 12);
    std::printf("%-22s %d devices, %s, %s: losses %.1e, %d weights %.1e after five steps\n", name.c_str(), devices,
                search.c_str(), run, worst_loss, compared, worst);
  }
}

TEST(ManyOnnxRun, Optimizers) {
  expect_optimizers("gpt2", 1, "single", "model.transformer.wte.weight");
  expect_optimizers("gpt2", 3, "soybean", "model.transformer.wte.weight");
  expect_optimizers("resnet", 1, "single");
  expect_optimizers("resnet", 2, "data-parallel");
}
TEST(OnnxRun, TransformerEncoder) {
  for (const char* name : {"gelu_encoder", "gelu_encoder-optimized", "gelu_encoder-torchscript", "relu_encoder",
                           "relu_encoder-optimized", "relu_encoder-torchscript"})
    expect_forward_in_float32(name);
  for (const char* name : {"gelu_encoder", "gelu_encoder-optimized", "relu_encoder"})
    expect_five_steps(name, 1, "single");
  expect_five_steps("gelu_encoder-torchscript", 1, "single", false);
  expect_five_steps("gelu_encoder", 3, "data-parallel");
}
// Equal parameters that the exporters have merged are trained apart.
TEST(OnnxRun, FreshTransformerEncoder) {
  for (const char* name : {"fresh_encoder", "fresh_encoder-optimized", "fresh_encoder-torchscript"})
    expect_forward_in_float32(name);
  expect_five_steps("fresh_encoder", 1, "single");
  expect_five_steps("fresh_encoder-torchscript", 1, "single", false);
}
TEST(OnnxRun, Gpt2) {
  for (const char* name : {"gpt2", "gpt2-optimized"}) expect_forward_in_float32(name);
  expect_five_steps("gpt2", 1, "single", true, "model.transformer.wte.weight");
}
TEST(OnnxRun, Bert) {
  for (const char* name : {"bert", "bert-optimized", "bert-torchscript"}) expect_forward_in_float32(name);
  expect_five_steps("bert", 1, "single");
  expect_five_steps("bert-torchscript", 1, "single", false);
}
TEST(OnnxRun, Llama) {
  for (const char* name : {"llama", "llama-optimized"}) {
    expect_forward_in_float32(name);
    expect_five_steps(name, 1, "single");
  }
}
TEST(OnnxRun, Mixtral) {
  for (const char* name : {"mixtral", "mixtral-optimized"}) expect_forward_in_float32(name);
  expect_five_steps("mixtral", 1, "single");
  expect_five_steps("mixtral-optimized", 1, "single",
                    false);  // the experts' weights, which are no linear layers', have the file's names
}
TEST(OnnxRun, Vit) {
  for (const char* name : {"vit", "vit-optimized", "vit-torchscript"}) expect_forward_in_float32(name);
  expect_five_steps("vit", 1, "single");
}
TEST(OnnxRun, ResNet) {
  for (const char* name : {"resnet", "resnet-optimized", "resnet-torchscript"}) expect_forward_in_float32(name);
  expect_five_steps("resnet", 1, "single");
}

TEST(OnnxRun, OthersModels) {
  for (const char* name : {"t5", "swin-optimized", "convnext", "mobilenet-optimized"}) expect_forward_in_float32(name);
  expect_five_steps("convnext", 1, "single");
  expect_five_steps("t5", 1, "single", false);
}

TEST(OnnxRun, Mlp) {
  for (const char* name : {"mlp", "mlp-optimized", "mlp-torchscript"}) expect_forward(name, 1e-5, 1e-10);
  expect_training("mlp");
}
TEST(OnnxRun, LeNet) {
  for (const char* name : {"lenet", "lenet-optimized", "lenet-torchscript"}) expect_forward(name, 1e-5, 1e-10);
  expect_training("lenet");
}
// Its values are in golden/ too. Here it runs on 1 and 3 devices, and the search of 1,506 ops takes its time.
TEST(LongOnnxRun, Recurrent) {
  for (const char* name : {"recurrent", "recurrent-torchscript"}) expect_forward(name, 1e-5, 1e-10);
  expect_training("recurrent");
}

TEST(OnnxRun, Mixed) {
  for (const char* name : {"mixed", "mixed-torchscript"}) expect_forward(name, 1e-5, 1e-10);
  expect_training("mixed");
}
TEST(OnnxRun, Digits) {
  expect_forward("digits", 1e-5, 1e-10);
  expect_forward("digits-optimized", 1e-5, 1e-5);  // the exporter folds batch norm into the weights in float32
  expect_training("digits");
}
TEST(ManyOnnxRun, ResNet18) {
  expect_forward("resnet18", 1e-5, 1e-10);
  expect_training("resnet18");
}

}  // namespace
}  // namespace partita

// Tests labels of -100, which masked_cross_entropy leaves out: against transformers' numbers, against a run without
// these samples, parallel against serial, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "partita/base/output_file.h"
#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/weight_files.h"
#include "partita/train/dataset.h"
#include "partita/train/forward.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

constexpr const char* kMasked = "masked_cross_entropy";
constexpr int64_t kWidth = 6, kClasses = 5;

std::string file_named(const std::string& name) {
  const std::string folder = fmt::format("{}/ignored_labels_test", PARTITA_BINARY_DIR);
  std::filesystem::create_directories(folder);
  return folder + "/" + name;
}

std::string written(const Arrays& arrays, const std::string& name) {
  const std::string file = file_named(name);
  write_npz(file, arrays);
  return file;
}

Request request_of(const std::string& model, int devices, const std::string& search, DType dtype = DType::kFloat64) {
  Request request;
  request.model = model;
  request.loss = kMasked;
  request.optimizer = {"sgd", 0.1, 0, 0};
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  return request;
}

Request mlp(int64_t batch, int devices, const std::string& search, DType dtype = DType::kFloat64) {
  Request request =
      request_of(fmt::format("zoo:mlp?layers=2,width={},classes={}", kWidth, kClasses), devices, search, dtype);
  request.bindings["batch"] = std::to_string(batch);
  return request;
}

Planned plan(const Request& request) {
  Runner runner;
  return plan_model(request, runner);
}

TrainOptions options_for(const std::string& data, int64_t steps) {
  TrainOptions options;
  options.data = data;
  options.steps = steps;
  options.shuffle = false;
  return options;
}

Arrays samples(const std::vector<int64_t>& labels) {
  const auto n = static_cast<int64_t>(labels.size());
  Rng rng(5);
  Values x{DType::kFloat32, {n, kWidth}, {}, {}};
  for (int64_t i = 0; i < n * kWidth; ++i) x.real.push_back(rng.normal());
  return {{"x", x}, {"labels", Values{DType::kInt64, {n}, {}, labels}}};
}

// Two batches of seven: on two or three devices the first has no label that counts, in the first batch.
const std::vector<int64_t> kUneven{-100, -100, -100, 4, -100, 0, 2, 1, 3, -100, -100, 0, 4, -100};

// ---------------------------------------------------------------- numbers

// Five steps of two models of transformers with its own loss, of one output and of two with labels of their own, as
// tests/data/make_huggingface.py made them.
void expect_as_transformers(const std::string& name, int devices, const std::string& search) {
  SCOPED_TRACE(fmt::format("{} with {} on {} devices", name, search, devices));
  const std::string folder = fmt::format("{}/tests/data/huggingface/{}", PARTITA_SOURCE_DIR, name);
  const Arrays reference = read_arrays(folder + "/ignored.npz");
  Request request = request_of(folder, devices, search);
  request.bindings = {{"batch", "3"}, {"steps", "8"}};
  request.optimizer.lr = 0.01;
  TrainOptions options = options_for(folder + "/ignored.npz", 5);
  options.weights = folder;
  options.save = file_named(fmt::format("{}-{}-{}.safetensors", name, devices, search));
  const TrainReport report = train(plan(request), options, kernels());
  const std::vector<double>& losses = reference.at("losses").real;
  ASSERT_EQ(report.losses.size(), losses.size());
  double worst_loss = 0, worst = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    worst_loss = std::max(worst_loss, std::abs(report.losses[i] / losses[i] - 1));
  const Arrays weights = read_safetensors(options.save);
  std::size_t compared = 0;
  for (const auto& [key, value] : reference)
    if (key.starts_with("final.")) {
      worst = std::max(worst, relative_error(weights.at(key.substr(6)), value));
      ++compared;
    }
  EXPECT_EQ(compared, weights.size());
  EXPECT_LE(worst_loss, 1e-10);
  EXPECT_LE(worst, 1e-10);
  std::printf("%-22s %d devices, %s: losses %.1e, %zu weights %.1e\n", name.c_str(), devices, search.c_str(),
              worst_loss, compared, worst);
}

TEST(IgnoredLabels, AreTransformersOwn) {
  for (const char* name : {"tiny-gpt2", "tiny-bert-pretraining"}) {
    expect_as_transformers(name, 1, "single");
    expect_as_transformers(name, 2, "data-parallel");
    expect_as_transformers(name, 3, "soybean");
    expect_as_transformers(name, 1, "single?micro-batches=3");
    expect_as_transformers(name, 2, "pipeline?stages=2,micro-batches=3");
  }
}

// A step is one without the samples whose labels do not count, by the mean over all labels.
TEST(IgnoredLabels, AreAsIfTheirSamplesWereNotThere) {
  const Arrays all = samples(kUneven);
  Arrays few{{"x", Values{DType::kFloat32, {3, kWidth}, {}, {}}}, {"labels", Values{DType::kInt64, {3}, {}, {}}}};
  for (std::size_t i = 0; i < 7; ++i) {
    if (kUneven[i] < 0) continue;
    few["labels"].integer.push_back(kUneven[i]);
    const auto row = all.at("x").real.begin() + static_cast<std::ptrdiff_t>(i) * kWidth;
    few["x"].real.insert(few["x"].real.end(), row, row + kWidth);
  }
  const TrainReport masked = train(plan(mlp(7, 1, "single")), options_for(written(all, "all.npz"), 1), kernels());
  Request request = mlp(3, 1, "single");
  request.loss = "cross_entropy";
  const TrainReport plain = train(plan(request), options_for(written(few, "few.npz"), 1), kernels());
  EXPECT_NEAR(masked.losses[0], plain.losses[0], 1e-14);
  for (const auto& [name, value] : plain.weights) EXPECT_LE(relative_error(masked.weights.at(name), value), 1e-13);
}

// No label that counts: a loss of 0, and nothing moves. PyTorch's mean is NaN.
TEST(IgnoredLabels, MayBeAllThereAre) {
  const std::string data = written(samples(std::vector<int64_t>(7, -100)), "none.npz");
  for (int devices : {1, 3}) {
    const TrainReport report = train(plan(mlp(7, devices, "data-parallel")), options_for(data, 1), kernels());
    Request still = mlp(7, devices, "data-parallel");
    still.optimizer.lr = 0;
    const TrainReport unmoved = train(plan(still), options_for(data, 1), kernels());
    EXPECT_EQ(report.losses, std::vector<double>{0});
    EXPECT_EQ(report.weights, unmoved.weights);
  }
}

// ---------------------------------------------------------------- parallel against serial

TrainReport compared(const Request& request, const TrainOptions& options) {
  const Planned p = plan(request);
  TrainReport report = train(p, options, kernels());
  compare_with(train_serial(p.training, options, kernels()), report);
  std::printf("%-28s %-14s %s: weights %.2e, losses %.2e\n", request.model.c_str(), request.search.c_str(),
              request.cluster.c_str(), *report.max_error_vs_serial, *report.max_loss_error_vs_serial);
  EXPECT_NE(report.losses.front(), report.losses.back());
  return report;
}

void expect_as_serial(const Request& request, const TrainOptions& options) {
  SCOPED_TRACE(fmt::format("{} with {} on {}", request.model, request.search, request.cluster));
  const TrainReport report = compared(request, options);
  EXPECT_LE(*report.max_error_vs_serial, 1e-10);
  EXPECT_LE(*report.max_loss_error_vs_serial, 1e-10);
}

TEST(IgnoredLabels, ParallelEqualsSerial) {
  const TrainOptions options = options_for(written(samples(kUneven), "uneven.npz"), 3);
  for (int devices : {2, 3})
    for (const char* search : {"data-parallel", "model-parallel", "soybean", "exact"})
      expect_as_serial(mlp(7, devices, search), options);
}

// The classes split, the samples split, and each the other way in the backward pass; labels counted in shards and
// whole.
TEST(IgnoredLabels, ParallelEqualsSerialByEveryStrategy) {
  const TrainOptions options = options_for(written(samples(kUneven), "pinned.npz"), 3);
  for (const char* loss : {"j", "b.0", "replicate"})
    for (const char* gradient : {"j", "b.0", "replicate"})
      for (const char* count : {"b.0", "replicate"}) {
        SCOPED_TRACE(fmt::format("loss {}, gradient {}, count {}", loss, gradient, count));
        Request request = mlp(7, 3, "data-parallel");
        request.pin_file = file_named("pins.json");
        write_file(request.pin_file,
                   fmt::format(R"({{"meshes": {{"m": {{"extents": [3], "devices": [0, 1, 2]}}}}, "ops": {{)"
                               R"("loss": {{"mesh": "m", "strategy": ["{}"]}},)"
                               R"("loss.grad.x": {{"mesh": "m", "strategy": ["{}"]}},)"
                               R"("labels.count": {{"mesh": "m", "strategy": ["{}"]}}}}}})",
                               loss, gradient, count));
        expect_as_serial(request, options);
      }
}

// Made-up labels are ignored here and there, so that any model can be tried.
TEST(IgnoredLabels, AreMadeUp) {
  TrainOptions options;
  options.steps = 3;
  Request request = request_of("zoo:transformer?hidden=24,steps=10,vocabulary=40,layers=1", 3, "data-parallel");
  request.bindings["batch"] = "7";
  const Dataset data = Dataset::synthetic(plan(request).training, 1);
  const std::vector<int64_t>& labels = data.array("labels").integer;
  const auto ignored = static_cast<double>(std::count(labels.begin(), labels.end(), -100));
  EXPECT_NEAR(ignored / static_cast<double>(labels.size()), 0.25, 0.1);
  expect_as_serial(request, options);
  request.search = "model-parallel";
  expect_as_serial(request, options);
  for (const char* search : {"data-parallel", "model-parallel"}) {
    request.dtype = DType::kBFloat16;
    request.search = search;
    EXPECT_LE(*compared(request, options).first_loss_error_vs_serial, 2 * epsilon_of(DType::kBFloat16));
  }
}

// ---------------------------------------------------------------- refusals, and the accuracy

TEST(IgnoredLabels, AreSaidToBePossible) {
  auto refused = [&](const char* loss, int64_t label) {
    Request request = mlp(7, 1, "single");
    request.loss = loss;
    std::vector<int64_t> labels{0, 1, 2, 3, 4, 0, 1};
    labels[4] = label;
    return error_of([&] { train(plan(request), options_for(written(samples(labels), "refused.npz"), 1), kernels()); });
  };
  auto expect_says = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const std::string plain = refused("cross_entropy", -100);
  expect_says(plain, "array 'labels' has -100 at [4]; the model takes 0 to 4");
  expect_says(plain, "labels of -100 are left out by --loss masked_cross_entropy");
  EXPECT_EQ(refused("cross_entropy", -1).find("masked"), std::string::npos);
  for (int64_t label : {int64_t{-1}, kClasses, int64_t{-99}, int64_t{100}})
    expect_says(
        refused(kMasked, label),
        fmt::format("array 'labels' has {} at [4]; the model takes 0 to 4, and -100 for what does not count", label));
  EXPECT_EQ(refused(kMasked, -100), "no error");
}

// Ten samples in batches of four: five are labelled right, two wrong, three not at all.
TEST(IgnoredLabels, AreNotCountedInTheAccuracy) {
  Request request = mlp(4, 2, "data-parallel");
  request.optimizer.lr = 0;
  const Planned planned = plan(request);
  std::vector<int64_t> labels;
  const Arrays given = samples(std::vector<int64_t>(12, 0));
  const Graph evaluation = evaluation_graph(planned.forward);
  for (int64_t first = 0; first < 12; first += 4) {
    Values x{DType::kFloat64, {4, kWidth}, {}, {}};
    const auto row = given.at("x").real.begin() + first * kWidth;
    x.real.assign(row, row + 4 * kWidth);
    const Arrays outputs = run_forward(evaluation, evaluation_plan(evaluation, planned), planned.cluster, {{"x", x}},
                                       {}, TrainOptions().seed, kernels());
    const std::vector<double>& y = outputs.at(evaluation.tensor(evaluation.outputs[0]).name).real;
    for (auto at = y.begin(); at != y.end(); at += kClasses) labels.push_back(std::max_element(at, at + kClasses) - at);
  }
  labels.resize(10);
  for (int i : {0, 6}) labels[i] = (labels[i] + 1) % kClasses;
  for (int i : {3, 4, 9}) labels[i] = -100;
  Arrays test = samples(labels);
  test["x"].real.assign(given.at("x").real.begin(), given.at("x").real.begin() + 10 * kWidth);
  TrainOptions options;
  options.steps = 1;
  options.test_data = written(test, "test.npz");
  EXPECT_DOUBLE_EQ(*train(planned, options, kernels()).test_accuracy, 5.0 / 7);
  options.test_data = written(samples(std::vector<int64_t>(10, -100)), "unlabelled.npz");
  EXPECT_NE(error_of([&] { train(planned, options, kernels()); }).find("all of 'labels' are -100"), std::string::npos);
}

}  // namespace
}  // namespace partita

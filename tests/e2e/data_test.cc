// Tests the samples that a training run reads: just those that each input takes in a step, whatever its first axis is.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "partita/base/testing/error_of.h"
#include "partita/graph/builder.h"
#include "partita/ops/ops.h"
#include "partita/runtime/npz.h"
#include "partita/train/dataset.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

std::string given(const std::string& name) {
  return std::string(PARTITA_SOURCE_DIR) + "/tests/data/cases/labels/" + name;
}

std::string written(const Arrays& arrays) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      fmt::format("{}/data_test/{}.{}", PARTITA_BINARY_DIR, test->test_suite_name(), test->name());
  std::filesystem::create_directories(folder);
  static int number = 0;
  const std::string file = fmt::format("{}/{}.npz", folder, number++);
  write_npz(file, arrays);
  return file;
}

Values floats(Shape shape, double first = 0, double step = 0.25) {
  Values values{DType::kFloat32, std::move(shape), {}, {}};
  for (int64_t i = 0; i < volume(values.shape); ++i) values.real.push_back(first + step * static_cast<double>(i % 11));
  return values;
}

// x [2,4] -> [8,1] -> y [8,3]: the output does not begin with the batch.
Planned rows_model(const std::string& loss, int devices, DType dtype = DType::kFloat32) {
  Request request;
  request.model = given("model.onnx");
  request.loss = loss;
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = "exact";
  request.optimizer.lr = 0;
  Runner runner;
  return plan_model(request, runner);
}

std::vector<double> losses(const Planned& planned, const std::string& file, int64_t steps) {
  TrainOptions options;
  options.data = file;
  options.steps = steps;
  return train(planned, options, kernels()).losses;
}

// y[i, j] = x[i], whose mean loss against labels is a formula.
double mean_square(const Values& x, const Values& labels, int64_t batch) {
  double sum = 0;
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 3; ++j) sum += std::pow(x.real[8 * batch + i] - labels.real[24 * batch + 3 * i + j], 2);
  return sum / 24;
}

TEST(Labels, HaveTheOutputsShape) {
  const Arrays rows = read_arrays(given("rows8.npz"));
  for (const int devices : {1, 3}) {
    const Planned p = rows_model("mse", devices);
    for (const double loss : losses(p, given("rows8.npz"), 3))
      EXPECT_NEAR(loss, mean_square(rows.at("x"), rows.at("labels"), 0), 1e-5);
    EXPECT_NE(error_of([&] {
                losses(p, given("batch2.npz"), 1);
              }).find("array 'labels' has 2 rows, which are not whole batches of 8"),
              std::string::npos);
  }
}

// Two batches: samples and labels stay together, in whatever order the batches come.
TEST(Labels, StayWithTheirBatch) {
  const Arrays arrays{{"x", floats({4, 4})}, {"labels", floats({16, 3}, 1, -0.5)}};
  const double first = mean_square(arrays.at("x"), arrays.at("labels"), 0),
               second = mean_square(arrays.at("x"), arrays.at("labels"), 1);
  ASSERT_GT(std::abs(first - second), 1e-3);
  const std::vector<double> seen = losses(rows_model("mse", 2), written(arrays), 8);
  int firsts = 0;
  for (const double loss : seen) {
    EXPECT_LT(std::min(std::abs(loss - first), std::abs(loss - second)), 1e-5);
    firsts += std::abs(loss - first) < 1e-5;
  }
  EXPECT_EQ(firsts, 4);  // each once an epoch
}

TEST(Labels, OfEveryLossAreCheckedAlike) {
  Values classes{DType::kInt64, {8}, {}, {0, 1, 2, 0, 1, 2, 0, 1}}, too_few{DType::kInt64, {2}, {}, {0, 1}};
  const Arrays x{{"x", floats({2, 4})}};
  auto with = [&](const Values& labels) {
    Arrays arrays = x;
    arrays["labels"] = labels;
    return written(arrays);
  };
  // Equal logits: log 3, whatever the class.
  EXPECT_NEAR(losses(rows_model("cross_entropy", 2), with(classes), 1)[0], std::log(3.0), 1e-5);
  EXPECT_TRUE(std::isfinite(losses(rows_model("bce_with_logits", 2), with(floats({8, 3}, 0, 0.05)), 1)[0]));
  EXPECT_TRUE(std::isfinite(losses(rows_model("elementwise", 2), written(x), 1)[0]));
  for (const auto& [loss, labels] : {std::pair<std::string, Values>{"cross_entropy", too_few},
                                     {"bce_with_logits", floats({2, 3})},
                                     {"mse", floats({2, 3})}})
    EXPECT_NE(error_of([&] { losses(rows_model(loss, 2), with(labels), 1); }).find("'labels'"), std::string::npos)
        << loss;
  EXPECT_NE(error_of([&] {
              losses(rows_model("mse", 1), with(floats({16, 3})), 1);
            }).find("array 'labels' has 2 batches, 'x' has 1"),
            std::string::npos);
}

// Made-up data: the same finite losses each time.
TEST(Labels, AreMadeUpInTheOutputsShape) {
  for (const char* loss : {"mse", "cross_entropy", "bce_with_logits"}) {
    const Planned p = rows_model(loss, 3);
    const std::vector<double> once = losses(p, "", 6), again = losses(p, "", 6);
    EXPECT_EQ(once, again) << loss;
    for (const double value : once) EXPECT_TRUE(std::isfinite(value)) << loss;
  }
}

Loss squares() {
  Loss loss;
  loss.kind = "mse";
  return loss;
}

// x [4, 5] by sample, a mask [5, 5] of each batch, and a number that all batches share.
Graph shared_inputs() {
  GraphBuilder build("shared", standard_ops());
  const TensorId x = build.input("x", {4, 5}), mask = build.input("mask", {5, 5}), scale = build.input("scale", {});
  const TensorId w = build.parameter("w", {5, 5}, 1);
  const TensorId y = build.op("matmul", {x, build.op("mul", {w, mask})});
  return add_backward(build.finish({build.op("mul", {y, scale})}), squares(), Optimizer{});
}

TEST(Inputs, WithoutABatchAxisAreOnesOfEachBatch) {
  const Graph graph = shared_inputs();
  const Arrays arrays{
      {"x", floats({8, 5})}, {"mask", floats({10, 5})}, {"scale", floats({}, 3)}, {"labels", floats({8, 5})}};
  const Dataset data = Dataset::read(written(arrays), graph);
  EXPECT_EQ(data.items(), 2);
  EXPECT_EQ(data.items_a_step(), 1);
  EXPECT_EQ(data.take(graph, graph.find_tensor("x"), {1}).real,
            std::vector<double>(arrays.at("x").real.begin() + 20, arrays.at("x").real.end()));
  EXPECT_EQ(data.take(graph, graph.find_tensor("mask"), {1}).real,
            std::vector<double>(arrays.at("mask").real.begin() + 25, arrays.at("mask").real.end()));
  EXPECT_EQ(data.take(graph, graph.find_tensor("scale"), {1}).real, arrays.at("scale").real);
  EXPECT_EQ(data.take(graph, graph.find_tensor("mask"), {1}, {3, 17}).real,
            std::vector<double>(arrays.at("mask").real.begin() + 28, arrays.at("mask").real.begin() + 42));
  const Dataset made = Dataset::synthetic(graph, 7);
  for (TensorId input : graph.inputs)
    EXPECT_EQ(made.take(graph, input, {made.items() - 1}).shape, graph.tensor(input).shape);
  auto wrong = [&](const char* name, Values values) {
    Arrays other = arrays;
    other[name] = std::move(values);
    return error_of([&] { Dataset::read(written(other), graph); });
  };
  EXPECT_NE(wrong("mask", floats({8, 5})).find("'mask' has 8 rows"), std::string::npos);
  EXPECT_NE(wrong("mask", floats({10})).find("'mask' has shape [10]; the model takes [5, 5] a batch"),
            std::string::npos);
  EXPECT_NE(wrong("scale", floats({3}))
                .find("'scale' has shape [3], the model's input, which has no samples along axis 0, takes []"),
            std::string::npos);
  EXPECT_NE(wrong("labels", floats({4, 5})).find("'labels' has 1 batches"), std::string::npos);
}

// Samples are drawn one by one if all inputs have them in their rows, and as many of each.
TEST(Inputs, AreDrawnBySampleWhereAllHaveThem) {
  GraphBuilder build("by sample", standard_ops());
  const TensorId x = build.input("x", {4, 5}), w = build.parameter("w", {5, 3}, 1);
  const Graph graph = add_backward(build.finish({build.op("matmul", {x, w})}), squares(), Optimizer{});
  const Dataset data = Dataset::read(written({{"x", floats({7, 5})}, {"labels", floats({7, 3})}}), graph);
  EXPECT_EQ(data.items(), 7);
  EXPECT_EQ(data.items_a_step(), 4);
  EXPECT_NE(error_of([&] {
              Dataset::read(written({{"x", floats({7, 5})}, {"labels", floats({6, 3})}}), graph);
            }).find("'labels' has 6 samples, 'x' has 7"),
            std::string::npos);
}

// An output whose samples lie along another axis: rows of its labels are no samples, though there are as many.
TEST(Inputs, AreNotDrawnByRowsThatAreNoSamples) {
  GraphBuilder build("transposed", standard_ops());
  const TensorId x = build.input("x", {4, 5}), w = build.parameter("w", {4, 5}, 1);
  const TensorId y = build.op("matmul", {w, build.op("transpose", {x})});
  const Graph graph = add_backward(build.finish({y}), squares(), Optimizer{});
  EXPECT_EQ(Dataset::synthetic(graph, 1).items_a_step(), 1);
}

}  // namespace
}  // namespace partita

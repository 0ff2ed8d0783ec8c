// Tests batch norm in groups of samples against one batch norm on each group, one after another; on micro-batches; and
// in elementary operations.
#include <gtest/gtest.h>

#include <cmath>

#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/micro_batches.h"
#include "partita/graph/reference.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

constexpr int64_t kBatch = 8, kChannels = 3, kPlaces = 5;

// Batch norm of x [samples, 3, 5] with running statistics, whose outputs are y.
Graph norm_of(int64_t samples, double momentum, decltype(&batch_norm_training) norm = batch_norm_training) {
  GraphBuilder build("norm", standard_ops());
  const auto vector = [&](const char* name, double fill) {
    return build.parameter(name, {kChannels}, 0, fill, DType::kFloat64);
  };
  const TensorId x = build.input("x", {samples, kChannels, kPlaces}, DType::kFloat64), w = vector("w", 1),
                 b = vector("b", 0);
  const TensorId mean = build.state("mean", {kChannels}, 0, DType::kFloat64),
                 variance = build.state("variance", {kChannels}, 1, DType::kFloat64);
  return build.finish({norm(build, x, w, b, mean, variance, 1e-5, momentum, "norm")});
}

std::vector<double> drawn(int64_t count) {
  Rng rng(3);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(4 * rng.uniform() - 1);
  return numbers;
}

// A constant's own mean is not the running mean, which evaluation reads: so the norm is no constant.
TEST(BatchNorm, OfAConstantIsNotComputedBeforehand) {
  GraphBuilder build("norm", standard_ops());
  const auto constant = [&](const char* name, std::vector<double> values) {
    const Shape shape = name == std::string("x") ? Shape{2, 1} : Shape{1};
    return build.constant(name, {.dtype = DType::kFloat64, .shape = shape, .real = std::move(values)});
  };
  const TensorId x = constant("x", {1, 3}), w = constant("w", {2}), b = constant("b", {5});
  const TensorId mean = build.state("mean", {1}, 0, DType::kFloat64),
                 variance = build.state("variance", {1}, 1, DType::kFloat64);
  const TensorId y = batch_norm_training(build, x, w, b, mean, variance, 1e-5, 0.1, "norm");
  const Graph evaluation = evaluation_graph(fold_constants(build.finish({y})));
  const auto id = [&](const char* name) { return evaluation.find_tensor(name); };
  std::map<TensorId, tdl::Array> values{{id("mean"), tdl::real_array({1}, {1})},
                                        {id("variance"), tdl::real_array({1}, {4 - 1e-5})}};
  reference_run(evaluation, values);
  EXPECT_EQ(values.at(evaluation.outputs[0]).reals.size(), 2u);
  EXPECT_NEAR(values.at(evaluation.outputs[0]).reals[0], 5, 1e-12);
  EXPECT_NEAR(values.at(evaluation.outputs[0]).reals[1], 7, 1e-12);  // (x - 1) / 2 * 2 + 5
}

struct Result {
  std::vector<double> y, mean, variance;
};

Result run(const Graph& graph, const std::vector<double>& x, const std::vector<double>& mean,
           const std::vector<double>& variance) {
  const int64_t samples = static_cast<int64_t>(x.size()) / (kChannels * kPlaces);
  const auto id = [&](const char* name) { return graph.find_tensor(name); };
  std::map<TensorId, tdl::Array> values{{id("x"), tdl::real_array({samples, kChannels, kPlaces}, x)},
                                        {id("w"), tdl::real_array({kChannels}, {1.5, -0.5, 2})},
                                        {id("b"), tdl::real_array({kChannels}, {0.25, 1, -3})},
                                        {id("mean"), tdl::real_array({kChannels}, mean)},
                                        {id("variance"), tdl::real_array({kChannels}, variance)}};
  reference_run(graph, values);
  return {values.at(graph.outputs[0]).reals, values.at(graph.replacement_of(id("mean"))).reals,
          values.at(graph.replacement_of(id("variance"))).reals};
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

// In training, and in evaluation with the running statistics; the gradients are models/fine_test.cc's.
TEST(ElementaryBatchNorm, IsBatchNorm) {
  const std::vector<double> x = drawn(kBatch * kChannels * kPlaces), mean{0.5, -1, 2}, variance{1, 3, 0.25};
  const Graph one = norm_of(kBatch, 0.3), fine = norm_of(kBatch, 0.3, elementary_batch_norm);
  const Result expected = run(one, x, mean, variance), result = run(fine, x, mean, variance);
  expect_near(result.y, expected.y);
  expect_near(result.mean, expected.mean);
  expect_near(result.variance, expected.variance);
  auto evaluated = [&](const Graph& graph) {
    const Graph evaluation = evaluation_graph(graph);
    const auto id = [&](const char* name) { return evaluation.find_tensor(name); };
    std::map<TensorId, tdl::Array> values{{id("x"), tdl::real_array({kBatch, kChannels, kPlaces}, x)},
                                          {id("w"), tdl::real_array({kChannels}, {1.5, -0.5, 2})},
                                          {id("b"), tdl::real_array({kChannels}, {0.25, 1, -3})},
                                          {id("mean"), tdl::real_array({kChannels}, mean)},
                                          {id("variance"), tdl::real_array({kChannels}, variance)}};
    reference_run(evaluation, values);
    return values.at(evaluation.outputs[0]).reals;
  };
  expect_near(evaluated(fine), evaluated(one));
  EXPECT_NE(evaluated(fine), result.y);
  EXPECT_NE(error_of([] { norm_of(1, 0.3, elementary_batch_norm); }), "none");
}

TEST(BatchNormGroups, AreOneNormAfterAnother) {
  const std::vector<double> x = drawn(kBatch * kChannels * kPlaces), mean{0.5, -1, 2}, variance{1, 3, 0.25};
  for (const double momentum : {0.1, 0.7, 1.0, 0.0})
    for (const int64_t groups : {2, 4, 8}) {
      SCOPED_TRACE(fmt::format("{} groups, momentum {}", groups, momentum));
      const Graph one = norm_of(kBatch / groups, momentum);
      Result expected{{}, mean, variance};
      const std::ptrdiff_t each = kBatch / groups * kChannels * kPlaces;
      for (int64_t g = 0; g < groups; ++g) {
        const Result r = run(one, std::vector<double>(x.begin() + g * each, x.begin() + (g + 1) * each), expected.mean,
                             expected.variance);
        expected.y.insert(expected.y.end(), r.y.begin(), r.y.end());
        expected.mean = r.mean, expected.variance = r.variance;
      }
      const Result all = run(with_batch_norm_groups(norm_of(kBatch, momentum), groups), x, mean, variance);
      expect_near(all.y, expected.y);
      expect_near(all.mean, expected.mean);
      expect_near(all.variance, expected.variance);
    }
}

TEST(BatchNormGroups, OfOneAreTheWholeBatch) {
  const Graph graph = norm_of(kBatch, 0.1);
  EXPECT_EQ(print(with_batch_norm_groups(graph, 1)), print(graph));
}

TEST(BatchNormGroups, AreEvaluatedAsBefore) {
  const Graph graph = norm_of(kBatch, 0.1);
  EXPECT_EQ(print(evaluation_graph(with_batch_norm_groups(graph, 4))), print(evaluation_graph(graph)));
}

TEST(BatchNormGroups, AreRefusedByName) {
  const auto error = [](int64_t groups) {
    return error_of([&] { with_batch_norm_groups(norm_of(kBatch, 0.1), groups); });
  };
  EXPECT_EQ(error(3),
            "--batch-norm-groups 3: the 8 samples of batch_norm 'norm' are not 3 equal groups; use a divisor of 8");
  EXPECT_EQ(error(0), "--batch-norm-groups 0: a batch has one group or more");
  GraphBuilder build("rows", standard_ops());
  const TensorId x = build.input("x", {4, 1}), w = build.parameter("w", {1});
  const Graph rows =
      build.finish({batch_norm_training(build, x, w, w, build.state("m", {1}, 0), build.state("v", {1}, 1))});
  EXPECT_EQ(error_of([&] { with_batch_norm_groups(rows, 4); }),
            "batch_norm 'batch_norm': one value a channel has no variance (input [4x1] in 4 groups)");
  GraphBuilder none("none", standard_ops());
  const Graph plain = none.finish({none.op("relu", {none.input("x", {4, 2})})});
  EXPECT_EQ(error_of([&] { with_batch_norm_groups(plain, 2); }), "--batch-norm-groups: model 'none' has no batch norm");
}

// ---------------------------------------------------------------- micro-batches

Graph training(int64_t groups) {
  Graph forward = with_batch_norm_groups(norm_of(kBatch, 0.1), groups);
  Loss loss;
  loss.kind = "mse";
  return add_backward(forward, loss, {});
}

TEST(BatchNormGroups, StayInOnePart) {
  const Graph four = training(4);
  for (const auto& [parts, runs] : {std::pair{2, std::vector<int64_t>{2, 2}}, {3, {2, 1, 1}}, {4, {1, 1, 1, 1}}}) {
    const Graph graph = in_micro_batches(four, parts);
    EXPECT_EQ(graph.micro_batch_samples, runs);  // of two samples each
    EXPECT_EQ(runs_of_batch(graph), 4);
    EXPECT_EQ(graph.tensor(graph.find_tensor("x")).micro_batch_inner, 2);
    EXPECT_EQ(graph.tensor(graph.find_tensor("x")).shape[0], 2 * runs[0]);
    const Tensor& terms = graph.tensor(graph.find_tensor("norm.running_mean.groups"));
    EXPECT_EQ(terms.scope, MicroBatchScope::kSum);
    EXPECT_TRUE(terms.accumulated);
    EXPECT_FALSE(graph.op(graph.find_op("norm.running_mean")).per_micro_batch);
  }
  EXPECT_EQ(in_micro_batches(training(8), 4).micro_batch_samples, (std::vector<int64_t>{2, 2, 2, 2}));
}

TEST(BatchNormGroups, FewerThanPartsAreRefused) {
  for (const int64_t groups : {1, 2})
    EXPECT_EQ(
        error_of([&] { in_micro_batches(training(groups), 4); }),
        fmt::format("micro-batches: op 'norm' (batch_norm{}) cannot act on a part of the batch of 'x' (8 samples "
                    "in 4 parts): it mixes samples, or has them along no axis of its own (docs/inside/TDL.md rules 10 "
                    "to 18); use --batch-norm-groups micro, or another multiple of 4, or --micro-batches 1",
                    groups == 1 ? "" : "_in_groups"));
}

}  // namespace
}  // namespace partita

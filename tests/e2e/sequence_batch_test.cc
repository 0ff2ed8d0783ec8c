// Tests samples as an inner digit of an axis (sequence x batch), in micro-batches and stages, against one device and
// PyTorch; and batch norm that has only the batch's statistics.
#include <gtest/gtest.h>

#include <cstdio>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/graph/builder.h"
#include "partita/graph/micro_batches.h"
#include "partita/ops/ops.h"
#include "partita/plan/check.h"
#include "partita/plan/rules.h"
#include "partita/runtime/npz.h"
#include "partita/schedule/lower.h"
#include "partita/train/dataset.h"
#include "partita/train/forward.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

const std::string kData = PARTITA_SOURCE_DIR "/tests/data/";

struct Case {
  std::string file, search;  // file: in tests/data
  int devices = 4, micro_batches = 1, batch = 8;
  std::string recompute = "none";
  double lr = 0.1, momentum = 0;
};

Planned planned(const Case& c) {
  Request request;
  request.model = kData + c.file;
  request.bindings["batch"] = std::to_string(c.batch);
  request.dtype = DType::kFloat64;
  request.cluster = fmt::format("local:{}", c.devices);
  request.search = c.search;
  request.micro_batches = c.micro_batches;
  request.recompute = c.recompute;
  request.loss = "mse";
  request.optimizer = {"sgd", c.lr, c.momentum, 0};
  Runner runner;
  return plan_model(request, runner);
}

std::string text_of(const Case& c) {
  return fmt::format("{} --batch {} --devices {} --micro-batches {} --search {} --recompute {}", c.file, c.batch,
                     c.devices, c.micro_batches, c.search, c.recompute);
}

const char* const kFiles[] = {"relu_encoder.onnx", "cases/time_first/model.onnx"};

TEST(SequenceTimesBatch, InMicroBatches) {
  for (const char* file : kFiles)
    for (const Case& c : {Case{.file = file, .search = "single", .devices = 1, .micro_batches = 4},
                          {.file = file, .search = "single", .devices = 1, .micro_batches = 3, .batch = 11},
                          {.file = file, .search = "data-parallel", .micro_batches = 2},
                          {.file = file, .search = "soybean", .micro_batches = 2},
                          {.file = file, .search = "tofu", .micro_batches = 4},
                          {.file = file, .search = "fsdp", .devices = 2, .micro_batches = 2, .recompute = "layer"},
                          {.file = file, .search = "pipeline?stages=2", .micro_batches = 4},
                          {.file = file, .search = "pipeline?stages=2", .devices = 2, .micro_batches = 3, .batch = 8},
                          {.file = file, .search = "pipeline?stages=2,schedule=interleaved", .micro_batches = 4},
                          {.file = file, .search = "megatron?tensor=2,pipeline=2", .micro_batches = 2}}) {
      SCOPED_TRACE(text_of(c));
      const Planned p = planned(c);
      EXPECT_EQ(p.training.micro_batches(), c.micro_batches);
      train_as_serial(p, text_of(c));
    }
}

// Samples are cut out of the inside of an axis: 40 = 5 x 8 samples are 5 x 4 in each of two micro-batches.
TEST(SequenceTimesBatch, IsCutInside) {
  const Planned p =
      planned({.file = "cases/time_first/model.onnx", .search = "single", .devices = 1, .micro_batches = 2});
  const Graph& whole = p.training.whole_graph();
  int inside = 0;
  for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
    if (p.training.tensors[t].scope != MicroBatchScope::kMicroBatch) continue;
    const MicroBatchAxis place = micro_batch_axis_of(p.training, TensorId(t));
    const std::size_t axis = static_cast<std::size_t>(place.axis);
    EXPECT_EQ(whole.tensors[t].shape[axis], 8 * place.outer * place.inner) << whole.tensors[t].name;
    EXPECT_EQ(p.training.tensors[t].shape[axis], 4 * place.outer * place.inner) << whole.tensors[t].name;
    inside += place.outer == 5;
  }
  EXPECT_GT(inside, 4);
}

// ---------------------------------------------------------------- outputs that do not begin with samples

LoadedModel model_of(GraphBuilder& b, TensorId y) {
  LoadedModel model;
  model.forward = b.finish({y});
  model.loss.kind = "mse";
  return model;
}

// [8 samples, 5, 4] through two layers of [5, 8 samples, 4], or of rows whose inner digit is the samples.
TensorId sequence_first(GraphBuilder& b, bool rows) {
  TensorId x = b.op("transpose", {b.input("x", {8, 5, 4})}, {{"perm.0", 1}, {"perm.1", 0}, {"perm.2", 2}});
  if (rows) x = b.op("reshape", {x}, {{"shape.0", 40}, {"shape.1", 4}});
  const TensorId inner = b.op("tanh", {b.op("linear", {x, b.parameter("v", {4, 6}, 0.5)})});
  return b.op("tanh", {b.op("linear", {inner, b.parameter("w", {6, 3}, 0.5)})});
}

Planned planned(const LoadedModel& model, const std::string& search, int devices, int micro_batches) {
  Request request;
  request.dtype = DType::kFloat64;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  request.micro_batches = micro_batches;
  Runner runner;
  return plan_graph(in_dtype(model, DType::kFloat64), request, runner);
}

// Labels lie as their output does: along axis 1, or inside one.
TEST(SequenceTimesBatch, OutputsThatDoNotBeginWithSamples) {
  for (const bool flat : {true, false}) {
    GraphBuilder b("g", standard_ops());
    const LoadedModel model = model_of(b, sequence_first(b, flat));
    for (const auto& [search, devices, parts] :
         {std::tuple{"single", 1, 4}, {"single", 1, 3}, {"data-parallel", 2, 2}, {"pipeline?stages=2", 2, 4}}) {
      const std::string text = fmt::format("{} with {} in {} parts", flat ? "rows" : "sequence first", search, parts);
      SCOPED_TRACE(text);
      const Planned p = planned(model, search, devices, parts);
      const Graph& whole = p.training.whole_graph();
      EXPECT_EQ(whole.tensor(whole.find_tensor("labels")).sample_axis, flat ? -1 : 1);
      train_as_serial(p, text);
    }
    const Planned p = planned(model, "data-parallel", 2, 2);
    Runner runner;
    const Evaluation e = evaluation(p, runner);
    Rng rng(3);
    const Graph& forward = e.graph.whole_graph();
    const Arrays inputs{{"x", drawn_values(forward, forward.inputs[0], {8, 5, 4}, rng)}};
    const Cluster one = load_cluster("local:1");
    const Arrays parts = run_forward(e.graph, e.plan, p.cluster, inputs, {}, 7, kernels()),
                 all = run_forward(forward, single_plan(forward, one), one, inputs, {}, 7, kernels());
    EXPECT_LE(relative_error(parts.begin()->second, all.begin()->second), 1e-12);
  }
}

// A constant that is read micro-batch by micro-batch may be kept in shards, which are gathered for each.
TEST(ConstantsInParts, MayBeKeptSplit) {
  GraphBuilder b("g", standard_ops());
  Values mask{.dtype = DType::kFloat32, .shape = {8, 4}, .real = std::vector<double>(32, 0.5)};
  const TensorId x = b.op("add", {b.input("x", {8, 4}), b.constant("mask", std::move(mask))});
  const Planned p = planned(model_of(b, b.op("linear", {x, b.parameter("w", {4, 3}, 0.5)})), "data-parallel", 2, 2);
  Plan plan = p.plan;
  const TensorId id = p.training.find_tensor("mask");
  ASSERT_EQ(p.training.tensor(id).scope, MicroBatchScope::kMicroBatch);
  plan.kept[id] = {Mesh{{2}, {DeviceId(0), DeviceId(1)}}, {Sbp::split(1)}, {}};
  check(p.training, plan, p.cluster);
  Planned split = p;
  split.plan = plan;
  split.physical = lower(p.training, plan, p.cluster);
  train_as_serial(split, "mask in pieces");
}

// A sum of earlier values reads nothing of one value. It is not taken for an operand that all micro-batches read whole.
TEST(MicroBatchesOfParameters, AreRefusedInWords) {
  EXPECT_NE(error_of([] {
              planned({.file = "cases/no_gradient_cumsum/model.onnx", .search = "single", .micro_batches = 2});
            }).find("op 't18' (cumsum) cannot act on a part of the batch"),
            std::string::npos);
}

// A plan that keeps rows of several samples and places together is refused, with what to write.
TEST(SequenceTimesBatch, IsNotKeptSplitAsOne) {
  GraphBuilder b("g", standard_ops());
  const Planned p = planned(model_of(b, sequence_first(b, true)), "data-parallel", 2, 2);
  Plan plan = p.plan;
  plan.kept[p.training.ops[2].results[0]] = {Mesh{{2}, {DeviceId(0), DeviceId(1)}}, {Sbp::split(0)}, {}};
  const std::string error = error_of([&] { check(p.training, plan, p.cluster); });
  EXPECT_NE(error.find("axis 0 has samples inside 5 others, and is split across them; give it the radices [5, 4]"),
            std::string::npos)
      << error;
}

// ---------------------------------------------------------------- against PyTorch

// Three steps of PyTorch's: losses, and weights and statistics afterwards.
void expect_pytorchs(const Case& c) {
  SCOPED_TRACE(text_of(c));
  const std::string folder = kData + c.file.substr(0, c.file.rfind('/'));
  const Arrays expected = read_arrays(folder + "/ref.npz");
  TrainOptions options;
  options.data = folder + "/in.npz";
  options.shuffle = false;
  options.steps = 3;
  const TrainReport report = train(planned(c), options, kernels());
  ASSERT_EQ(report.losses.size(), 3u);
  double worst = 0;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(report.losses[i] / expected.at("losses").real[i], 1, 1e-7);
  for (const auto& [name, value] : expected) {
    if (name == "losses") continue;
    ASSERT_TRUE(report.weights.contains(name)) << name;
    worst = std::max(worst, relative_error(report.weights.at(name), value));
  }
  std::printf("%s: weights %.1e from PyTorch's\n", text_of(c).c_str(), worst);
  EXPECT_LE(worst, 1e-7);  // the file has roots of float32 numbers
}

TEST(SequenceTimesBatch, TrainsAsPyTorch) {
  for (const Case& c : {Case{.search = "single", .devices = 1, .micro_batches = 2},
                        {.search = "data-parallel", .micro_batches = 2},
                        {.search = "pipeline?stages=2", .devices = 2, .micro_batches = 4}}) {
    Case of = c;
    of.file = "cases/time_first/model.onnx";
    expect_pytorchs(of);
  }
}

// Batch norm without running statistics: those of the batch, on one device and on several, in evaluation too.
TEST(BatchNormOfTheBatch, TrainsAsPyTorch) {
  for (const Case& c : {Case{.search = "single", .devices = 1},
                        {.search = "data-parallel", .devices = 3},
                        {.search = "soybean", .devices = 2}}) {
    Case of = c;
    of.file = "cases/batch_norm_of_batch/model.onnx";
    of.batch = 6;
    expect_pytorchs(of);
  }
}

TEST(BatchNormOfTheBatch, MixesSamples) {
  EXPECT_NE(
      error_of([] {
        planned({.file = "cases/batch_norm_of_batch/model.onnx", .search = "single", .micro_batches = 2, .batch = 6});
      }).find("cannot act on a part of the batch of"),
      std::string::npos);
  EXPECT_NE(error_of([] {
              planned({.file = "cases/batch_norm_of_batch/model.onnx", .search = "single", .batch = 12});
            }).find("reduces over the samples; the file was exported for a batch of 6"),
            std::string::npos);
}

}  // namespace
}  // namespace partita

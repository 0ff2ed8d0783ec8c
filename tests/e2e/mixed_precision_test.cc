// Tests float16 and bfloat16 with float32 weights: the dtype of each operation, parallel against serial, loss scaling,
// memory, and the same training by PyTorch's autocast (tests/data/make_autocast.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "partita/base/output_file.h"
#include "partita/base/testing/error_of.h"
#include "partita/models/models.h"
#include "partita/ops/ops.h"
#include "partita/runtime/npz.h"
#include "partita/runtime/weights.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

Request request_of(const std::string& model, DType dtype, int devices = 1, const std::string& search = "data-parallel",
                   const std::string& batch = "24") {
  Request request;
  request.model = model;
  request.bindings["batch"] = batch;
  request.dtype = dtype;
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  return request;
}

Planned plan(const Request& request) {
  Runner runner;
  return plan_model(request, runner);
}

TrainReport trained(const Planned& planned, int64_t steps) {
  TrainOptions options;
  options.steps = steps;
  return train(planned, options, kernels());
}

const Op& op_named(const Graph& graph, const std::string& name) {
  const OpId id = graph.find_op(name);
  EXPECT_TRUE(id.valid()) << name;
  return graph.op(id);
}

// Weights, their gradients as they are used, the optimizer's states and the loss are float32; a weight is cast once a
// step.
TEST(MixedPrecision, WhatRunsInWhat) {
  Request request = request_of("zoo:transformer?hidden=24,steps=10,vocabulary=40,layers=1", DType::kBFloat16);
  request.optimizer = {"adamw", 0.01, 0, 0.1};
  const Planned p = plan(request);
  const Graph& g = p.training;
  int products = 0, updates = 0, low = 0;
  for (const Tensor& t : g.tensors) {
    if (!t.producer.valid() && is_float(t.dtype)) {
      EXPECT_EQ(t.dtype, DType::kFloat32) << t.name;
    }
    low += t.dtype == DType::kBFloat16;
  }
  for (const Op& op : g.ops) {
    auto dtype = [&](TensorId id) { return g.tensor(id).dtype; };
    if (op.definition == "linear" || op.definition.starts_with("matmul")) {
      ++products;
      for (TensorId id : op.operands) EXPECT_EQ(dtype(id), DType::kBFloat16) << op.name;
      EXPECT_EQ(dtype(op.results[0]), DType::kBFloat16) << op.name;
    }
    if (op.definition == "softmax" || op.definition == "layer_norm" || op.definition == "cross_entropy" ||
        op.definition == "layer_norm_grad" || op.definition == "square_sum") {
      for (TensorId id : op.operands)
        EXPECT_TRUE(dtype(id) == DType::kFloat32 || dtype(id) == DType::kInt64) << op.name;
    }
    if (op.definition == "adamw") {
      ++updates;
      for (TensorId id : op.operands)
        EXPECT_TRUE(dtype(id) == DType::kFloat32 || dtype(id) == DType::kInt64) << op.name;
    }
  }
  EXPECT_GT(products, 10);
  EXPECT_GT(updates, 10);
  EXPECT_GT(low, 30);
  EXPECT_EQ(g.tensor(g.loss).dtype, DType::kFloat32);
  const auto read_by = readers_by_tensor(g);
  for (std::size_t i = 0; i < g.tensors.size(); ++i) {
    if (g.tensors[i].role != Role::kParameter) continue;
    int casts = 0;
    for (const partita::Reader& r : read_by[i]) casts += g.op(r.op).definition == "cast";
    EXPECT_LE(casts, 1) << g.tensors[i].name;
  }
  // As text and back.
  const auto registry = standard_ops();
  EXPECT_EQ(print(parse_graph(print(g), registry)), print(g));
  // A batch norm keeps its input's dtype, and its statistics in float32.
  const Planned cnn = plan(request_of("zoo:resnet-18?image=32", DType::kFloat16));
  const Op& norm = op_named(cnn.training, "bn1");
  EXPECT_EQ(cnn.training.tensor(norm.results[0]).dtype, DType::kFloat16);
  EXPECT_EQ(cnn.training.tensor(norm.results[1]).dtype, DType::kFloat32);
  EXPECT_EQ(cnn.training.tensor(norm.operands[1]).dtype, DType::kFloat32);
}

// The distance of two runs' moves of all parameters together, relative to the length of the move of `b`.
double apart(const Graph& graph, const std::map<std::string, Values>& a, const std::map<std::string, Values>& b) {
  double difference = 0, moved = 0;
  for (const Tensor& t : graph.tensors) {
    if (t.role != Role::kParameter) continue;
    const Values start = initial_values(t, TrainOptions().seed);
    const std::vector<double>&x = a.at(t.name).real, &y = b.at(t.name).real;
    for (std::size_t i = 0; i < y.size(); ++i) {
      difference += (x[i] - y[i]) * (x[i] - y[i]);
      moved += (y[i] - start.real[i]) * (y[i] - start.real[i]);
    }
  }
  return std::sqrt(difference / moved);
}

// One device rounds a sum, another rounds its term of it. So an element is off by a unit of its last place, 2^-7 of it
// in bfloat16 and 2^-10 in float16. A gradient is a sum of products of such elements, with errors of both signs.
// Weights are float32 and move by lr times the gradient. All together they are off by some units of their move. `bound`
// says how much, of epsilon.
void expect_parallel_equals_serial(const std::string& model, int64_t steps,
                                   const std::function<double(double epsilon)>& bound) {
  std::map<DType, SerialRun> serial;
  TrainOptions options;
  options.steps = steps;
  for (const auto& [dtype, devices, search] : {std::tuple{DType::kBFloat16, 3, "data-parallel"},
                                               {DType::kBFloat16, 3, "soybean"},
                                               {DType::kBFloat16, 8, "model-parallel"},
                                               {DType::kFloat16, 8, "data-parallel"},
                                               {DType::kFloat16, 3, "soybean"}}) {
    SCOPED_TRACE(fmt::format("{} in {} with {} on {} devices", model, name_of(dtype), search, devices));
    const Planned p = plan(request_of(model, dtype, devices, search));
    if (!serial.contains(dtype)) serial[dtype] = train_serial(p.training, options, kernels());
    TrainReport report = train(p, options, kernels());
    compare_with(serial[dtype], report);
    const double off = apart(p.training, report.weights, serial[dtype].weights);
    std::printf("%-50s %-8s %-14s %d devices: losses %.2e, weights %.2e, of their move %.2e\n", model.c_str(),
                std::string(name_of(dtype)).c_str(), search, devices, *report.max_loss_error_vs_serial,
                *report.max_error_vs_serial, off);
    EXPECT_LE(*report.max_loss_error_vs_serial, 2 * epsilon_of(dtype));
    EXPECT_LE(off, bound(epsilon_of(dtype)));
    for (int d = 0; d < devices; ++d) EXPECT_LE(report.peak_bytes[d], p.physical.peak_bytes[d]);
  }
}

double two_units(double epsilon) { return 2 * epsilon; }
// A rounding may put a value on the other side of a ReLU's 0, or make another the largest of its window. Then a
// gradient is gone, or elsewhere. The share of such values goes with epsilon, so the length of the difference goes with
// its root.
double root(double epsilon) { return std::sqrt(epsilon); }

TEST(MixedPrecision, ParallelEqualsSerialMlp) {
  expect_parallel_equals_serial("zoo:mlp?layers=3,width=20", 3, two_units);
}
TEST(MixedPrecision, ParallelEqualsSerialLeNet) { expect_parallel_equals_serial("zoo:lenet", 3, root); }
TEST(ManyMixedPrecision, ParallelEqualsSerialTransformer) {
  expect_parallel_equals_serial("zoo:transformer?hidden=24,steps=10,vocabulary=40", 3, two_units);
}
// Many layers deep; and one step, as each multiplies the difference, in float32 too.
TEST(LongMixedPrecision, ParallelEqualsSerialResNet18) {
  expect_parallel_equals_serial("zoo:resnet-18?image=32", 1, [](double epsilon) { return 6 * root(epsilon); });
}

// The first step's gradients are those of float32, except for roundings.
TEST(MixedPrecision, GradientsAreThoseOfFloat32) {
  for (const auto& [model, bound] : {std::pair{"zoo:mlp?layers=3,width=20", &two_units},
                                     {"zoo:lenet", &root},
                                     {"zoo:rnnlm?steps=4,hidden=10,vocabulary=7", &two_units},
                                     {"zoo:transformer?hidden=24,steps=10,vocabulary=40", &two_units}}) {
    const TrainReport wide = trained(plan(request_of(model, DType::kFloat32)), 1);
    for (DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      const Planned p = plan(request_of(model, dtype));
      const TrainReport low = trained(p, 1);
      const double off = apart(p.training, low.weights, wide.weights);
      std::printf("%-50s %-8s against float32: loss %.2e, weights %.2e of their move\n", model,
                  std::string(name_of(dtype)).c_str(), std::abs(low.losses[0] / wide.losses[0] - 1), off);
      EXPECT_LE(std::abs(low.losses[0] / wide.losses[0] - 1), epsilon_of(dtype)) << model;
      EXPECT_LE(off, bound(epsilon_of(dtype))) << model << " in " << name_of(dtype);
      EXPECT_GT(off, 0.01 * epsilon_of(dtype)) << model << " in " << name_of(dtype);  // something was rounded
    }
  }
}

// A power of two moves only exponents: weights come out the same to the bit. Inside float16 it saves small gradients;
// beyond its largest number the program says so.
TEST(MixedPrecision, LossScale) {
  Request request = request_of("zoo:mlp?layers=3,width=20", DType::kBFloat16);
  request.optimizer = {"adam", 0.01, 0, 0.01, 0.5};
  const TrainReport plain = trained(plan(request), 3);
  request.loss_scale = 256;
  const Planned scaled = plan(request);
  EXPECT_EQ(scaled.training.outputs.size(), 2u);
  EXPECT_EQ(scaled.plan.model.loss_scale, 256);
  const TrainReport report = trained(scaled, 3);
  EXPECT_EQ(report.losses, plain.losses);
  EXPECT_EQ(report.weights, plain.weights);

  request.dtype = DType::kFloat16;
  request.loss_scale.reset();
  const Planned half = plan(request);
  EXPECT_EQ(half.plan.model.loss_scale, 1024);
  for (double loss : trained(half, 3).losses) EXPECT_TRUE(std::isfinite(loss));
  for (int devices : {1, 3}) {
    request.cluster = fmt::format("local:{}", devices);
    request.loss_scale = 1e9;
    EXPECT_NE(error_of([&] { trained(plan(request), 3); }).find("the gradients of step 1 are not finite"),
              std::string::npos);
  }
  request.loss_scale = -1;
  EXPECT_NE(error_of([&] { plan(request); }).find("the loss is scaled by a positive number, not -1"),
            std::string::npos);
}

TEST(MixedPrecision, APlanKeepsIt) {
  Request request = request_of("zoo:mlp?layers=3,width=20", DType::kFloat16, 3, "soybean");
  const Planned p = plan(request);
  const std::string text = print(p.plan, p.training);
  EXPECT_EQ(parse_plan(text, p.training), p.plan);
  const ModelReference model = parse_model_reference(text);
  EXPECT_EQ(model.dtype, DType::kFloat16);
  EXPECT_EQ(model.loss_scale, 1024);
  Runner runner;
  const std::string path = fmt::format("{}/mixed_plan.json", PARTITA_BINARY_DIR);
  write_file(path, text);
  EXPECT_EQ(open_plan(path, runner).plan, p.plan);
  std::string other = text;
  const std::size_t at = other.find("\"dtype\":\"float16\"");
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 17, "\"dtype\":\"float32\"");
  write_file(path, other);
  EXPECT_NE(error_of([&] { open_plan(path, runner); }), "no error");  // another graph
}

// Weights: four bytes, and two for the step's copy. Activations kept for the backward pass: two in place of four.
TEST(MixedPrecision, Memory) {
  const std::string model = "zoo:mlp?layers=4,width=256";
  const Planned wide = plan(request_of(model, DType::kFloat32, 1, "single", "4096")),
                low = plan(request_of(model, DType::kBFloat16, 1, "single", "4096"));
  auto bytes_of_register = [](const Planned& p, const std::string& tensor) {
    int64_t bytes = 0;
    for (const Register& r : p.physical.registers)
      if (r.tensor.valid() && r.device.value == 0 && p.training.tensor(r.tensor).name == tensor) bytes += r.bytes;
    return bytes;
  };
  EXPECT_EQ(bytes_of_register(low, "fc1.weight"), bytes_of_register(wide, "fc1.weight"));
  EXPECT_EQ(2 * bytes_of_register(low, "fc1.weight.bfloat16"), bytes_of_register(wide, "fc1.weight"));
  EXPECT_EQ(2 * bytes_of_register(low, "fc1"), bytes_of_register(wide, "fc1"));
  std::printf("peak: float32 %lld, bfloat16 %lld bytes\n", static_cast<long long>(wide.peak_memory_bytes()),
              static_cast<long long>(low.peak_memory_bytes()));
  EXPECT_LT(low.peak_memory_bytes(), 0.75 * static_cast<double>(wide.peak_memory_bytes()));
  // Half the bytes move between devices: partial sums of activations are bfloat16.
  const Planned wide3 = plan(request_of(model, DType::kFloat32, 4, "model-parallel", "4096")),
                low3 = plan(request_of(model, DType::kBFloat16, 4, "model-parallel", "4096"));
  EXPECT_LT(low3.report.comm_bytes, 0.6 * static_cast<double>(wide3.report.comm_bytes));
}

// Five steps of SGD under torch.autocast(bfloat16): the same lists of operations, another order of sums.
void expect_autocast(const std::string& name, double tolerance, std::size_t steps = 5) {
  const Arrays reference = read_arrays(fmt::format("{}/tests/data/{}-reference.npz", PARTITA_SOURCE_DIR, name));
  const Arrays autocast = read_arrays(fmt::format("{}/tests/data/autocast.npz", PARTITA_SOURCE_DIR));
  std::vector<double> expected = autocast.at(name).real;
  ASSERT_GE(expected.size(), steps);
  expected.resize(steps);
  for (int devices : {1, 3}) {
    Request request = request_of(fmt::format("{}/tests/data/{}.onnx", PARTITA_SOURCE_DIR, name), DType::kBFloat16,
                                 devices, "soybean", std::to_string(reference.at("x").shape[0]));
    request.optimizer = {"sgd", 0.01, 0, 0};
    TrainOptions options;
    options.steps = static_cast<int64_t>(expected.size());
    options.data = fmt::format("{}/tests/data/{}-reference.npz", PARTITA_SOURCE_DIR, name);
    options.shuffle = false;
    const TrainReport report = train(plan(request), options, kernels());
    double worst = 0, plain = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs(report.losses[i] - expected[i]) / expected[i]);
      plain = std::max(plain, std::abs(report.losses[i] - reference.at("losses").real[i]) / expected[i]);
    }
    std::printf("%-8s %d devices: losses off by %.2e from autocast's, by %.2e from float64's\n", name.c_str(), devices,
                worst, plain);
    EXPECT_LE(worst, tolerance);
  }
}

TEST(MixedPrecision, AutocastMlp) { expect_autocast("mlp", 0x1p-10); }
TEST(MixedPrecision, AutocastGpt2) { expect_autocast("gpt2", 0x1p-10); }
// Its loss after some steps is not even near that of float64.
TEST(MixedPrecision, AutocastResNet18) { expect_autocast("resnet18", epsilon_of(DType::kBFloat16), 1); }

}  // namespace
}  // namespace partita

// Tests batch norm with statistics of groups of samples. It equals PyTorch's on the groups one after another, on one
// device and on several, in micro-batches and in stages. Some plans exchange no statistics.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "partita/base/output_file.h"
#include "partita/base/testing/error_of.h"
#include "partita/runtime/npz.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

constexpr const char* kSmall = "zoo:resnet-18?image=32,blocks=1,width=4,stem=cifar,classes=10";

struct Case {
  std::string model = kSmall, search = "single", groups;
  int devices = 1, micro_batches = 1, batch = 8;
  std::string recompute = "none", cluster = {};
  Optimizer optimizer{"sgd", 0.01, 0.9, 0.0};
  DType dtype = DType::kFloat64;
};

std::string text_of(const Case& c) {
  return fmt::format("{} --search {} --devices {} --micro-batches {} --batch {} --batch-norm-groups {} --recompute {}",
                     c.model, c.search, c.devices, c.micro_batches, c.batch, c.groups, c.recompute);
}

Request request_of(const Case& c) {
  Request request;
  request.model = c.model;
  request.bindings["batch"] = std::to_string(c.batch);
  request.optimizer = c.optimizer;
  request.dtype = c.dtype;
  request.cluster = c.cluster.empty() ? fmt::format("local:{}", c.devices) : c.cluster;
  request.search = c.search;
  request.micro_batches = c.micro_batches;
  request.batch_norm_groups = c.groups;
  request.recompute = c.recompute;
  return request;
}

Planned planned(const Case& c) {
  Runner runner;
  return plan_model(request_of(c), runner);
}

// ---------------------------------------------------------------- PyTorch's accumulation

void expect_pytorch(Case c, int parts) {
  c.model = PARTITA_SOURCE_DIR "/tests/data/residual.onnx";
  c.batch = 12;
  SCOPED_TRACE(text_of(c));
  const std::string data = PARTITA_SOURCE_DIR "/tests/data/residual-groups.npz";
  const Arrays expected = read_arrays(data);
  TrainOptions options;
  options.data = data;
  options.shuffle = false;
  options.steps = 5;
  const Planned p = planned(c);
  EXPECT_EQ(p.plan.model.batch_norm_groups, parts);
  const TrainReport report = train(p, options, kernels());
  const Values& losses = expected.at(fmt::format("{}.losses", parts));
  ASSERT_EQ(report.losses.size(), losses.real.size());
  for (std::size_t i = 0; i < losses.real.size(); ++i)
    EXPECT_LE(std::abs(report.losses[i] / losses.real[i] - 1), 1e-9) << "step " << i;
  double worst = 0;
  int statistics = 0;
  const std::string prefix = fmt::format("{}.final.", parts);
  for (const auto& [key, value] : expected) {
    if (!key.starts_with(prefix)) continue;
    const std::string name = key.substr(prefix.size());
    ASSERT_TRUE(report.weights.contains(name)) << name;
    const double error = relative_error(report.weights.at(name), value);
    EXPECT_LE(error, 1e-8) << name;
    worst = std::max(worst, error);
    statistics += name.find("running_") != std::string::npos;
  }
  EXPECT_EQ(statistics, 12);
  std::printf("%s: %.1e from PyTorch after five steps\n", text_of(c).c_str(), worst);
}

TEST(BatchNormGroups, EqualPyTorchsAccumulation) {
  for (const int parts : {2, 3}) {
    expect_pytorch({.groups = std::to_string(parts)}, parts);
    expect_pytorch({.groups = "micro", .micro_batches = parts}, parts);
    expect_pytorch({.search = "data-parallel", .groups = "replica", .devices = parts}, parts);
    expect_pytorch({.search = "pipeline?stages=2", .groups = "replica", .devices = 2, .micro_batches = parts}, parts);
  }
  expect_pytorch({.search = "data-parallel", .groups = "micro", .devices = 2, .micro_batches = 3}, 3);
}

// ---------------------------------------------------------------- parallel equals serial

void expect_serial(const Case& c) {
  SCOPED_TRACE(text_of(c));
  train_as_serial(planned(c), text_of(c));
}

TEST(BatchNormGroups, OnSeveralDevicesAreThoseOfOne) {
  for (const char* groups : {"2", "4", "8"}) {  // some of them split over devices
    expect_serial({.search = "data-parallel", .groups = groups, .devices = 2});
    expect_serial({.search = "data-parallel", .groups = groups, .devices = 4});
  }
  expect_serial({.search = "data-parallel", .groups = "4", .devices = 3});
  for (const char* search : {"zero?stage=1", "zero?stage=3", "owt", "soybean", "exact", "auto"})
    expect_serial({.search = search, .groups = "4", .devices = 2});
}

TEST(BatchNormGroups, InMicroBatchesAreThoseOfOneStep) {
  for (const int m : {2, 4}) {
    expect_serial({.groups = "micro", .micro_batches = m});
    expect_serial({.groups = "8", .micro_batches = m});
    expect_serial({.search = "data-parallel", .groups = "replica", .devices = 2, .micro_batches = m});
    expect_serial({.search = "data-parallel", .groups = "micro", .devices = 2, .micro_batches = m});
    expect_serial({.search = "zero?stage=2", .groups = "replica", .devices = 2, .micro_batches = m});
  }
  expect_serial({.groups = "4", .micro_batches = 3});  // micro-batches of 4, 2 and 2 samples
  expect_serial({.search = "data-parallel", .groups = "16", .devices = 2, .micro_batches = 3, .batch = 16});
}

TEST(BatchNormGroups, InStagesAreThoseOfOneStep) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const int m : {2, 4})
      expect_serial({.search = fmt::format("pipeline?stages=2,schedule={}", schedule),
                     .groups = "replica",
                     .devices = 4,
                     .micro_batches = m});
  for (const char* recompute : {"cheap", "layer"})
    expect_serial({.search = "pipeline?stages=2",
                   .groups = "micro",
                   .devices = 2,
                   .micro_batches = 4,
                   .recompute = recompute,
                   .optimizer = {"adamw", 0.01, 0, 0.1, 0.5}});
}

// ---------------------------------------------------------------- running statistics that are kept as sums

TEST(BatchNormGroups, KeepATermOfRunningStatisticsOnEachDevice) {
  const Planned p = planned({.search = "data-parallel", .groups = "replica", .devices = 4});
  const TensorId mean = p.training.find_tensor("bn1.running_mean");
  EXPECT_EQ(to_string(p.plan.kept.at(mean).sbp[0]), "P(sum)");
  verify(p.physical);
  std::vector<int> terms;
  for (std::size_t r = 0; r < p.physical.registers.size(); ++r) {
    const Register& reg = p.physical.registers[r];
    if (reg.tensor != mean || !reg.carried) continue;
    terms.push_back(reg.term);
    PhysicalGraph wrong = p.physical;
    wrong.registers[r].term = reg.term == 1 ? 2 : 1;
    EXPECT_NE(error_of([&] { verify(wrong); }).find("not each of its terms once"), std::string::npos);
    wrong.registers[r].term = -1;
    EXPECT_NE(error_of([&] { verify(wrong); }), "no error");
  }
  EXPECT_EQ(terms, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(print(parse_physical(print(p.physical))), print(p.physical));
}

TEST(BatchNormGroups, AreSavedAndReadAgain) {
  const std::string file = std::filesystem::path(::testing::TempDir()) / "groups.safetensors";
  const Case on_one{.groups = "2"}, on_two{.search = "data-parallel", .groups = "2", .devices = 2};
  std::map<std::string, Values> weights[2];
  for (const bool parallel : {false, true}) {
    const Planned p = planned(parallel ? on_two : on_one);
    TrainOptions first{.steps = 2, .save = file}, then{.steps = 2, .weights = file};
    train(p, first, kernels());
    weights[parallel] = train(p, then, kernels()).weights;
  }
  for (const auto& [name, values] : weights[0]) EXPECT_LE(relative_error(weights[1].at(name), values), 1e-10) << name;
}

// Only a few steps: statistics of two samples are steep, and enlarge a difference in rounding.
TEST(BatchNormGroups, AreEvaluatedAlike) {
  double accuracy[2];
  for (const bool parallel : {false, true}) {
    const std::string data = PARTITA_SOURCE_DIR "/tests/data/resnet18-reference.npz";
    const Case c{.model = PARTITA_SOURCE_DIR "/tests/data/resnet18.onnx",
                 .search = parallel ? "data-parallel" : "single",
                 .groups = "3",
                 .devices = parallel ? 3 : 1,
                 .batch = 6,
                 .optimizer = {"sgd", 0.02, 0.9, 0}};
    accuracy[parallel] = *train(planned(c), {.steps = 3, .data = data, .test_data = data}, kernels()).test_accuracy;
  }
  EXPECT_EQ(accuracy[0], accuracy[1]);
  EXPECT_GT(accuracy[0], 0);
}

// ---------------------------------------------------------------- the bytes that a plan moves

// The tensors that a step exchanges by collectives: "gradient" if the update of a parameter reads the result, else
// "statistics".
std::map<std::string, int> exchanged(const Planned& p) {
  std::map<std::string, int> count;
  for (const Task& task : p.physical.tasks) {
    const auto* work = std::get_if<CollectiveWork>(&task.work);
    if (!work || work->rank != 0) continue;
    count[task.name.find(".update.") != std::string::npos ? "gradient" : "statistics"] +=
        static_cast<int>(task.reads.size());
  }
  return count;
}

TEST(BatchNormGroups, OfReplicasAreNotExchanged) {
  Case c{
      .model = "zoo:resnet-50", .search = "data-parallel", .batch = 256, .cluster = "dgx-1", .dtype = DType::kFloat32};
  const Planned whole = planned(c);
  c.groups = "replica";
  const Planned apart = planned(c);
  EXPECT_EQ(apart.plan.model.batch_norm_groups, 8);
  EXPECT_EQ(apart.report.inner_bytes, 0);
  EXPECT_EQ(exchanged(whole), (std::map<std::string, int>{{"gradient", 55}, {"statistics", 212}}));
  EXPECT_EQ(exchanged(apart), (std::map<std::string, int>{{"gradient", 161}}));
  EXPECT_LT(apart.step_time_ns(), whole.step_time_ns());
  std::printf("resnet-50 on dgx-1: %.1f ms, with groups of replicas %.1f ms\n",
              static_cast<double>(whole.step_time_ns()) / 1e6, static_cast<double>(apart.step_time_ns()) / 1e6);
}

TEST(BatchNormGroups, LetResNet50BeAPipeline) {
  const Planned p = planned({.model = "zoo:resnet-50",
                             .search = "pipeline?stages=2,micro-batches=4",
                             .groups = "replica",
                             .batch = 256,
                             .cluster = "dgx-1",
                             .dtype = DType::kFloat32});
  EXPECT_EQ(p.training.micro_batches(), 4);
  EXPECT_EQ(p.plan.model.batch_norm_groups, 16);  // 4 replicas of 2 stages
  EXPECT_EQ(exchanged(p), (std::map<std::string, int>{{"gradient", 161}}));
}

// ---------------------------------------------------------------- plan files, names and refusals

TEST(BatchNormGroups, ArePartOfThePlan) {
  const std::string file = std::filesystem::path(::testing::TempDir()) / "groups-plan.json";
  const Planned p = planned({.search = "data-parallel", .groups = "replica", .devices = 2, .micro_batches = 2});
  write_file(file, print(p.plan, p.training));
  Runner runner;
  const Planned again = open_plan(file, runner);
  EXPECT_EQ(again.plan, p.plan);
  EXPECT_EQ(again.plan.model.batch_norm_groups, 4);
  std::string text = print(p.plan, p.training);
  text.replace(text.find("\"batch_norm_groups\":4"), 21, "\"batch_norm_groups\":2");
  write_file(file, text);
  EXPECT_NE(error_of([&] { open_plan(file, runner); }), "no error");
}

TEST(BatchNormGroups, AreNamedByTheSearch) {
  const auto groups = [](const std::string& name, const std::string& search, int devices, int m) {
    Request request = request_of({.search = search, .groups = name, .devices = devices, .micro_batches = m});
    return batch_norm_groups_of(request);
  };
  EXPECT_EQ(groups("", "data-parallel", 8, 4), 1);
  EXPECT_EQ(groups("6", "data-parallel", 8, 4), 6);
  EXPECT_EQ(groups("micro", "data-parallel", 8, 4), 4);
  EXPECT_EQ(groups("replica", "data-parallel", 8, 1), 8);
  EXPECT_EQ(groups("replica", "fsdp", 8, 4), 32);
  EXPECT_EQ(groups("replica", "megatron?tensor=2,pipeline=2", 8, 4), 8);
  EXPECT_EQ(groups("replica", "pipeline?stages=4", 8, 4), 8);
  const auto error = [&](const std::string& name, const std::string& search) -> std::string {
    try {
      groups(name, search, 8, 4);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kUsage);
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("replica", "megatron"),
            "--batch-norm-groups replica: say how many devices one has with megatron?tensor=N, or give a number");
  for (const std::string search : {"single", "model-parallel", "layer-placement", "placement", "baechi-metf", "pesto"})
    EXPECT_EQ(error("replica", search),
              fmt::format("--batch-norm-groups replica: '{}' has no replicas; take another search, or give a number",
                          search));
  EXPECT_EQ(error("some", "single"), "--batch-norm-groups takes a positive number, replica or micro, not 'some'");
  EXPECT_EQ(error_of([] { planned({.model = "zoo:mlp", .groups = "2"}); }),
            "--batch-norm-groups: model 'mlp' has no batch norm");
}

}  // namespace
}  // namespace partita

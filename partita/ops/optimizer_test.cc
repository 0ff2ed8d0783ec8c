// Tests optimizers, clipping and schedules: eight steps each against PyTorch's (tests/data/make_optimizers.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/graph/autodiff.h"
#include "partita/graph/optimizer_checks.h"
#include "partita/graph/reference.h"
#include "partita/ops/ops.h"

namespace partita {
namespace {

using Json = nlohmann::json;
using tdl::Array;

Graph regression(const Optimizer& optimizer) {
  GraphBuilder build("regression", standard_ops());
  const DType real = DType::kFloat64;
  const TensorId x = build.input("x", {4, 3}, real);
  const TensorId y =
      build.op("linear", {x, build.parameter("w", {3, 2}, 0, 0, real), build.parameter("b", {2}, 0, 0, real)});
  return add_backward(build.finish({y}), {.kind = "mse"}, optimizer);
}

void expect_near(const std::vector<double>& got, const Json& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i].get<double>(), 1e-13) << what << " " << i;
}

// The same optimizer with its updates in elementary operations.
std::string fine(const std::string& kind) {
  return kind + (kind.find('?') == std::string::npos ? "?" : ",") + "fine=1";
}

// Fused, and in elementary operations.
TEST(Optimizers, EqualPyTorchs) {
  std::ifstream file(PARTITA_SOURCE_DIR "/tests/data/optimizers.json");
  const Json data = Json::parse(file);
  EXPECT_EQ(data["runs"].size(), 15u);
  for (std::size_t i = 0; i < 2 * data["runs"].size(); ++i) {
    const Json& run = data["runs"][i / 2];
    const std::string kind = run["optimizer"];
    const Optimizer optimizer{i % 2 ? fine(kind) : kind,   run["lr"],
                              run.value("momentum", 0.0),  run.value("weight_decay", 0.0),
                              run.value("clip_norm", 0.0), run.value("schedule", "constant")};
    SCOPED_TRACE(fmt::format("{}, momentum {}, clip {}, {}", optimizer.kind, optimizer.momentum, optimizer.clip_norm,
                             optimizer.schedule));
    const Graph graph = regression(optimizer);
    std::map<TensorId, Array> carried;
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      const Tensor& tensor = graph.tensors[t];
      if (tensor.role == Role::kState)
        carried[TensorId(t)] =
            tensor.dtype == DType::kInt64
                ? tdl::int_array(tensor.shape, {0})
                : tdl::real_array(tensor.shape, std::vector<double>(static_cast<std::size_t>(volume(tensor.shape))));
      if (tensor.role == Role::kParameter || tensor.role == Role::kInput)
        carried[TensorId(t)] = tdl::real_array(tensor.shape, data[tensor.name].get<std::vector<double>>());
    }
    std::vector<double> losses;
    for (std::size_t step = 0; step < run["losses"].size(); ++step) {
      std::map<TensorId, Array> values = carried;
      reference_run(graph, values);
      losses.push_back(values.at(graph.loss).reals[0]);
      for (auto& [id, value] : carried)
        if (const TensorId now = graph.replacement_of(id); now.valid()) value = values.at(now);
    }
    expect_near(losses, run["losses"], "loss");
    expect_near(carried.at(graph.find_tensor("w")).reals, run["w"], "w");
    expect_near(carried.at(graph.find_tensor("b")).reals, run["b"], "b");
    EXPECT_EQ(print(parse_graph(print(graph), standard_ops())), print(graph));
  }
}

std::string message_of(const Optimizer& optimizer) {
  try {
    check_optimizer(optimizer, *standard_ops());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Optimizers, BadChoicesAreNamed) {
  const auto registry = standard_ops();
  EXPECT_EQ(optimizer_names(*registry), (std::vector<std::string>{"adagrad", "adam", "adamw", "sgd"}));
  EXPECT_EQ(schedule_names(*registry), (std::vector<std::string>{"constant", "cosine", "linear"}));
  EXPECT_EQ(message_of({}), "");
  EXPECT_EQ(message_of({.kind = "adamw?beta2=0.95,eps=1e-6", .schedule = "cosine?steps=4"}), "");
  EXPECT_EQ(message_of({.kind = "lion"}), "unknown optimizer 'lion'; there are: adagrad, adam, adamw, sgd");
  EXPECT_NE(message_of({.kind = "adam", .momentum = 0.9})
                .find("no such options together: momentum=0.9; it has: beta1, beta2, eps"),
            std::string::npos);
  EXPECT_NE(message_of({.kind = "adam?beta1=x"}).find("'beta1=x' is not option=number"), std::string::npos);
  EXPECT_NE(message_of({.kind = "sgd?momentum=0.5", .momentum = 0.9}).find("momentum is given twice"),
            std::string::npos);
  EXPECT_EQ(message_of({.kind = "adam?fine=1"}), "");
  EXPECT_EQ(message_of({.kind = "adam?fine=2"}), "optimizer 'adam?fine=2': fine is 0 or 1, not 2");
  EXPECT_EQ(message_of({.schedule = "sqrt"}), "unknown schedule 'sqrt'; there are: constant, cosine, linear");
  EXPECT_EQ(message_of({.schedule = "linear?warmup=2"}), "schedule 'linear' needs `steps`: linear?steps=..");
  EXPECT_EQ(with_steps({.schedule = "cosine?warmup=2"}, 9, *registry).schedule, "cosine?warmup=2,steps=9");
  EXPECT_EQ(with_steps({.schedule = "linear"}, 9, *registry).schedule, "linear?steps=9");
  EXPECT_EQ(with_steps({.schedule = "linear?steps=3"}, 9, *registry).schedule, "linear?steps=3");
  EXPECT_EQ(with_steps({}, 9, *registry).schedule, "constant");
}

// torch.optim refuses these (2.13: SGD, Adam, AdamW, Adagrad), or takes values that are not finite and loses the
// weights.
TEST(Optimizers, ValuesOutOfRangeAreNamed) {
  const double nan = std::nan(""), infinity = INFINITY;
  const auto refused = [](const Optimizer& optimizer, const std::string& part) {
    EXPECT_NE(message_of(optimizer).find(part), std::string::npos) << part << " in: " << message_of(optimizer);
  };
  for (const double wrong : {-1.0, -1e-9, nan, infinity, -infinity, 1e39}) {
    refused({.lr = wrong}, fmt::format("lr (--lr) is a number from 0 to below 3.4e+38, not {}", wrong));
    refused({.momentum = wrong},
            fmt::format("momentum (--momentum) is a number from 0 to below 3.4e+38, not {}", wrong));
    for (const char* kind : {"sgd", "adam", "adamw", "adagrad"})
      refused(
          {.kind = kind, .weight_decay = wrong},
          fmt::format("'{}': weight_decay (--weight-decay) is a number from 0 to below 3.4e+38, not {}", kind, wrong));
    refused({.clip_norm = wrong}, fmt::format("not {}", wrong));
  }
  for (const char* kind : {"adam", "adamw"})
    for (const char* beta : {"beta1", "beta2"})
      for (const char* wrong : {"1", "-0.1", "2", "nan", "inf"})
        refused({.kind = fmt::format("{}?{}={}", kind, beta, wrong)},
                fmt::format("{} is a number from 0 to below 1, not {}", beta, wrong));
  for (const char* kind : {"adam", "adamw", "adagrad"})
    for (const char* wrong : {"-1e-08", "nan", "inf"})
      refused({.kind = fmt::format("{}?eps={}", kind, wrong)},
              fmt::format("eps is a number from 0 to below 3.4e+38, not {}", wrong));
  refused({.kind = "sgd?momentum=-1"}, "optimizer 'sgd?momentum=-1': momentum (--momentum) is");
  refused({.kind = "sgd?momentum=0.9,nesterov=2"}, "nesterov is 0 or 1, not 2");
  refused({.kind = "sgd?momentum=0,nesterov=1"}, "nesterov=1 needs a momentum above 0, not 0");
  refused({.schedule = "constant?warmup=-1"},
          "'constant?warmup=-1': warmup is a number from 0 to below 3.4e+38, not -1");
  refused({.schedule = "linear?steps=0"}, "steps is a number from 1 to below 3.4e+38, not 0");
  for (const Optimizer& right : {Optimizer{.lr = 0}, Optimizer{.momentum = 2}, Optimizer{.kind = "adam?eps=0,beta1=0"},
                                 Optimizer{.kind = "sgd?momentum=0.9,nesterov=1", .weight_decay = 3}})
    EXPECT_EQ(message_of(right), "");
}

// PyTorch takes it.
TEST(Optimizers, AMomentumThatNeverFadesIsDoubted) {
  const auto registry = standard_ops();
  EXPECT_EQ(optimizer_warning({.momentum = 0.99}, *registry), "");
  EXPECT_EQ(optimizer_warning({.kind = "adam"}, *registry), "");
  for (const Optimizer& optimizer : {Optimizer{.momentum = 1}, Optimizer{.kind = "sgd?momentum=1"}})
    EXPECT_NE(optimizer_warning(optimizer, *registry).find("a momentum of 1 "), std::string::npos);
}

// Both parameters share functions of the number of steps alone: the next number of steps, and for each correction two
// products, a hyperbolic tangent, a sum and a quotient.
TEST(Optimizers, FineOnesAreElementary) {
  std::map<std::string, int> count;
  for (const Op& op : regression({.kind = "adam?fine=1"}).ops) count[op.definition] += op.phase == Phase::kUpdate;
  std::erase_if(count, [](const auto& item) { return item.second == 0; });
  const std::map<std::string, int> expected{{"mul", 2 * 5 + 2 * 2}, {"add", 2 * 3 + 1 + 2}, {"square", 2},
                                            {"sqrt", 2 + 1},        {"div", 2 * 2 + 1 + 2}, {"tanh", 2},
                                            {"assign", 2 * 2},      {"assign_sub", 2},      {"count_step", 1}};
  EXPECT_EQ(count, expected);
}

TEST(Optimizers, NothingIsAddedUnlessAskedFor) {
  for (const Op& op : regression({}).ops)
    if (op.phase == Phase::kUpdate) {
      EXPECT_EQ(op.definition, "sgd");
    }
  const Graph graph = regression({.kind = "adam", .clip_norm = 1, .schedule = "cosine?steps=9"});
  std::map<std::string, int> count;
  for (const Op& op : graph.ops) count[op.definition] += op.phase == Phase::kUpdate;
  EXPECT_EQ(count["adam"], 2);
  EXPECT_EQ(count["square_sum"], 2);
  EXPECT_EQ(count["add"], 1);
  EXPECT_EQ(count["clip_scale"], 1);
  EXPECT_EQ(count["lr_cosine"], 1);
  EXPECT_EQ(count["count_step"], 1);
  const Tensor& step = graph.tensor(graph.find_tensor("optimizer.step"));
  EXPECT_EQ(step.dtype, DType::kInt64);
  EXPECT_EQ(step.role, Role::kState);
}

}  // namespace
}  // namespace partita

// Tests that a step in micro-batches, on one stage and on several, computes the same as one device on the whole batch.
#include "partita/graph/micro_batches.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "partita/base/rng.h"
#include "partita/base/testing/error_of.h"
#include "partita/pipeline/out_of_memory.h"
#include "partita/plan/rules.h"
#include "partita/runtime/memory.h"
#include "partita/runtime/run.h"
#include "partita/runtime/weights.h"
#include "partita/schedule/lower.h"
#include "partita/sim/simulate.h"
#include "partita/train/dataset.h"
#include "partita/train/feed.h"
#include "partita/train/forward.h"
#include "partita/train/serial.h"
#include "partita/train/train.h"
#include "tests/e2e/runs.h"

namespace partita {
namespace {

struct Case {
  std::string model, search;
  int devices = 1, micro_batches = 1, batch = 8;
  std::string recompute = "none", cluster = {};
  Optimizer optimizer{"sgd", 0.01, 0.9, 0.0};
  double loss_scale = 1;
  const char* loss = "";  // empty: the model's own
  DType dtype = DType::kFloat64;
};

Planned planned(const Case& c) {
  Request request;
  request.model = c.model;
  request.bindings["batch"] = std::to_string(c.batch);
  request.optimizer = c.optimizer;
  request.dtype = c.dtype;
  request.cluster = c.cluster.empty() ? fmt::format("local:{}", c.devices) : c.cluster;
  if (!c.cluster.empty()) request.devices = c.devices;
  request.search = c.search;
  request.micro_batches = c.micro_batches;
  request.recompute = c.recompute;
  request.loss_scale = c.loss_scale;
  if (*c.loss) request.loss = c.loss;
  Runner runner;
  return runnable(plan_model(request, runner), runner);
}

std::string text_of(const Case& c) {
  return fmt::format("{} --search {} --devices {} --micro-batches {} --batch {} --recompute {} {} {}", c.model,
                     c.search, c.devices, c.micro_batches, c.batch, c.recompute, c.optimizer.kind, c.loss);
}

void expect_serial(const Case& c) {
  SCOPED_TRACE(text_of(c));
  const Planned p = planned(c);
  EXPECT_EQ(p.training.micro_batches(), c.micro_batches);
  EXPECT_EQ(p.batch(), c.batch);
  const TrainReport report = train_as_serial(p, text_of(c));
  expect_planned_memory(report, p, 0.6);  // between registers of several slots there are gaps
}

constexpr const char* kModels[] = {"zoo:mlp?layers=5,width=12",
                                   "zoo:lenet",
                                   "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20,dropout=0.1",
                                   "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16",
                                   "zoo:rnnlm?steps=3,layers=4,hidden=8,vocabulary=9",
                                   "zoo:moe?layers=2,hidden=16,heads=2,steps=6,vocabulary=20,experts=4,groups=8"};

TEST(MicroBatches, OfOneDeviceAreTheWholeBatch) {
  for (const char* model : kModels)
    for (const int m : {2, 4}) expect_serial({.model = model, .search = "single", .micro_batches = m});
}

TEST(MicroBatches, OnTwoDevices) {
  for (const char* model : kModels)
    expect_serial({.model = model, .search = "data-parallel", .devices = 2, .micro_batches = 2});
}

TEST(MicroBatches, OnStages) {
  for (const char* model : kModels)
    for (const char* schedule : {"gpipe", "1f1b", "interleaved"})
      expect_serial({.model = model,
                     .search = fmt::format("pipeline?stages=2,schedule={}", schedule),
                     .devices = 4,
                     .micro_batches = 4});
}

TEST(MicroBatches, ThatDoNotDivideTheBatch) {
  for (const char* model : kModels) {
    expect_serial({.model = model, .search = "single", .micro_batches = 3});
    if (std::string(model).find("moe") == std::string::npos)  // its groups divide the tokens
      expect_serial({.model = model, .search = "data-parallel", .devices = 2, .micro_batches = 3, .batch = 11});
  }
}

// Tensors that are kept in factors: micro-batches of two sizes have the same factors except for the samples.
TEST(MicroBatches, OfTwoSizesInFactors) {
  for (const char* model :
       {"zoo:lenet", "zoo:vit-b16?image=32,layers=1,hidden=16,heads=2", "zoo:nmt?steps=3,hidden=16,vocabulary=16"})
    for (const char* search : {"exact", "tofu", "soybean"})
      train_as_serial(planned({.model = model, .search = search, .devices = 2, .micro_batches = 2, .batch = 5}),
                      fmt::format("{} --search {}", model, search));
}

constexpr const char* kTransformers[] = {
    "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16",
    "zoo:llama-3-8b?layers=4,hidden=24,heads=4,key_heads=2,inner=40,vocabulary=20,steps=6",
    "zoo:moe?layers=2,hidden=16,heads=2,steps=6,vocabulary=20,experts=4,groups=8",
    "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20,dropout=0.1"};

TEST(MicroBatches, OfTensorGroupsWhoseStatesAreSplit) {
  const Optimizer adamw{"adamw", 0.01, 0, 0.1, 0.5};
  for (const char* model : kTransformers)
    for (const char* search :
         {"fsdp?tensor=2", "fsdp?tensor=2,gather=step", "zero?tensor=2", "megatron?tensor=2,zero=2"})
      expect_serial({.model = model, .search = search, .devices = 4, .micro_batches = 2, .optimizer = adamw});
}

TEST(MicroBatches, AlongTheSequence) {
  for (const char* model : kTransformers) {
    expect_serial({.model = model, .search = "megatron?tensor=2,sequence=1", .devices = 2});
    expect_serial({.model = model,
                   .search = "megatron?tensor=2,sequence=1,zero=3",
                   .devices = 4,
                   .micro_batches = 2,
                   .recompute = "layer"});
    expect_serial({.model = model,
                   .search = "megatron?tensor=2,sequence=1,pipeline=2,schedule=interleaved,zero=1",
                   .devices = 8,
                   .micro_batches = 4,
                   .recompute = "attention"});
  }
}

// Groups of devices that split the sequence, over tensor groups or alone.
TEST(MicroBatches, OfContextGroups) {
  const Optimizer adamw{"adamw", 0.01, 0, 0.1, 0.5};
  for (const char* model : kTransformers) {
    expect_serial({.model = model, .search = "megatron?tensor=1,context=2", .devices = 2});
    expect_serial({.model = model, .search = "megatron?tensor=2,context=2", .devices = 4, .recompute = "layer"});
    for (const int zero : {1, 3})
      expect_serial({.model = model,
                     .search = fmt::format("megatron?tensor=1,context=2,zero={}", zero),
                     .devices = 4,
                     .micro_batches = 2,
                     .optimizer = adamw});
    expect_serial({.model = model,
                   .search = "megatron?tensor=1,context=2,pipeline=2",
                   .devices = 4,
                   .micro_batches = 2,
                   .recompute = "attention"});
  }
  const char* const llama = "zoo:llama-3-8b?layers=2,hidden=24,heads=4,key_heads=2,inner=40,vocabulary=20,steps=8";
  expect_serial({.model = llama, .search = "megatron?tensor=1,context=4", .devices = 4});
  expect_serial({.model = llama,
                 .search = "megatron?tensor=2,context=2,sequence=1,zero=1",
                 .devices = 8,
                 .micro_batches = 2,
                 .recompute = "layer",
                 .optimizer = adamw});
}

TEST(MicroBatches, OfExperts) {
  for (const char* model :
       {kTransformers[2],
        "zoo:mixtral-8x7b?layers=2,hidden=32,heads=4,key_heads=2,inner=40,vocabulary=50,steps=8,experts=4"}) {
    expect_serial({.model = model, .search = "megatron?tensor=1,expert=4", .devices = 4});
    for (const int zero : {0, 1, 2, 3})
      expect_serial({.model = model,
                     .search = fmt::format("megatron?tensor=1,expert=2,zero={}", zero),
                     .devices = 4,
                     .micro_batches = 2});
    expect_serial({.model = model,
                   .search = "megatron?tensor=2,expert=2,sequence=1,zero=1,pipeline=2",
                   .devices = 8,
                   .micro_batches = 2,
                   .recompute = "layer"});
  }
}

// ---------------------------------------------------------------- a drawn sample

constexpr const char* kDrawnModels[] = {
    "zoo:mlp?layers=9,width=12",
    "zoo:lenet",
    "zoo:transformer?layers=4,hidden=24,heads=2,steps=6,vocabulary=20,dropout=0.1",
    "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16",
    "zoo:llama-3-8b?layers=4,hidden=24,heads=4,key_heads=2,inner=40,vocabulary=20,steps=6",
    "zoo:rnnlm?steps=3,layers=8,hidden=8,vocabulary=9",
    "zoo:moe?layers=4,hidden=16,heads=2,steps=6,vocabulary=20,experts=4,groups=16"};

template <typename T, std::size_t N>
T drawn(Rng& rng, const T (&of)[N]) {
  return of[static_cast<std::size_t>(rng.below(N))];
}

Case drawn_case(Rng& rng) {
  Case c;
  c.model = drawn(rng, kDrawnModels);
  const int stages = drawn(rng, {1, 2, 4}), inside = drawn(rng, {1, 2}), tensor = drawn(rng, {1, 2});
  const bool groups = c.model.find("moe") != std::string::npos;  // they divide the tokens
  c.micro_batches = groups ? drawn(rng, {1, 2, 4}) : drawn(rng, {1, 2, 3, 4});
  c.batch = c.micro_batches == 3 ? 16 + 1 : 16;
  c.devices = stages * inside;
  const bool split = tensor > 1 && inside > 1 && c.model.find("lenet") == std::string::npos &&
                     c.model.find("rnnlm") == std::string::npos && c.model.find("mlp") == std::string::npos;
  const bool deep = stages < 4 || c.model != "zoo:lenet";  // two virtual stages a stage
  const char* schedule = deep && c.micro_batches % stages == 0 ? drawn(rng, {"gpipe", "1f1b", "interleaved"})
                                                               : drawn(rng, {"gpipe", "1f1b"});
  if (split && !groups && rng.below(2) == 0)
    c.search =
        fmt::format("megatron?tensor=1,context=2,pipeline={},schedule={},zero={}", stages, schedule, rng.below(4));
  else if (split)
    c.search = fmt::format("megatron?tensor=2,pipeline={},schedule={},sequence={},zero={}", stages, schedule,
                           rng.below(2), rng.below(4));
  else if (stages > 1) c.search = fmt::format("pipeline?stages={},schedule={}", stages, schedule);
  else c.search = drawn(rng, {"data-parallel", "zero", "zero?stage=2", "zero?stage=3"});
  c.recompute = drawn(rng, {"none", "cheap", "layer", "attention"});
  if (rng.below(4) == 0) c.cluster = "flexflow-p100", c.devices = 8, c.batch *= 2;  // two nodes
  if (rng.below(2) == 0) c.optimizer = {"adamw", 0.01, 0, 0.1};
  if (rng.below(3) == 0) c.optimizer.clip_norm = 0.5;
  if (rng.below(3) == 0) c.loss_scale = 1024;
  if (rng.below(3) == 0) c.loss = "masked_cross_entropy";  // one in four labels is -100
  return c;
}

TEST(MicroBatches, OfADrawnSample) {
  const char* text = std::getenv("PARTITA_SEED");
  const uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 34;
  std::printf("seed %llu (PARTITA_SEED)\n", static_cast<unsigned long long>(seed));
  Rng rng(seed);
  for (int i = 0; i < 40; ++i) expect_serial(drawn_case(rng));
}

// ---------------------------------------------------------------- bfloat16

// Compares a plan in micro-batches with the same plan in one: gradients are added up in float32, and nothing is rounded
// to 16 bits once more. Losses are equal to two units of the last place of a bfloat16.
TEST(MicroBatches, InBfloat16AreAsInOnePart) {
  constexpr double kUnit = 1.0 / 256;
  constexpr const char* kGpt2 = "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16";
  constexpr const char* kLlama = "zoo:llama-3-8b?layers=4,hidden=24,heads=4,key_heads=2,inner=40,vocabulary=20,steps=6";
  for (Case c :
       {Case{.model = kGpt2, .search = "single", .micro_batches = 4},
        Case{.model = kGpt2, .search = "pipeline?stages=2", .devices = 4, .micro_batches = 4},
        Case{.model = kGpt2, .search = "megatron?tensor=2,pipeline=2", .devices = 4, .micro_batches = 2},
        Case{.model = kLlama, .search = "zero?stage=2", .devices = 2, .micro_batches = 4},
        Case{.model = kLlama, .search = "zero?stage=3", .devices = 2, .micro_batches = 2, .recompute = "layer"},
        Case{.model = "zoo:lenet", .search = "data-parallel", .devices = 2, .micro_batches = 4}}) {
    SCOPED_TRACE(text_of(c));
    c.dtype = DType::kBFloat16;
    TrainOptions options;
    options.steps = 3;
    const TrainReport parts = train(planned(c), options, kernels());
    c.micro_batches = 1;
    const TrainReport one = train(planned(c), options, kernels());
    double worst_loss = 0, worst = 0;
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      worst_loss = std::max(worst_loss, std::abs(parts.losses[i] / one.losses[i] - 1));
    for (const auto& [name, values] : one.weights)
      worst = std::max(worst, relative_error(parts.weights.at(name), values));
    std::printf("%s: losses %.1e, weights %.1e\n", c.search.c_str(), worst_loss, worst);
    EXPECT_LE(worst_loss, 2 * kUnit);
    EXPECT_LE(worst, 8 * kUnit);  // a weight that starts at 0 is all gradient, a sum of products in bfloat16
  }
}

// ---------------------------------------------------------------- memory

constexpr std::byte kUntouched{0xA5};

// By device: the planned peak, and the bytes below the highest that two steps touch.
std::vector<std::pair<int64_t, int64_t>> touched_bytes(const Planned& p) {
  const Graph& whole = p.training.whole_graph();
  const PhysicalGraph& graph = p.physical;
  const Memory memory(graph);
  std::vector<std::byte*> begin(graph.peak_bytes.size(), nullptr);
  for (std::size_t r = 0; r < graph.registers.size(); ++r)
    begin[graph.registers[r].device.index()] = memory.address(RegisterId(r), 0) - graph.registers[r].offset;
  for (std::size_t d = 0; d < begin.size(); ++d)
    if (begin[d]) std::fill_n(begin[d], graph.peak_bytes[d], kUntouched);
  write_initial(memory, whole, 7, {});
  const Dataset data = Dataset::synthetic(whole, 7);
  std::vector<int64_t> items(static_cast<std::size_t>(data.items_a_step()));
  std::iota(items.begin(), items.end(), 0);
  Feed feed;
  feed.load = [&](TensorId input, int64_t, Interval elements) { return data.take(whole, input, items, elements); };
  feed.keep = [](TensorId, int64_t, const Values&) {};
  run_threads(graph, memory, hooks_of(whole, std::move(feed), kernels(), 7), {.steps = 2});
  std::vector<std::pair<int64_t, int64_t>> out;
  for (int d = 0; d < graph.compute_count; ++d) {
    const int64_t peak = graph.peak_bytes[static_cast<std::size_t>(d)];
    int64_t end = peak;
    while (end > 0 && begin[static_cast<std::size_t>(d)][end - 1] == kUntouched) --end;
    out.emplace_back(peak, end);
  }
  return out;
}

TEST(MicroBatches, TouchTheMemoryThatIsPlanned) {
  constexpr const char* kGpt2 = "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16";
  for (const Case& c :
       {Case{.model = kGpt2, .search = "single", .micro_batches = 4},
        Case{.model = kGpt2, .search = "pipeline?stages=2", .devices = 4, .micro_batches = 4, .recompute = "layer"},
        Case{.model = kGpt2, .search = "pipeline?stages=2,schedule=gpipe", .devices = 2, .micro_batches = 4},
        Case{.model = kGpt2, .search = "pipeline?stages=2,schedule=interleaved", .devices = 2, .micro_batches = 4},
        Case{.model = kGpt2, .search = "megatron?tensor=2,pipeline=2", .devices = 4, .micro_batches = 2},
        Case{.model = kGpt2, .search = "zero?stage=2", .devices = 2, .micro_batches = 4, .recompute = "attention"},
        Case{.model = kGpt2, .search = "zero?stage=3", .devices = 2, .micro_batches = 2, .recompute = "layer"},
        Case{.model = "zoo:lenet", .search = "data-parallel", .devices = 2, .micro_batches = 3, .batch = 11}}) {
    SCOPED_TRACE(text_of(c));
    for (const auto& [peak, touched] : touched_bytes(planned(c))) {
      std::printf("%s: planned %lld, touched up to %lld\n", c.search.c_str(), static_cast<long long>(peak),
                  static_cast<long long>(touched));
      EXPECT_LE(static_cast<double>(peak), 1.05 * static_cast<double>(touched));
    }
  }
}

// The message of a call that finds no plan.
std::string said(ExitCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

// ---------------------------------------------------------------- how many

Planned with_open_count(const std::string& model, const std::string& search, int devices, int batch,
                        const std::function<void(Request&)>& change = {}) {
  Request request;
  request.model = model;
  request.bindings["batch"] = std::to_string(batch);
  request.cluster = fmt::format("local:{}", devices);
  request.search = search;
  if (change) change(request);
  Runner runner;
  return plan_model(request, runner);
}

constexpr const char* kSmallGpt2 = "zoo:gpt2?layers=4,hidden=64,heads=4,vocabulary=96,steps=16";

// Against each count by itself.
TEST(MicroBatchCount, IsThatOfTheShortestStepThatFits) {
  struct Case {
    const char* search;
    int devices, batch;
    std::vector<int> counts;  // the divisors of a replica's samples that the schedule can have
  };
  for (const Case& c : {Case{"pipeline?stages=2", 4, 48, {1, 2, 3, 4, 6, 8, 12, 24}},
                        {"pipeline?stages=4", 4, 6, {1, 2, 3, 6}},
                        {"pipeline?stages=2,schedule=interleaved", 2, 18, {2, 6, 18}},
                        {"megatron?tensor=2,pipeline=2", 8, 16, {1, 2, 4, 8}}})
    for (const char* model : {kSmallGpt2, "zoo:gpt2?layers=4,hidden=256,heads=4,vocabulary=96,steps=64"}) {
      SCOPED_TRACE(fmt::format("{} {} {}", model, c.search, c.batch));
      std::map<int64_t, int> by_step;
      for (const int count : c.counts)
        by_step.try_emplace(
            with_open_count(model, c.search, c.devices, c.batch, [&](Request& r) { r.micro_batches = count; })
                .step_time_ns(),
            count);
      const Planned p = with_open_count(model, c.search, c.devices, c.batch);
      EXPECT_EQ(p.step_time_ns(), by_step.begin()->first);
      EXPECT_EQ(p.plan.model.micro_batches, by_step.begin()->second);
    }
}

TEST(MicroBatchCount, IsSaidWithWhatWasCompared) {
  const Planned p = with_open_count(kSmallGpt2, "pipeline?stages=2", 4, 48);
  ASSERT_FALSE(p.search.notes.empty());
  for (const char* part : {"micro-batches: ", "12", "24", "6, 4, 3, 2, 1"})
    EXPECT_NE(p.search.notes[0].find(part), std::string::npos) << p.search.notes[0];
  EXPECT_EQ(with_open_count(kSmallGpt2, "megatron?tensor=2,pipeline=2,micro-batches=2", 8, 8).plan.model.micro_batches,
            2);                                                                       // said
  EXPECT_EQ(with_open_count(kSmallGpt2, "zero", 4, 48).plan.model.micro_batches, 1);  // one stage
}

TEST(MicroBatchCount, IsMoreWhereFewerDoNotFit) {
  const auto fits = [](int count, int64_t limit) {
    try {
      with_open_count(kSmallGpt2, "pipeline?stages=2", 2, 48, [&](Request& r) {
        r.micro_batches = count;
        r.memory_limit_bytes = limit;
      });
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInfeasible) << error.what();
      return false;
    }
  };
  // The overlap budget of 8 micro-batches is given up first.
  int64_t limit = with_open_count(kSmallGpt2, "pipeline?stages=2", 2, 48, [](Request& r) {
                    r.micro_batches = 8;
                  }).peak_memory_bytes();
  while (fits(8, limit)) limit -= limit / 64;
  ASSERT_TRUE(fits(12, limit)) << limit;
  const Planned p =
      with_open_count(kSmallGpt2, "pipeline?stages=2", 2, 48, [&](Request& r) { r.memory_limit_bytes = limit; });
  EXPECT_EQ(p.plan.model.micro_batches, 12);
}

// Counts 8, 12, 24 and 48, each of which takes 2 s. With 8 s left after the first all others can be tried; the last of
// them may fit and is simulated. With less only the last is tried.
TEST(MicroBatchCount, IsTheMostWhereTimeIsShort) {
  const MicroBatchChoice choice{{8, 12, 24, 48}, true, ""};
  EXPECT_EQ(next_to_try(choice, 0, 2, std::nullopt), 1U);
  EXPECT_EQ(next_to_try(choice, 0, 2, 8.1), 1U);
  EXPECT_EQ(next_to_try(choice, 0, 2, 7.9), 3U);
  EXPECT_EQ(next_to_try(choice, 2, 2, 0.5), 3U);
}

TEST(MicroBatchCount, OfAModelThatHasNoParts) {
  const Planned p = with_open_count("zoo:resnet-18?image=32,width=8", "pipeline?stages=2", 2, 8);
  EXPECT_EQ(p.plan.model.micro_batches, 1);
  ASSERT_FALSE(p.search.notes.empty());
  EXPECT_NE(p.search.notes[0].find("cannot act on a part of the batch"), std::string::npos) << p.search.notes[0];
}

// 8 groups of samples cannot be in 16 micro-batches.
TEST(MicroBatchCount, IsLessWhereGroupsAreFewer) {
  const Planned p = with_open_count("zoo:resnet-18?image=32,width=8", "pipeline?stages=4", 4, 32,
                                    [](Request& r) { r.batch_norm_groups = "8"; });
  EXPECT_LE(p.plan.model.micro_batches, 8);
  ASSERT_FALSE(p.search.notes.empty());
  EXPECT_NE(p.search.notes[0].find("that were compared (8, 4, 2, 1)"), std::string::npos) << p.search.notes[0];
}

// Groups by name follow the count, chosen or given.
TEST(MicroBatchCount, MakesTheGroupsThatAreNamed) {
  const auto groups = [](const std::string& search, const std::string& name, std::optional<int> size) {
    const Planned p = with_open_count("zoo:resnet-18?image=32,width=8", search, 2, 24, [&](Request& r) {
      r.batch_norm_groups = name;
      r.micro_batch_size = size;
    });
    return std::pair(p.plan.model.micro_batches, p.plan.model.batch_norm_groups);
  };
  EXPECT_EQ(groups("data-parallel", "replica", 2), std::pair(6, int64_t{12}));
  EXPECT_EQ(groups("data-parallel", "micro", 2), std::pair(6, int64_t{6}));
  EXPECT_EQ(groups("pipeline?stages=2", "micro", std::nullopt), std::pair(8, int64_t{8}));
  EXPECT_EQ(groups("pipeline?stages=2,micro-batch-size=2", "micro", std::nullopt), std::pair(12, int64_t{12}));
  EXPECT_EQ(groups("data-parallel", "replica", std::nullopt), std::pair(1, int64_t{2}));
}

// A stage that a person has left without a backward pass still has figures.
TEST(Stages, WithoutABackwardPass) {
  const Planned p = planned({.model = "zoo:mlp?layers=2,width=4",
                             .search = "pipeline?stages=2",
                             .devices = 2,
                             .micro_batches = 2,
                             .batch = 4});
  Plan plan = p.plan;
  for (size_t i = 0; i < plan.ops.size(); ++i)
    if (p.training.ops[i].phase == Phase::kBackward) plan.ops[i] = {plan.ops.back().mesh, {}, 1};
  for (size_t i = 0; i < plan.ops.size(); ++i)
    if (plan.ops[i].strategies.empty()) plan.ops[i].strategies = plan.ops.back().strategies;
  const PhysicalGraph graph = lower(p.training, plan, p.cluster);
  const StepBreakdown figures = breakdown_of(simulate(graph, CostModel(p.cluster)), graph);
  ASSERT_EQ(figures.stages.size(), 2u);
  for (const StageFigures& stage : figures.stages) {
    EXPECT_FALSE(stage.devices.empty());
    EXPECT_EQ(stage.time.step_ns(), figures.step_ns());
  }
}

TEST(MicroBatchCount, BySamplesOfAReplica) {
  const auto count = [](const std::string& search, int size) {
    return with_open_count(kSmallGpt2, search, 8, 48, [&](Request& r) { r.micro_batch_size = size; })
        .plan.model.micro_batches;
  };
  EXPECT_EQ(count("data-parallel", 3), 2);
  EXPECT_EQ(count("zero?tensor=2", 3), 4);
  EXPECT_EQ(count("megatron?tensor=2,pipeline=2", 3), 8);
  EXPECT_EQ(count("megatron?tensor=2,context=2,pipeline=2", 3), 16);
  EXPECT_EQ(count("fsdp?context=4", 3), 8);
  EXPECT_EQ(count("pipeline?stages=2", 2), 6);
  EXPECT_EQ(count("pipeline?stages=2,micro-batch-size=3", 2), 4);  // the search's own
  EXPECT_EQ(count("single", 6), 8);
  const auto error = [](const std::string& search, const std::function<void(Request&)>& change,
                        ExitCode code = ExitCode::kUsage) {
    return said(code, [&] { with_open_count(kSmallGpt2, search, 8, 48, change); });
  };
  EXPECT_EQ(error(
                "data-parallel", [](Request& r) { r.micro_batch_size = 4; }, ExitCode::kBadInput),
            "a batch of 48 is no multiple of 8 replicas x micro-batches of 4 samples (--micro-batch-size); --batch 64 "
            "is, or give --micro-batches");
  EXPECT_EQ(error("data-parallel", [](Request& r) { r.micro_batch_size = 3, r.micro_batches = 2; }),
            "--micro-batches and --micro-batch-size both say how many parts a batch has; give one of them");
  EXPECT_NE(error("exact", [](Request& r) { r.micro_batch_size = 3; })
                .find("--micro-batch-size: the options of search 'exact' do not say among how many replicas"),
            std::string::npos);
  EXPECT_NE(error("data-parallel?micro-batch-size=3,micro-batches=2", {}).find("give one of them"), std::string::npos);
}

// ---------------------------------------------------------------- where stages are cut

// Layers need not divide, and fewer layers than stages are cut between attention and feed-forward.
TEST(MicroBatches, OfStagesThatAreNotWholeLayers) {
  expect_serial({.model = "zoo:gpt2?layers=5,hidden=64,heads=4,vocabulary=96,steps=16",
                 .search = "pipeline?stages=4",
                 .devices = 4,
                 .micro_batches = 4});
  expect_serial({.model = "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20,dropout=0.1",
                 .search = "megatron?tensor=1,pipeline=4",
                 .devices = 4,
                 .micro_batches = 4,
                 .recompute = "layer"});
  const Planned p = planned({.model = "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20",
                             .search = "pipeline?stages=4",
                             .devices = 4,
                             .micro_batches = 4});
  const auto stage = [&](const char* op) { return p.plan.ops[p.training.find_op(op).index()].stage; };
  EXPECT_EQ(stage("layers.0.attention.q"), stage("layers.0.attention.out"));
  EXPECT_EQ(stage("layers.0.feed_forward.up"), stage("layers.0.feed_forward.down"));
  EXPECT_LT(stage("layers.0.attention.out"), stage("layers.0.feed_forward.up"));
  EXPECT_LT(stage("layers.0.feed_forward.down"), stage("layers.1.attention.q"));
  EXPECT_LT(stage("layers.1.attention.out"), stage("layers.1.feed_forward.up"));
  EXPECT_EQ(stage("head"), 3);
  EXPECT_EQ(stage("embedding"), 0);
  EXPECT_EQ(said(ExitCode::kInfeasible,
                 [] {
                   planned({.model = "zoo:transformer?layers=2,hidden=24,heads=2,steps=6,vocabulary=20",
                            .search = "pipeline?stages=8",
                            .devices = 8,
                            .micro_batches = 8});
                 }),
            "pipeline: 'transformer' has 2 layers, which can be cut into 6 parts, fewer than 8 stages; choose fewer "
            "stages, or a smaller virtual=V");
}

// ---------------------------------------------------------------- evaluation

// A model is evaluated in the micro-batches and on the stages of its plan, and its outputs are those of the whole
// batch.
TEST(MicroBatches, EvaluateAsTheWholeBatch) {
  const Cluster one = load_cluster("local:1");
  for (const char* model : kModels)
    for (const Case& c :
         {Case{.model = model, .search = "single", .micro_batches = 4},
          Case{.model = model, .search = "data-parallel", .devices = 2, .micro_batches = 2},
          Case{.model = model, .search = "pipeline?stages=2", .devices = 4, .micro_batches = 4},
          Case{.model = model, .search = "pipeline?stages=2,schedule=interleaved", .devices = 2, .micro_batches = 2}}) {
      SCOPED_TRACE(text_of(c));
      Runner runner;
      const Planned p = planned(c);
      const Evaluation e = evaluation(p, runner);
      EXPECT_EQ(e.graph.micro_batches(), c.micro_batches);
      const Graph& whole = e.graph.whole_graph();
      Arrays inputs;
      Rng rng(5);
      for (const TensorId id : whole.inputs)
        inputs[whole.tensor(id).name] = drawn_values(whole, id, whole.tensor(id).shape, rng);
      const Arrays parts = run_forward(e.graph, e.plan, p.cluster, inputs, {}, 7, kernels());
      const Arrays all = run_forward(whole, single_plan(whole, one), one, inputs, {}, 7, kernels());
      ASSERT_EQ(parts.size(), all.size());
      for (const auto& [name, values] : all) EXPECT_LE(relative_error(parts.at(name), values), 1e-12) << name;
    }
}

// ---------------------------------------------------------------- refusals

TEST(MicroBatches, AreRefusedByName) {
  const auto error = [](const Case& c) { return error_of([&] { planned(c); }); };
  EXPECT_NE(error({.model = "zoo:resnet-18?image=32", .search = "single", .micro_batches = 2})
                .find("(batch_norm) cannot act on a part of the batch of"),
            std::string::npos);
  EXPECT_NE(error({.model = "zoo:mlp", .search = "single", .micro_batches = 9}).find("a batch of 8 has no 9 parts"),
            std::string::npos);
}

}  // namespace
}  // namespace partita

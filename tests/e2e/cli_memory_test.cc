// Compares the memory and communication that `plan` prints with numbers by hand; tests traces of representatives, and
// plans that hold their model's configuration.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "program.h"

namespace partita {
namespace {

int64_t sum_of(const Json& kinds) {
  int64_t sum = 0;
  for (const Json& bytes : kinds) sum += bytes.get<int64_t>();
  return sum;
}

// Two layers of 8 x 8 weights in float32 are 512 bytes. Adam keeps two more of each; data parallelism over 4 devices
// sends 2 (4 - 1) x 512 bytes in its all-reduces, a quarter of it by each device.
TEST(CliMemory, KindsAndBytesOfADevice) {
  const Words model = {"plan", "zoo:mlp?layers=2,width=8,bias=0", "--batch", "8", "--devices", "4"};
  const auto planned = [&](const Words& more) {
    Words words = model;
    words.insert(words.end(), more.begin(), more.end());
    return json_of(words);
  };
  const Json sgd = planned({"--search", "data-parallel"}),
             adam = planned({"--search", "data-parallel", "--optimizer", "adam"});
  EXPECT_EQ(sgd["comm_bytes"], 6 * 512);
  EXPECT_EQ(sgd["comm_bytes_per_device"], 6 * 512 / 4);
  EXPECT_EQ(sgd["peak_memory_by_kind"]["weights"], 512);
  EXPECT_EQ(adam["peak_memory_by_kind"]["weights"], 512);
  EXPECT_GE(adam["peak_memory_by_kind"]["optimizer states"], 2 * 512);
  EXPECT_FALSE(sgd["peak_memory_by_kind"].contains("optimizer states"));
  for (const Json& plan : {sgd, adam}) EXPECT_EQ(sum_of(plan["peak_memory_by_kind"]), plan["peak_memory_bytes"]);
  const Json estimate = json_of({"plan", "zoo:lenet", "--batch", "24", "--cluster", "p2.8xlarge", "--search", "swap"});
  EXPECT_FALSE(estimate.contains("peak_memory_by_kind"));
}

// gpipe holds each micro-batch until its backward pass: those that are not lowered are a kind of their own.
TEST(CliMemory, MicroBatchesThatAreNotLoweredAreAKind) {
  const Json plan =
      json_of({"plan", "zoo:gpt2?layers=8,hidden=32,heads=2,vocabulary=64,steps=16", "--batch", "512", "--cluster",
               "dgx-h100", "--devices", "2", "--search", "pipeline?stages=2,schedule=gpipe,micro-batches=256"});
  EXPECT_GT(plan["peak_memory_by_kind"]["further micro-batches"], 0);
  EXPECT_EQ(sum_of(plan["peak_memory_by_kind"]), plan["peak_memory_bytes"]);
}

// Language models train with clipped gradients. A plan without clipping says what its memory does not have.
TEST(CliMemory, SaysThatGradientsAreFreedAsTheyAreUsed) {
  const auto says = [](const Words& more) {
    Words words = {"plan",  "zoo:gpt2?layers=2,hidden=64,heads=2,vocabulary=128,steps=32", "--batch", "8", "--search",
                   "single"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out.find("--clip-norm 1") != std::string::npos;
  };
  EXPECT_TRUE(says({}));
  EXPECT_FALSE(says({"--clip-norm", "1"}));
  EXPECT_FALSE(says({"--micro-batches", "2"}));
  EXPECT_EQ(partita({"plan", "zoo:lenet", "--search", "single"}).out.find("--clip-norm"), std::string::npos);
}

// Three layers of 64 x 64 weights, 16,384 bytes each, whose gradients come one after another, each used up before the
// next is made: without keep_gradients one is there at a time. Kept, two more of them are there at the peak. Everything
// else at either peak (activations of 4 samples) takes less than a third of one. A bucket would hold all gradients back
// for their all-reduce.
TEST(CliMemory, KeptGradientsStayUntilTheLastUpdate) {
  const int64_t one = 64 * 64 * 4;
  const auto planned = [&](const std::string& optimizer, const Words& more) {
    const Words words = {
        "plan",       "zoo:mlp?layers=3,width=64,input=64,classes=64,bias=0,loss=mse", "--batch", "4", "--bucket", "0",
        "--optimizer"};
    return json_of(with(with(words, {optimizer}), more));
  };
  const auto least = [](const Json& plan) { return plan["least_memory_bytes"].get<int64_t>(); };
  for (const std::string optimizer : {"sgd", "adagrad", "adamw?beta2=0.95", "sgd?momentum=0.9"}) {
    const std::string kept = optimizer + (optimizer.find('?') == std::string::npos ? "?" : ",") + "keep_gradients=1";
    for (const Words& search : {Words{"--search", "single"}, Words{"--devices", "2", "--search", "data-parallel"}}) {
      const Json freed = planned(optimizer, search), stays = planned(kept, search);
      EXPECT_EQ(stays["peak_memory_by_kind"]["gradients"], 3 * one) << kept;
      EXPECT_EQ(sum_of(stays["peak_memory_by_kind"]), stays["peak_memory_bytes"]);
      EXPECT_NEAR(static_cast<double>(least(stays) - least(freed)), 2.0 * one, one / 3.0) << kept;
    }
    // ZeRO-2: each of four devices keeps its quarters. Memory is fullest when the last gradient is whole, before its
    // scatter.
    const Json zero = planned(kept, {"--devices", "4", "--search", "zero"});
    EXPECT_EQ(zero["peak_memory_by_kind"]["gradients"], one + 2 * one / 4);
  }
}

TEST(CliMemory, KeptGradientsAreInThePlan) {
  const Words model = {"plan",       "zoo:mlp?layers=3,width=64,bias=0",
                       "--batch",    "8",
                       "--devices",  "2",
                       "--search",   "data-parallel",
                       "--bucket",   "0",
                       "--optimizer"};
  const std::string plan = scratch("kept.json");
  const Outcome made = partita(with(model, {"sgd?keep_gradients=1", "-o", plan}));
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("gradients      all are kept until the last update of the step"), std::string::npos)
      << made.out;
  const Json planned = json_of(with(model, {"sgd?keep_gradients=1"})), simulated = json_of({"simulate", plan}),
             freed = json_of(with(model, {"sgd"}));
  EXPECT_EQ(simulated["peak_memory_bytes"], planned["peak_memory_bytes"]);
  EXPECT_GT(planned["least_memory_bytes"], freed["least_memory_bytes"]);
  // Weights are the same to the bit.
  const auto trained = [&](const Words& words, const std::string& name) {
    const Outcome o = partita(with(with({"train"}, words), {"--steps", "4", "--save", scratch(name)}));
    EXPECT_EQ(o.code, 0) << o.err;
    return contents(scratch(name));
  };
  Words of_model(model.begin() + 1, model.end());
  const std::string expected = trained(with(of_model, {"sgd"}), "freed.safetensors");
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(trained({plan}, "kept.safetensors"), expected);
  EXPECT_EQ(trained(with(of_model, {"sgd?keep_gradients=1"}), "model.safetensors"), expected);
}

TEST(CliMemory, KeptGradientsAreRefusedWithoutUpdatesThatReadThem) {
  for (const char* optimizer : {"adam?fine=1,keep_gradients=1", "adam?keep_gradients=2", "adam?keep_gradient=1"}) {
    const Outcome o = partita({"plan", "zoo:lenet", "--search", "single", "--optimizer", optimizer});
    EXPECT_EQ(o.code, 2) << o.out;
    EXPECT_NE(o.err.find("keep_gradients"), std::string::npos) << o.err;
  }
}

std::set<std::string> devices_in(const std::string& trace) {
  std::set<std::string> names;
  const Json json = Json::parse(contents(trace));
  for (const Json& event : json.at("traceEvents"))
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      names.insert(event.at("args").at("name").get<std::string>());
  return names;
}

// 1024 devices in 128 micro-batches are too many invocations for a trace: representatives stand for all.
TEST(CliTrace, RepresentativesStandForAStepThatIsTooLarge) {
  const std::string plan = scratch("plan.json"), trace = scratch("trace.json");
  const Json figures =
      json_of({"plan", "zoo:gpt2?layers=8,hidden=256,heads=8,vocabulary=512,steps=64", "--batch", "8192", "--cluster",
               "dgx-h100:128", "--search", "megatron?tensor=8,pipeline=2,micro-batches=128", "-o", plan});
  ASSERT_TRUE(figures.contains("typical_devices"));
  expect_error({"simulate", plan, "--trace", trace, "--trace-devices", "all"}, 2, {"invocations", "representatives"});
  const Outcome o = partita({"simulate", plan, "--trace", trace});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find(fmt::format("{} of {} of 1024 devices\n", trace, figures["typical_devices"].size())),
            std::string::npos)
      << o.out;
  const std::set<std::string> devices = devices_in(trace);
  for (const Json& name : figures["typical_devices"]) EXPECT_TRUE(devices.contains(name.get<std::string>())) << name;
}

TEST(CliTrace, OfASmallStepHasAllDevicesUnlessRepresentativesAreAskedFor) {
  const std::string plan = scratch("plan.json"), trace = scratch("trace.json");
  json_of(
      {"plan", "zoo:mlp?layers=2,width=16", "--batch", "8", "--devices", "4", "--search", "data-parallel", "-o", plan});
  EXPECT_EQ(partita({"simulate", plan, "--trace", trace}).code, 0);
  EXPECT_GE(devices_in(trace).size(), 4u);
  expect_error({"simulate", plan, "--trace-devices", "all"}, 2, {"--trace"});
  expect_error({"simulate", plan, "--trace", trace, "--trace-devices", "some"}, 2, {"--trace-devices"});
}

// The folder of the model may be gone: the plan holds its configuration.
TEST(CliPlanFiles, HoldTheConfigurationOfTheirModel) {
  const std::string folder = scratch("model"), plan = scratch("plan.json"), trained = scratch("trained.safetensors");
  std::filesystem::create_directories(folder);
  std::filesystem::copy(data("huggingface/tiny-bert-lm/config.json"), folder + "/config.json",
                        std::filesystem::copy_options::overwrite_existing);
  const Json before =
      json_of({"plan", folder, "--batch", "2", "--devices", "2", "--search", "data-parallel", "-o", plan});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(json_of({"simulate", plan})["step_time_us"], before["step_time_us"]);
  EXPECT_EQ(partita({"train", plan, "--steps", "1", "--save", trained}).code, 0);
  expect_error({"plan", folder, "--devices", "2"}, 3, {folder, "no such file or folder"});
}

TEST(CliPlanFiles, SayWhichModelIsNotThere) {
  const std::string model = scratch("model.onnx"), plan = scratch("plan.json");
  std::filesystem::copy(data("mlp.onnx"), model, std::filesystem::copy_options::overwrite_existing);
  json_of({"plan", model, "--batch", "4", "--devices", "2", "--search", "data-parallel", "-o", plan});
  std::filesystem::remove(model);
  expect_error({"simulate", plan}, 3, {plan, model});
  expect_error({"show", "mpl"}, 3, {"mpl", "no such file or folder", "mlp"});
}

}  // namespace
}  // namespace partita

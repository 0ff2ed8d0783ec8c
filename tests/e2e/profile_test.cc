// Tests the command `profile`, plans that take their times from its file, and `compare --measure`.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "program.h"

namespace partita {
namespace {

const std::string kModel = "zoo:mlp?width=16,batch=8,layers=2";

Words profile_of(const std::string& file, const Words& targets) {
  Words words = {"profile"};
  words.insert(words.end(), targets.begin(), targets.end());
  for (const char* word : {"--devices", "2", "--seconds", "0.001", "-o"}) words.emplace_back(word);
  words.push_back(file);
  return words;
}

// A file that is not there yet.
std::string fresh(const std::string& name) {
  const std::string file = scratch(name);
  std::filesystem::remove(file);
  return file;
}

// One profile for all tests of this file would be quicker, but cases run in processes of their own.
TEST(CliProfile, HasEveryKernelThatPlansOfTheModelAskFor) {
  const std::string file = fresh("profile.json");
  const Json report = json_of([&] {
    Words words = profile_of(file, {kModel});
    words.emplace_back("--json");
    return words;
  }());
  EXPECT_GT(report["kernels"], 20);
  EXPECT_EQ(report["left_out"].size(), 0u);
  const Json profile = Json::parse(contents(file));
  std::set<std::string> curves;
  for (const Json& curve : profile["curves"]) curves.insert(curve["of"]);
  EXPECT_EQ(curves, (std::set<std::string>{"all-gather", "all-reduce", "all-to-all", "copy", "load", "output",
                                           "reduce-scatter", "transfer"}));
  // Whatever the plan, no kernel's time is a guess.
  for (const char* search : {"single", "data-parallel", "model-parallel", "tofu", "exact", "megatron", "zero"}) {
    const Json plan = json_of({"plan", kModel, "--devices", "2", "--search", search, "--profile", file});
    EXPECT_EQ(plan["estimated_kernels"], 0) << search;
    EXPECT_GT(plan["kernels"], 5) << search;
    EXPECT_EQ(plan["nominal"], false);
  }
  // A second run finds all that it needs. One more model adds only its kernels.
  const Outcome again = partita(profile_of(file, {kModel}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("0 kernels and 0 points of curves now"), std::string::npos) << again.out;
  EXPECT_TRUE(Json::parse(contents(file)) == profile);
  // If runs were much longer than their medians, that is said. The measured means are not asked: a busy machine has
  // other ones.
  const auto told_of_means = [&profile](double times) {
    Json changed = profile;
    for (Json& kernel : changed["kernels"]) kernel["mean_us"] = times * kernel["us"].get<double>();
    return partita(profile_of(put("means.json", changed.dump()), {kModel})).err;
  };
  EXPECT_EQ(told_of_means(1).find("often interrupted"), std::string::npos);
  const std::string often = told_of_means(3);
  EXPECT_NE(often.find("often interrupted: their runs took 3.0 times their medians"), std::string::npos) << often;
  const Json other =
      json_of({"plan", "zoo:mlp?width=24,batch=8,layers=2", "--devices", "2", "--search", "tofu", "--profile", file});
  EXPECT_GT(other["estimated_kernels"], 0);
}

TEST(CliProfile, OfAPlanIsOfItsKernels) {
  const std::string plan = scratch("plan.json"), file = fresh("profile.json");
  ASSERT_EQ(partita({"plan", kModel, "--devices", "2", "--search", "tofu", "-o", plan}).code, 0);
  const Outcome o = partita(profile_of(file, {plan}));
  ASSERT_EQ(o.code, 0) << o.err;
  const Json simulated = json_of({"simulate", plan, "--profile", file});
  EXPECT_EQ(simulated["estimated_kernels"], 0);
  EXPECT_EQ(json_of({"simulate", plan})["nominal"], true);
  EXPECT_NE(partita({"simulate", plan}).out.find("nominal: without a profile of this machine"), std::string::npos);
}

TEST(CliProfile, APlanKnowsThatItWasMadeWithOne) {
  const std::string plan = scratch("plan.json"), file = fresh("profile.json");
  const Outcome measured = partita(profile_of(file, {kModel}));
  ASSERT_EQ(measured.code, 0) << measured.err;
  const Words words = {"plan", kModel, "--devices", "2", "--search", "tofu", "--profile", file};
  Words kept = words;
  kept.insert(kept.end(), {"-o", plan});
  const Json made = json_of(kept);
  const Json with = json_of({"simulate", plan, "--profile", file}), without = json_of({"simulate", plan});
  EXPECT_EQ(with["step_time_us"], made["step_time_us"]);
  EXPECT_EQ(with["measured_on"], made["measured_on"]);
  EXPECT_FALSE(with.contains("made_with_profile_of"));
  EXPECT_NE(without["step_time_us"], made["step_time_us"]);
  EXPECT_EQ(without["made_with_profile_of"], made["measured_on"]);
  const std::string text = partita({"simulate", plan}).out;
  EXPECT_NE(text.find("nominal: the plan was made with a profile of " + made["measured_on"].get<std::string>() +
                      ", which --profile FILE gives"),
            std::string::npos)
      << text;
  Words pinned = words;
  pinned.insert(pinned.end(), {"--pin", plan});
  EXPECT_EQ(json_of(pinned)["comm_bytes"], made["comm_bytes"]);
}

TEST(CliProfile, OfTwoAtOnceNothingIsLost) {
  const std::string file = put("profile.json", "");  // of no bytes, as mktemp makes one
  const Child one = start(profile_of(file, {kModel}));
  const Child two = start(profile_of(file, {"zoo:mlp?width=24,batch=8,layers=2"}));
  for (const Child& child : {one, two}) EXPECT_EQ(finish(child).code, 0);
  for (const std::string& model : {kModel, std::string("zoo:mlp?width=24,batch=8,layers=2")}) {
    const Outcome again = partita(profile_of(file, {model}));
    EXPECT_NE(again.out.find("0 kernels and 0 points of curves now"), std::string::npos) << again.out << again.err;
  }
}

TEST(CliProfile, LooksAtWhatIsAskedBeforeItMeasures) {
  const std::string file = fresh("profile.json"), plan = scratch("plan.json");
  expect_error(profile_of(file, {kModel, "zoo:nosuch"}), 3, {"unknown model 'zoo:nosuch'"});
  EXPECT_FALSE(std::filesystem::exists(file));
  expect_error({"profile", kModel, "--devices", "1000", "-o", file}, 2, {"--devices is 1000", "at most"});
  expect_error({"profile", kModel, "--seconds", "1e300", "-o", file}, 2, {"at most 60"});
  ASSERT_EQ(
      partita({"plan", kModel, "--cluster", "dgx-h100", "--devices", "2", "--search", "data-parallel", "-o", plan})
          .code,
      0);
  expect_error(profile_of(file, {plan}), 3, {"devices of type 'H100'", "--worklist"});
  const std::string other = put("other.json", R"({"kernels": []})");
  expect_error({"profile", plan, "--worklist", other}, 3, {"other.json: is there already, and no work list"});
  EXPECT_EQ(contents(other), R"({"kernels": []})");
}

TEST(CliProfile, IsInterruptedAtOnceAndHasAFile) {
  const std::string file = fresh("profile.json");
  const Child child = start({"profile", kModel, "--devices", "2", "--seconds", "60", "-o", file});
  for (int i = 0; i < 1200 && contents(file).empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(kill(child.pid, SIGINT), 0);
  const Outcome o = finish(child);
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_NE(o.err.find("has what was measured"), std::string::npos) << o.err;
  EXPECT_GT(Json::parse(contents(file))["machine"]["task_us"], 0);
}

TEST(CliProfile, IsWrittenThroughWhatIsNoFile) {
  Words words = profile_of("/dev/null", {kModel});
  EXPECT_EQ(partita(words).code, 0);
  words.back() = "/dev/stdout";
  const Outcome o = partita(words);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(Json::parse(o.out.substr(0, o.out.find("\n}\n") + 3))["device"], "core");
  words.back() = "/dev/full";
  expect_error({"predict", "/dev/full", "--cluster", "dgx-h100"}, 3, {"/dev/full", "does not end"});
  EXPECT_EQ(partita(words).code, 3);
}

TEST(CliProfile, OfAnotherMachineIsNamed) {
  const auto profile = [](const std::string& name, const std::string& device, const std::string& engine) {
    return put(name, fmt::format(R"({{"schema_version": 1, "device": "{}", "machine": {{"name": "Z80", "engine": "{}",
                                      "cores": 0}}, "kernels": []}})",
                                 device, engine));
  };
  const Words plan = {"plan", kModel, "--devices", "2", "--search", "data-parallel", "--profile"};
  Words local = plan, gpu = plan;
  local.push_back(profile("local.json", "core", "partita, ATen"));
  gpu.insert(gpu.end(), {profile("gpu.json", "H100", "torch 2.9.0, cpu"), "--cluster", "dgx-h100"});
  const Outcome here = partita(local), there = partita(gpu);
  EXPECT_NE(here.err.find("the profile is of Z80 (0 cores), and this machine is"), std::string::npos) << here.err;
  Words train = local;
  train[0] = "train";
  train.insert(train.end(), {"--steps", "1"});
  const Outcome trained = partita(train);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find("the profile is of Z80 (0 cores), and this machine is"), std::string::npos) << trained.err;
  EXPECT_NE(there.err.find("the profile of 'H100' was measured on a CPU, Z80"), std::string::npos) << there.err;
  EXPECT_NE(there.out.find("measured on Z80 (torch 2.9.0, cpu)"), std::string::npos) << there.out;
  EXPECT_EQ(there.err.find("this machine"), std::string::npos) << there.err;
}

TEST(CliProfile, BadFilesAreRefused) {
  const auto refused = [](const Words& words, int code, const std::string& message) {
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_NE(o.err.find(message), std::string::npos) << o.err;
  };
  const std::string elsewhere = put("elsewhere.json",
                                    R"({"schema_version": 1, "device": "core", "machine": {"name": "another machine",
                                        "engine": "partita, ATen", "cores": 512}, "kernels": []})");
  refused(profile_of(elsewhere, {kModel}), 3, "this is a profile of 'core' on another machine");
  EXPECT_NE(contents(elsewhere).find("another machine"), std::string::npos);
  const std::string gpu = put("gpu.json", R"({"schema_version": 1, "device": "H100", "machine": {"name": "H100",
                                              "engine": "torch"}, "kernels": []})");
  refused({"plan", kModel, "--devices", "2", "--profile", gpu}, 3,
          "this profile is of devices of type 'H100'; cluster 'local:2' has: core");
  refused({"plan", kModel, "--devices", "2", "--profile", put("bad.json", "{}")}, 3, "'schema_version' is missing");
  refused({"plan", kModel, "--devices", "2", "--profile", "/nowhere.json"}, 3, "/nowhere.json");
  refused({"profile", kModel}, 2, "-o");
  refused({"compare", kModel, "--cluster", "dgx-1", "--search", "tofu", "--measure"}, 2,
          "runs the plans on this machine");
  refused({"compare", kModel, "--search", "tofu", "--trace", scratch("t.json")}, 2, "give both");
}

TEST(CliCompare, MeasuresBesideThePrediction) {
  const std::string file = fresh("profile.json"), trace = scratch("trace.json");
  ASSERT_EQ(partita(profile_of(file, {kModel})).code, 0);
  const Words measure = {"compare",   kModel,      "--devices", "2",         "--search", "data-parallel,tofu",
                         "--measure", "--seconds", "0.05",      "--profile", file};
  Words with_trace = measure;
  with_trace.insert(with_trace.end(), {"--trace", trace});
  const Json rows = json_of(with_trace)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows) {
    const double measured = row["measured_step_time_us"], predicted = row["step_time_us"];
    EXPECT_GT(measured, 0);
    EXPECT_NEAR(row["error"], predicted / measured - 1, 1e-6);
    EXPECT_GT(row["drift"], 0.1);
    EXPECT_GE(row["others_cores"], 0);
  }
  std::set<std::string> processes;
  const Json both = Json::parse(contents(trace));
  for (const Json& event : both["traceEvents"])
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
  for (const char* name : {"data-parallel predicted: cpu0", "data-parallel measured: cpu0", "tofu measured: cpu1"})
    EXPECT_TRUE(processes.contains(name)) << name << " is none of " << Json(processes).dump();
  const Outcome text =
      partita({"compare", kModel, "--devices", "2", "--search", "tofu", "--measure", "--seconds", "0.05"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("measured"), std::string::npos);
  EXPECT_NE(text.err.find("without --profile predicted times are nominal"), std::string::npos) << text.err;
}

}  // namespace
}  // namespace partita

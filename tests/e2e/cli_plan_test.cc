// Tests `partita plan`, `explain` and `solve` as a user meets them: remedies, budgets, interrupts, proofs, trails.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <sstream>

#include "keys.h"
#include "partita/base/testing/patterns.h"
#include "partita/network/problem.h"
#include "program.h"

namespace partita {
namespace {

// Changes that are said to help do; those that do not are not offered.
TEST(CliErrors, WhatWouldMakeAPlanFit) {
  const Words asked = {"plan", "zoo:mlp?layers=6,width=64", "--batch", "64", "--devices", "4"};
  auto with = [&](const Words& more) {
    Words words = asked;
    words.insert(words.end(), more.begin(), more.end());
    return partita(words);
  };
  const std::string offer("(--[a-z][^(]*) \\(at least [0-9.]+ [kM]?B a device, [0-9.]+ [num]?s a step\\)");
  int offers = 0;
  for (const char* limit : {"88kB", "120kB", "160kB"}) {
    const Outcome o = with({"--search", "data-parallel", "--memory-limit", limit});
    ASSERT_EQ(o.code, 4) << o.err;
    for (const auto& match : all_matches(o.err, offer)) {
      ++offers;
      Words words = {"--memory-limit", limit};
      std::istringstream text(match[1]);
      for (std::string word; text >> word;) words.push_back(word);
      if (std::find(words.begin(), words.end(), "--search") == words.end())
        words.insert(words.end(), {"--search", "data-parallel"});
      Words command = asked;
      for (size_t w = 0; w + 1 < words.size(); w += 2) {  // the offer's options replace those that were asked
        if (words[w] == "--cluster")
          command.erase(std::find(command.begin(), command.end(), "--devices"),
                        std::find(command.begin(), command.end(), "--devices") + 2);
        const auto given = std::find(command.begin(), command.end(), words[w]);
        if (given != command.end()) *std::next(given) = words[w + 1];
        else command.insert(command.end(), {words[w], words[w + 1]});
      }
      EXPECT_EQ(partita(command).code, 0) << match[1];
    }
  }
  EXPECT_GT(offers, 0);
  const Outcome none = with({"--search", "data-parallel", "--memory-limit", "2kB"});
  EXPECT_EQ(none.code, 4);
  EXPECT_EQ(none.err.find("it fits with"), std::string::npos) << none.err;
}

// With as much memory as a message says that a plan needs, it can be made: the plan that was asked for, and the changes
// that were tried.
TEST(CliErrors, WhatAPlanNeedsIsEnough) {
  const Words asked = {"plan", "zoo:mlp?layers=6,width=64", "--batch", "64", "--devices", "2"};
  const Outcome o = partita(with(asked, {"--search", "data-parallel", "--memory-limit", "20kB"}));
  ASSERT_EQ(o.code, 4) << o.err;
  const auto enough = [&](const Words& more, const std::string& amount) {
    const Outcome made = partita(with(with(asked, more), {"--memory-limit", amount}));
    EXPECT_EQ(made.code, 0) << amount << ": " << made.err;
  };
  const std::vector<std::string> needs = first_match(o.err, "does not fit: [^;]* needs at least ([0-9.]+ [kM]?B) ");
  ASSERT_FALSE(needs.empty()) << o.err;
  enough({"--search", "data-parallel"}, needs[1]);
  int trials = 0;
  for (const auto& tried :
       all_matches(o.err, "(?:any of|\\),) (--[a-z][^(;]*) \\(needs at least ([0-9.]+ [kM]?B)\\)")) {
    std::istringstream text(tried[1]);
    Words more;
    for (std::string word; text >> word;) more.push_back(word);
    if (more[0] == "--batch" || tried[1].find("--cluster") != std::string::npos) continue;
    if (tried[1].find("--search") == std::string::npos) more.insert(more.end(), {"--search", "data-parallel"});
    enough(more, tried[2]), ++trials;
  }
  EXPECT_GE(trials, 2) << o.err;
}

// A sample a device and nothing to make micro-batches of: groups of devices that divide operations have them.
TEST(CliErrors, OffersTensorGroupsWhereSamplesAreFew) {
  const Words asked = {"plan",           "zoo:gpt2?layers=2,hidden=64,heads=4,vocabulary=256,steps=256",
                       "--batch",        "4",
                       "--devices",      "4",
                       "--memory-limit", "3MB"};
  const Outcome o = partita(with(asked, {"--search", "fsdp"}));
  EXPECT_EQ(o.code, 4) << o.err;
  const std::vector<std::string> offer =
      first_match(o.err, "it fits with --search (megatron[^ ]*) --micro-batch-size 1 \\(");
  ASSERT_FALSE(offer.empty()) << o.err;
  const Outcome made = partita(with(asked, {"--search", offer[1], "--micro-batch-size", "1"}));
  EXPECT_EQ(made.code, 0) << made.err;
  const Outcome none = partita(with(Words(asked.begin(), asked.end() - 1), {"2MB", "--search", "fsdp"}));
  EXPECT_EQ(none.code, 4) << none.err;
  EXPECT_NE(none.err.find("--batch 2 cannot be: zero: input 'tokens' has 2 samples, too few for 4 devices"),
            std::string::npos)
      << none.err;
}

// If neither smaller micro-batches nor recomputing whole layers are enough, both are.
TEST(CliErrors, OffersMicroBatchesWithRecomputation) {
  Words asked = {"plan",      "zoo:gpt2?layers=8,hidden=256,heads=4,vocabulary=1000,steps=256",
                 "--batch",   "64",
                 "--cluster", "dgx-a100",
                 "--search",  "fsdp"};
  const auto peak = [&](const Words& more) -> int64_t { return json_of(with(asked, more))["least_memory_bytes"]; };
  const int64_t micro = peak({"--micro-batch-size", "1"}), layer = peak({"--recompute", "layer"}),
                both = peak({"--micro-batch-size", "1", "--recompute", "layer"});
  ASSERT_LT(both, std::min(micro, layer) * 0.97);
  asked.insert(asked.end(), {"--memory-limit", std::to_string((both + std::min(micro, layer)) / 2) + "B"});
  const Outcome o = partita(asked);
  EXPECT_EQ(o.code, 4) << o.err;
  EXPECT_TRUE(has_match(o.err, "it fits with --micro-batch-size [0-9]+ --recompute layer \\(")) << o.err;
}

// A bound of `exact` is of the step as it was asked for.
TEST(CliErrors, SaysWhatAProofIsWithout) {
  const auto refused = [](const Words& more) {
    Words words = {
        "plan", "zoo:mlp?layers=3,width=64", "--batch", "64", "--devices", "2", "--search", "exact", "--memory-limit",
        "9kB"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, 4) << o.err;
    return o.err;
  };
  EXPECT_NE(refused({}).find(", without recomputation or micro-batches"), std::string::npos) << refused({});
  const std::string with_both = refused({"--recompute", "layer", "--micro-batches", "4"});
  EXPECT_NE(with_both.find("proved: "), std::string::npos) << with_both;
  EXPECT_EQ(with_both.find(", without"), std::string::npos) << with_both;
  EXPECT_NE(refused({"--micro-batches", "4"}).find(", without recomputation;"), std::string::npos);
}

// One sample a device cannot be divided further. The largest of several micro-batches that fit is offered, and the
// fastest change first.
TEST(CliErrors, OffersWhatChangesSomethingAndTheFastestFirst) {
  const auto refused = [](const char* batch, const char* limit) {
    const Outcome o = partita({"plan", "zoo:gpt2?layers=4,hidden=256,heads=4,vocabulary=1000,steps=256", "--batch",
                               batch, "--cluster", "dgx-a100", "--search", "fsdp", "--memory-limit", limit});
    EXPECT_EQ(o.code, 4) << o.err;
    return o.err;
  };
  const std::string one = refused("8", "18MB");
  EXPECT_EQ(one.find("--micro-batch-size"), std::string::npos) << one;
  const std::string several = refused("128", "150MB");
  const std::vector<std::string> size = first_match(several, "--micro-batch-size ([0-9]+) ");
  ASSERT_FALSE(size.empty()) << several;
  EXPECT_GT(std::stoi(size[1]), 1) << several;
  std::vector<double> times;
  for (const auto& offer : all_matches(several, "a device, ([0-9.]+) ms a step")) times.push_back(std::stod(offer[1]));
  ASSERT_GE(times.size(), 2u) << several;
  EXPECT_LE(times[0], times[1]);
}

TEST(CliErrors, NoPlanFits) {
  for (const char* search : {"single", "data-parallel", "model-parallel"})
    expect_error({"plan", "zoo:lenet", "--devices", "2", "--search", search, "--memory-limit", "100kB"}, 4,
                 {"has 100.0 kB", "missing", "weights", "activations"});
  const Outcome o = partita({"plan", "zoo:lenet", "--devices", "2", "--memory-limit", "100000B"});
  EXPECT_EQ(o.code, 4);
  EXPECT_NE(o.err.find("missing"), std::string::npos) << o.err;
  // The memory deficit is exact: with so much more it fits. With the least that fits, there is no overlap budget.
  const int64_t peak = json_of({"plan", "zoo:lenet", "--devices", "2", "--search", "soybean"})["peak_memory_bytes"];
  auto limited = [](int64_t bytes) {
    return partita(
        {"plan", "zoo:lenet", "--devices", "2", "--search", "soybean", "--memory-limit", std::to_string(bytes) + "B"});
  };
  int64_t refused = 100000, fits = peak;
  EXPECT_EQ(limited(peak).code, 0);
  while (fits - refused > 1) {
    const int64_t middle = (refused + fits) / 2;
    (limited(middle).code == 0 ? fits : refused) = middle;
  }
  const Outcome least = limited(fits - 1);
  EXPECT_EQ(least.code, 4);
  EXPECT_NE(least.err.find("(1 bytes missing)"), std::string::npos) << least.err;
}

// Every two of `variables` differ, in a problem of the public format; so many values each, with costs that make the
// best hard to prove.
std::string all_different(int variables, int values) {
  Json costs = Json::array(), usages = Json::array(), pairs = Json::array(), tables = Json::array();
  int64_t next = 1;
  auto cost = [&] { return (next = next * 48271 % 2147483647) % 1000; };
  for (int v = 0; v < variables; ++v) {
    usages.push_back(std::vector<int>(values, 0));
    costs.push_back(std::vector<int>(values, 0));
    for (int w = v + 1; w < variables; ++w) {
      pairs.push_back({v, w});
      tables.push_back(Json::array());
      for (int k = 0; k < values * values; ++k)
        tables.back().push_back(k % (values + 1) == 0 ? 1'000'000'000'000'000'000 : cost());
    }
  }
  return Json{
      {"problem",
       {{"nodes",
         {{"intervals", std::vector<std::vector<int>>(variables, {0, 0})}, {"costs", costs}, {"usages", usages}}},
        {"edges", {{"nodes", pairs}, {"costs", tables}}}}}}
      .dump();
}

TEST(CliSolve, InterruptedKeepsTheBest) {
  Outcome o = interrupted({"solve", put("pigeons.json", all_different(14, 13))}, "cost -");
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_TRUE(o.out.ends_with("\n[]\n")) << o.out;
  o = interrupted({"solve", put("all_different.json", all_different(14, 14))}, "cost [0-9]");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("feasible after"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find("[]"), std::string::npos) << o.out;
}

TEST(CliPlan, AutoSaysWhatItIsAtAndKeepsTheBestWhenItIsToEnd) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string plan = scratch("plan.json");
    const Outcome o = interrupted(
        {"plan", "zoo:inception-v3", "--batch", "64", "--cluster", "dgx-1", "--objective", "time", "-o", plan},
        " s  auto: ", signal);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.err.find("interrupted: this is the best plan so far"), std::string::npos) << o.err;
    EXPECT_NE(o.out.find("step time"), std::string::npos) << o.out;
    EXPECT_EQ(partita({"check", plan}).code, 0);
  }
}

TEST(CliPlan, WithoutAPlanAtTheLimitEndsWithItsCode) {
  for (const char* search : {"auto", "exact", "soybean", "tofu", "icml18", "megatron"})
    expect_error({"plan", "zoo:resnet-50", "--cluster", "dgx-1", "--search", search, "--time-limit", "0.001"}, 5,
                 {"the time limit passed"});
}

TEST(CliPlan, BeginsWithAPlan) {
  const Words mlp = {"plan", "zoo:mlp?layers=3", "--devices", "4"};
  auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string soybean = scratch("soybean.json"), exact = scratch("exact.json");
  const int64_t begun = json_of(with(mlp, {"--search", "soybean", "-o", soybean}))["comm_bytes"];
  for (const char* steps : {"0", "50"}) {
    const Json json = json_of(with(mlp, {"--search", "exact", "--from", soybean, "--max-steps", steps, "-o", exact}));
    EXPECT_LE(json["comm_bytes"], begun);
    EXPECT_EQ(json["search"], "exact");
    EXPECT_EQ(json_of({"check", exact})["comm_bytes"], json["comm_bytes"]);
  }
  EXPECT_LE(json_of(with(mlp, {"--from", soybean}))["comm_bytes"], begun);  // auto
  expect_error(with(mlp, {"--search", "soybean", "--from", soybean}), 2,
               {"'soybean' cannot begin with a plan", "exact"});
  expect_error(with(mlp, {"--search", "exact", "--from", "none.json"}), 3, {"none.json", "cannot be read"});
  expect_error({"plan", "zoo:mlp?layers=2", "--devices", "4", "--search", "exact", "--from", soybean}, 3,
               {soybean, "'zoo:mlp?layers=3'", "SHA-256"});
  expect_error({"plan", "zoo:mlp?layers=3", "--devices", "2", "--search", "exact", "--from", soybean}, 3,
               {soybean, "for 4", "'local:2' has 2"});
  const Outcome o = partita({"compare", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact,soybean", "--from",
                             soybean, "--max-steps", "2"});
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.err.find("soybean cannot begin with a plan"), std::string::npos) << o.err;
}

TEST(CliExplain, SaysWhatTheAlternativesWouldMove) {
  const std::string plan = scratch("plan.json"), changed = scratch("changed.json");
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=2", "--devices", "4", "-o", plan}).code, 0);
  const int64_t now = json_of({"check", plan})["comm_bytes"];
  const Json summary = json_of({"explain", plan});
  int64_t by_step = 0;
  for (const auto& [step, bytes] : summary["bytes_by_step"].items()) by_step += bytes.get<int64_t>();
  EXPECT_EQ(by_step, now);
  EXPECT_EQ(summary["comm_bytes"], now);

  // "fc1" is an op and its result; edited by hand, the plan moves what was said.
  const Json both = json_of({"explain", plan, "fc1"});
  const Json& op = both["op"]["alternatives"].back();
  Json edited = Json::parse(contents(plan));
  edited["ops"]["fc1"]["strategy"] = op["strategy"];
  EXPECT_EQ(json_of({"check", put("changed.json", edited.dump())})["comm_bytes"],
            now + op["change_bytes"].get<int64_t>());
  EXPECT_GT(op["change_bytes"], 0);
  const Json weight = json_of({"explain", plan, "fc1.weight"});
  EXPECT_FALSE(weight.contains("op"));
  EXPECT_EQ(weight["tensor"]["home"], "[S(1), S(1)]");
  EXPECT_GT(weight["tensor"]["alternatives"].size(), 4u);

  const Outcome o = partita({"explain", plan, "fc1"});
  EXPECT_EQ(o.code, 0);
  for (const char* part : {"op fc1 (linear, forward)", "reads fc1.weight as [S(1), S(1)]", "parts along index o",
                           "all-gather", "inside", "tensor fc1 (activation", "made by fc1"})
    EXPECT_NE(o.out.find(part), std::string::npos) << part << " is not in " << o.out;
  EXPECT_NE(partita({"explain", plan}).out.find("the dearest of"), std::string::npos);
  expect_error({"explain", plan, "fc1.wieght"}, 3, {plan, "'fc1.wieght'", "fc1.weight"});
}

// Other choices of an op on six mesh axes are millions: those near the plan's are listed, and it takes no lowering.
TEST(Cli, ExplainOnManyMeshAxes) {
  const std::string plan = scratch("plan.json");
  json_of({"plan", "zoo:transformer?layers=1,hidden=64,heads=8,steps=16,vocabulary=96,batch=64", "--cluster",
           "dgx-h100:8", "--search", "soybean", "-o", plan});
  const Json op = json_of({"explain", plan, "layers.0.feed_forward.up"})["op"];
  EXPECT_GT(op["alternatives"].size(), 20u);
  EXPECT_LE(op["alternatives"].size(), 4096u);
  const std::string text = partita({"explain", plan, "layers.0.feed_forward.up"}).out;
  EXPECT_TRUE(has_match(text, "[0-9]+ of [0-9]+ alternatives \\(that differ on one or two mesh axes"))
      << text.substr(0, 2000);
}

// 79 ops on 16,384 devices: planned with figures extrapolated from representatives, checked and explained, but not run.
TEST(CliPlan, OnVeryManyDevices) {
  const std::string plan = scratch("plan.json");
  const Json made = json_of({"plan", "zoo:gpt2?layers=1", "--batch", "16384", "--cluster", "dgx-h100:2048", "--search",
                             "data-parallel", "-o", plan});
  EXPECT_EQ(made["devices"], 16384);
  EXPECT_EQ(made["typical_devices"], Json({"node0.gpu0", "node1024.gpu0", "node2047.gpu7"}));
  for (const char* key : {"step_time_us", "compute_time_us", "samples_per_second"})
    EXPECT_TRUE(made.contains(key)) << key;
  const Json checked = json_of({"check", plan});
  for (const char* key : {"comm_bytes", "peak_memory_bytes", "typical_devices"})
    EXPECT_EQ(checked[key], made[key]) << key;
  EXPECT_GT(made["peak_memory_bytes"], 1'000'000);
  EXPECT_EQ(json_of({"explain", plan})["comm_bytes"], made["comm_bytes"]);
  const Outcome o = partita({"check", plan});
  EXPECT_NE(o.out.find("on one of node0.gpu0, node1024.gpu0, node2047.gpu7"), std::string::npos) << o.out;
  const Json simulated = json_of({"simulate", plan});
  for (const char* key : {"step_time_us", "compute_time_us", "comm_bytes", "peak_memory_bytes"})
    EXPECT_EQ(simulated[key], made[key]) << key;
  EXPECT_FALSE(simulated.contains("utilization"));
  expect_error({"simulate", plan, "--trace", scratch("trace.json")}, 3,
               {plan, "tasks, too many to simulate or to run"});
}

TEST(CliPlan, TheBoundsProofIsJudgedBesideAnyPlanOfTheModel) {
  const std::string exact = scratch("exact.json"), other = scratch("other.json"), bound = scratch("bound.json.gz");
  const Json json = json_of({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact", "--memory-limit",
                             "400kB", "--write-bound", bound, "-o", exact});
  const int64_t proved = json["lower_bound_comm_bytes"], bytes = json["comm_bytes"];
  EXPECT_EQ(proved, bytes);
  Json judged = json_of({"check", exact, "--bound", bound});
  EXPECT_EQ(judged["lower_bound_comm_bytes"], proved);
  EXPECT_EQ(judged["gap"], 0.0);
  EXPECT_EQ(judged["memory_limit_bytes"], 400000);
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "equal-chop", "-o", other}).code, 0);
  judged = json_of({"check", other, "--bound", bound});
  EXPECT_EQ(judged["lower_bound_comm_bytes"], proved);
  EXPECT_GT(judged["gap"], 0.0);

  // It says over which mesh it is.
  const Json one = json_of(
      {"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact?mesh=4", "--write-bound", bound, "-o", other});
  EXPECT_EQ(json_of({"check", exact, "--bound", bound})["lower_bound_comm_bytes"], one["lower_bound_comm_bytes"]);
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact", "--memory-limit", "400kB",
                     "--write-bound", bound, "-o", exact})
                .code,
            0);

  // It claims more than it proves; its numbers are others; it is of another model, cluster, space.
  const std::string text = solver::read_text(bound), claimed = fmt::format("\"{}\"", proved);
  auto edited = [&](const std::string& from, const std::string& to) {
    std::string wrong = text;
    EXPECT_NE(wrong.find(from), std::string::npos) << from;
    wrong.replace(wrong.find(from), from.size(), to);
    return put("edited.json", wrong);
  };
  expect_error({"check", exact, "--bound", edited(claimed, fmt::format("\"{}\"", proved + 1))}, 3,
               {"edited.json", fmt::format("claims a bound of {}", proved + 1), "proves"});
  expect_error(
      {"check", exact, "--bound", edited("\"memory_limit_bytes\":", "\"memory_limit_bytes\":1e30,\"before\":")}, 3,
      {"edited.json"});
  expect_error({"check", exact, "--bound", edited("\"tensor_entries\":67108864", "\"tensor_entries\":67108865")}, 3,
               {"edited.json", "tensor_entries is 67108865"});
  expect_error({"check", exact, "--bound", edited("\"extents\":[2,2]", "\"extents\":[4]")}, 3,
               {"edited.json", "variable 0"});
  expect_error({"check", exact, "--bound", edited("\"extents\":[2,2]", "\"extents\":[3,2]")}, 3,
               {"edited.json", "over mesh 3x2"});
  expect_error({"check", exact, "--bound", edited("\"space\"", "\"spaces\"")}, 3, {"edited.json", "has no space"});
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=2", "--devices", "4", "-o", other}).code, 0);
  expect_error({"check", other, "--bound", bound}, 3, {bound, "another model than 'zoo:mlp?layers=2'"});
  ASSERT_EQ(partita({"plan", "zoo:mlp?layers=3", "--devices", "2", "-o", other}).code, 0);
  expect_error({"check", other, "--bound", bound}, 3, {bound, "2x2"});

  // With pins the proof is of plans that have the same.
  const std::string pins = put(
      "pins.json",
      R"({"meshes": {"m0": {"extents": [2, 2], "devices": [0, 1, 2, 3]}}, "kept": {"fc2.weight": {"mesh": "m0", "sbp": ["B", "B"]}}})");
  const Json pinned = json_of({"plan", "zoo:mlp?layers=3", "--devices", "4", "--search", "exact", "--pin", pins,
                               "--write-bound", bound, "-o", other});
  EXPECT_GT(pinned["lower_bound_comm_bytes"], proved);
  EXPECT_EQ(json_of({"check", other, "--bound", bound})["lower_bound_comm_bytes"], pinned["lower_bound_comm_bytes"]);
  expect_error({"check", exact, "--bound", bound}, 3, {bound, "(in all 1), such as 'fc2.weight'"});
  expect_error({"plan", "zoo:mlp", "--search", "soybean", "--write-bound", bound}, 2,
               {"'soybean' cannot prove a lower bound", "exact"});
}

// A search from plan to plan leaves each time that its best became better, down to the plan that it returns.
TEST(CliPlan, TheTrailOfASearch) {
  const Json rows = json_of({"compare", "zoo:mlp?layers=3", "--cluster", "flexflow-p100", "--devices", "4",
                             "--objective", "time", "--max-steps", "600", "--search", "flexflow,soap,expert"})["rows"];
  ASSERT_EQ(rows.size(), 3u);
  for (const char* key : {"search_trail", "local_step_time_us", "local_lower_bound_us"})
    EXPECT_FALSE(rows[2].contains(key)) << key;
  for (size_t i = 0; i < 2; ++i) {
    expect_keys(rows[i], kPlanKeys, kMorePlanKeys);
    const Json& trail = rows[i]["search_trail"];
    ASSERT_GT(trail.size(), 1u) << rows[i]["search"];
    for (size_t k = 0; k < trail.size(); ++k) expect_keys(trail[k], {"proposals", "cpu_seconds", "local_step_time_us"});
    for (size_t k = 1; k < trail.size(); ++k) {
      EXPECT_LT(trail[k]["local_step_time_us"], trail[k - 1]["local_step_time_us"]) << rows[i]["search"];
      EXPECT_GE(trail[k]["proposals"], trail[k - 1]["proposals"]) << rows[i]["search"];
      EXPECT_GE(trail[k]["cpu_seconds"], trail[k - 1]["cpu_seconds"]) << rows[i]["search"];
    }
    EXPECT_EQ(trail.back()["local_step_time_us"], rows[i]["paper_cost"]) << rows[i]["search"];
    EXPECT_EQ(rows[i]["local_step_time_us"], rows[i]["paper_cost"]) << rows[i]["search"];
    EXPECT_GT(rows[i]["local_lower_bound_us"], 0) << rows[i]["search"];
    EXPECT_LE(rows[i]["local_lower_bound_us"], rows[i]["local_step_time_us"]) << rows[i]["search"];
    EXPECT_LE(trail.back()["proposals"], rows[i]["counters"]["proposals"]) << rows[i]["search"];
  }
}

TEST(CliPlan, TheObjectiveTime) {
  const Words model = {"zoo:mlp?layers=3", "--cluster", "p2.8xlarge", "--objective", "time"};
  auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), model.begin(), model.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::string exact = scratch("exact.json"), bound = scratch("bound.json.gz");
  const Json json = json_of(with({"plan"}, {"--search", "exact", "--write-bound", bound, "-o", exact}));
  expect_keys(json, kPlanKeys, kMorePlanKeys);
  EXPECT_EQ(json["objective"], "time");
  EXPECT_FALSE(json.contains("lower_bound_comm_bytes"));
  EXPECT_EQ(json["serial_time_us"], json["lower_bound_serial_time_us"]);
  const Json judged = json_of({"check", exact, "--bound", bound});
  EXPECT_EQ(judged["lower_bound_serial_time_us"], json["lower_bound_serial_time_us"]);
  EXPECT_EQ(judged["serial_time_us"], json["serial_time_us"]);
  EXPECT_EQ(judged["gap"], 0.0);

  const Json rows = json_of(with({"compare"}, {"--search", "auto,exact,tofu,single"}))["rows"];
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& row : rows) EXPECT_LE(rows[0]["step_time_us"], row["step_time_us"]) << row["search"];
  const Outcome o = partita(with({"plan"}, {"--search", "auto"}));
  EXPECT_NE(o.out.find("if nothing overlapped"), std::string::npos) << o.out;
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--objective", "speed"}, 2, {"speed"});
}

TEST(CliPlan, InterruptedWithoutAPlan) {
  // The network's solutions are a little too large for the memory planner, so that there is an end to none of the
  // rounds.
  const Words tight = {"zoo:mlp?layers=12", "--devices", "8", "--memory-limit", "70000B", "--max-steps", "100000000"};
  Words words = {"plan", "--search", "exact"};
  words.insert(words.end(), tight.begin(), tight.end());
  Outcome o = interrupted(words, "communication [0-9]");
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find("exact: interrupted before a solution was found that fits"), std::string::npos) << o.err;
  words = {"compare", "--search", "exact,soybean"};
  words.insert(words.end(), tight.begin(), tight.end());
  o = interrupted(words, "communication [0-9]");
  EXPECT_EQ(o.code, 130) << o.err;
  for (const char* row :
       {"exact .* no plan: exact: interrupted", "soybean .* no plan: interrupted before this search began"})
    EXPECT_TRUE(has_match(o.out, row)) << o.out;
}

TEST(ManyCliPlan, InterruptedKeepsTheBest) {
  const std::string plan = scratch("plan.json");
  const Outcome o = interrupted(
      {"plan", "zoo:resnet-18?image=32", "--devices", "4", "--search", "exact", "--max-steps", "100000000", "-o", plan},
      "communication [0-9]");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("interrupted: this is the best plan so far"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("MB, feasible"), std::string::npos) << o.err;
  EXPECT_EQ(partita({"check", plan}).code, 0);
}

}  // namespace
}  // namespace partita

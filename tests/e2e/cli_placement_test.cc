// Tests searches of device placement as a user meets them: interrupted, in little time, with pins.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "partita/base/testing/patterns.h"
#include "partita/device_placement/testing/no_cbc.h"
#include "program.h"

namespace partita {
namespace {

const Words kLanguageModel = {
    "zoo:rnnlm?steps=10,hidden=512,vocabulary=2000", "--batch", "64", "--cluster", "flexflow-p100", "--devices", "2"};

TEST(CliPlacement, InterruptedWhileCbcRunsKeepsTheBest) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  const std::string plan = scratch("plan.json");
  const Outcome o = interrupted(with({"plan", "--search", "pesto", "-o", plan}, kLanguageModel), "pesto: CBC solves");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("interrupted: this is the best plan so far"), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("step time"), std::string::npos) << o.out;
  EXPECT_EQ(partita({"check", plan}).code, 0);
}

// A plan of an earlier search goes on; one with everything on one device, edited by hand or not, is a start; one that
// divides operations is refused.
TEST(CliPlacement, BeginsWithAPlan) {
  const std::string long_one = scratch("long.json"), short_one = scratch("short.json"), plan = scratch("plan.json");
  const auto step_of = [&](const Words& more) {
    return json_of(with(with({"plan"}, kLanguageModel), more))["step_time_us"];
  };
  const double best = step_of({"--search", "placement", "-o", long_one});
  const double quick = step_of({"--search", "placement", "--max-steps", "0", "-o", short_one});
  EXPECT_LT(best, quick);
  // With no moves of its own it has the plan that it was given.
  EXPECT_LE(step_of({"--search", "placement", "--max-steps", "0", "--from", long_one, "-o", plan}), best);
  EXPECT_EQ(partita({"check", plan}).code, 0);
  EXPECT_LE(step_of({"--search", "placement", "--from", short_one}), quick);
  step_of({"--search", "baechi-mtopo", "-o", short_one});
  EXPECT_LE(step_of({"--search", "placement", "--max-steps", "0", "--from", short_one}), quick);
  step_of({"--search", "tofu", "-o", short_one});
  expect_error(with(with({"plan"}, kLanguageModel), {"--search", "placement", "--from", short_one}), 3,
               {"plans of whole operations", "'tofu'", "exact"});
}

// A plan with an operation of an update moved away from the parameter is no start: they stay together.
TEST(CliPlacement, ThePlanToBeginWithMayNotBeOne) {
  const Words asked = {"plan",        "zoo:rnnlm?steps=2,hidden=64,vocabulary=100",
                       "--batch",     "8",
                       "--cluster",   "flexflow-p100",
                       "--devices",   "2",
                       "--optimizer", "sgd?fine=1"};
  const std::string plan = scratch("plan.json");
  ASSERT_EQ(partita(with(asked, {"--search", "expert-placement?order=framework", "-o", plan})).code, 0);
  std::string text = contents(plan);
  const std::string moved = "\"decoder.weight.update.mul\": {\"mesh\":\"m";
  const size_t at = text.find(moved);
  ASSERT_NE(at, std::string::npos) << text;
  text[at + moved.size()] = text[at + moved.size()] == '0' ? '1' : '0';
  const std::string edited = put("edited.json", text);
  ASSERT_EQ(partita({"check", edited}).code, 0);
  const Outcome o = partita(with(asked, {"--search", "placement", "--from", edited}));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("the plan that it began with is no start: "), std::string::npos) << o.err;
}

// Other settings than the search's are named; the same ones are taken: recomputation, device types.
TEST(CliPlacement, ThePlanToBeginWithIsOfTheSameSettings) {
  const Words asked = {
      "plan",     "zoo:mlp?width=24,batch=16,layers=4", "--cluster", "flexflow-p100", "--devices", "2", "--search",
      "placement"};
  const std::string plan = scratch("plan.json");
  const auto goes_on = [&](const Words& settings) {
    const Json made = json_of(with(with(asked, settings), {"-o", plan}));
    const Json from = json_of(with(with(asked, settings), {"--max-steps", "0", "--from", plan}));
    EXPECT_LE(from["step_time_us"], made["step_time_us"]);
  };
  goes_on({"--recompute", "cheap"});
  expect_error(with(asked, {"--from", plan}), 3, {plan, "--recompute cheap", "here is none"});
  const std::string pins = put("pins.json", R"({"device_types": {"fc1": "cpu"}})");
  goes_on({"--pin", pins});
  const Outcome free = partita(with(asked, {"--from", plan}));
  EXPECT_EQ(free.code, 0) << free.err;
  EXPECT_NE(free.err.find("is no start: 'fc1' cannot run on node0.host"), std::string::npos) << free.err;
  Words pipeline(asked.begin(), asked.end() - 2);
  ASSERT_EQ(partita(with(pipeline, {"--search", "pipeline?stages=2,micro-batches=4", "-o", plan})).code, 0);
  expect_error(with(asked, {"--from", plan}), 3, {plan, "micro-batches", "here it is 1"});
}

// A profile says that a message takes 200 us, which the problem cannot express. The plan on one device is the shorter.
TEST(CliPlacement, OneDeviceIsAmongThePlansThatAreCompared) {
  const std::string profile = put("profile.json", R"({"schema_version": 1, "device": "core", "machine": {"name": "Z80",
      "engine": "none", "cores": 2, "task_us": 1, "message_us": 200}, "kernels": []})");
  const auto step_of = [&](const std::string& search) {
    return json_of({"plan", "zoo:mlp?width=24,batch=8,layers=2", "--devices", "2", "--profile", profile, "--search",
                    search})["step_time_us"];
  };
  EXPECT_LE(step_of("placement"), step_of("single"));
}

// Its program has 229,264 rows, with which CBC does not look at its clock for seconds.
TEST(CliPlacement, PestoKeepsTheTimeLimit) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  const auto begun = std::chrono::steady_clock::now();
  const Outcome o = partita({"plan", "zoo:nmt?steps=10", "--batch", "64", "--cluster", "flexflow-p100", "--devices",
                             "2", "--search", "pesto", "--time-limit", "2"});
  EXPECT_EQ(o.code, 0) << o.err;
  // The limit is kept to within a second (docs/reference/cli.md); more is for machines that are busy.
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(), 3.5);
}

// Its program has millions of rows, which CBC would read for longer than it has.
TEST(CliPlacement, PestoKeepsItsSecondsOnAProgramTooLarge) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  const auto begun = std::chrono::steady_clock::now();
  const Outcome o = partita({"plan", "zoo:nmt?steps=10", "--batch", "64", "--cluster", "dgx-h100", "--devices", "4",
                             "--search", "pesto?seconds=1"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(has_match(o.err,
                        "the program of more than [0-9]+ rows was not solved in the time: "
                        ".* ms, the best by list scheduling"))
      << o.err;
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(), 5);
}

// Sets TMPDIR while it exists.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const char* path) {
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", path, 1);
  }
  ~TemporaryFolder() {
    if (before_) setenv("TMPDIR", before_->c_str(), 1);
    else unsetenv("TMPDIR");
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  std::optional<std::string> before_;
};

// The files of cbc go to TMPDIR. `placement` needs it only for one of its starts.
TEST(CliPlacement, ATmpdirThatIsNoneIsNamed) {
  if (no_cbc()) GTEST_SKIP() << "the package coinor-cbc is not installed";
  const TemporaryFolder nowhere("/nowhere/at/all");
  const Words task = {"zoo:mlp", "--cluster", "dgx-1", "--devices", "2"};
  const std::string why = "TMPDIR is '/nowhere/at/all', which is no folder";
  for (const char* search : {"pesto", "baechi-msct"})
    expect_error(with({"plan", "--search", search}, task), 3, {why, "point TMPDIR at a folder"});
  const Outcome one = partita(with({"plan", "--search", "placement"}, task));
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.err.find("baechi-msct is no start: " + why), std::string::npos) << one.err;
  const Outcome rows = partita(with({"compare", "--search", "single,pesto"}, task));
  EXPECT_EQ(rows.code, 3) << rows.err;  // as for a row without cbc
  EXPECT_TRUE(has_match(rows.out, "single +32 ")) << rows.out;
  EXPECT_NE(rows.out.find("no plan: " + why), std::string::npos) << rows.out;
}

// Rules that put layers on devices say if they leave some empty, and name a search that does not.
TEST(CliPlacement, RulesSayWhichDevicesAreEmpty) {
  const auto notes = [](const std::string& model, const char* batch, const std::string& search) {
    return partita(
               {"plan", model, "--batch", batch, "--cluster", "flexflow-p100", "--devices", "4", "--search", search})
        .err;
  };
  const std::string rest = "; placement and baechi-metf place operations one by one, auto divides them\n";
  EXPECT_NE(notes(data("recurrent.onnx"), "6", "expert-placement")
                .find("expert-placement: one layer only, so 3 of 4 devices run nothing (node0.gpu1, node0.gpu2, "
                      "node0.gpu3)" +
                      rest),
            std::string::npos);
  EXPECT_NE(notes("zoo:mlp?layers=3", "8", "expert-placement")
                .find("expert-placement: 3 layers only, so 1 of 4 devices runs nothing (node0.gpu3)" + rest),
            std::string::npos);
  EXPECT_NE(
      notes("zoo:mlp?layers=1", "8", "layer-placement").find("layer-placement: one layer only, so 3 of 4 devices"),
      std::string::npos);
  EXPECT_NE(
      notes("zoo:mlp?layers=3,width=3", "2", "expert").find("expert: no layer has as many samples or units, so 2 of"),
      std::string::npos);
  const Outcome compared = partita({"compare", "zoo:mlp?layers=3", "--batch", "8", "--cluster", "flexflow-p100",
                                    "--devices", "4", "--search", "single,expert-placement"});
  EXPECT_NE(compared.err.find("expert-placement: 1 of 4 devices computes nothing: 1 of 4 P100\n"), std::string::npos)
      << compared.err;
  EXPECT_NE(compared.err.find("single: 3 of 4 devices compute nothing: 3 of 4 P100\n"), std::string::npos)
      << compared.err;
  for (const char* search : {"expert-placement", "layer-placement", "expert"})
    EXPECT_EQ(notes("zoo:mlp?layers=4", "8", search).find("run nothing"), std::string::npos) << search;
}

// {"mesh": "gpu1", "strategy": []}, with meshes of one device each.
Json pinned_on(int device) { return {{"mesh", fmt::format("gpu{}", device)}, {"strategy", Json::array()}}; }
std::string pin_file(const Json& ops, const Json& colocation = {}) {
  Json pins = {{"ops", ops}};
  for (int d : {0, 1}) pins["meshes"][fmt::format("gpu{}", d)] = {{"extents", Json::array()}, {"devices", {d}}};
  if (!colocation.is_null()) pins["colocation"] = colocation;
  return put("pins.json", pins.dump());
}

// The example of docs/reference/plan.md.
TEST(CliPlacement, PinsLayersByTheirNames) {
  const std::string plan = scratch("plan.json");
  for (const char* search : {"placement", "expert-placement", "baechi-metf"}) {
    const Json pins = {{"rnn_l0.*", pinned_on(0)}, {"rnn_l1.*", pinned_on(1)}};
    json_of(with({"plan", "--search", search, "--pin", pin_file(pins), "-o", plan}, kLanguageModel));
    const Json made = Json::parse(contents(plan));
    int on[2] = {0, 0};
    for (const auto& [name, choice] : made["ops"].items())
      for (int layer : {0, 1})
        if (name.starts_with(fmt::format("rnn_l{}.", layer))) {
          EXPECT_EQ(made["meshes"][choice["mesh"].get<std::string>()]["devices"], Json({layer})) << name;
          ++on[layer];
        }
    EXPECT_GT(on[0], 100) << search;
    EXPECT_GT(on[1], 100) << search;
  }
}

TEST(CliPlacement, AnOpsOwnNameCountsMoreThanStars) {
  const std::string plan = scratch("plan.json");
  const Json pins = {{"rnn_l1.3.*", pinned_on(1)}, {"rnn_l1.3.input", pinned_on(0)}, {"*.3.gates", pinned_on(1)}};
  json_of(with({"plan", "--search", "baechi-metf", "--pin", pin_file(pins), "-o", plan}, kLanguageModel));
  const Json made = Json::parse(contents(plan));
  const auto device = [&](const char* op) {
    return made["meshes"][made["ops"][op]["mesh"].get<std::string>()]["devices"][0].get<int>();
  };
  EXPECT_EQ(device("rnn_l1.3.input"), 0);
  for (const char* op : {"rnn_l1.3.hidden", "rnn_l1.3.gates", "rnn_l0.3.gates"}) EXPECT_EQ(device(op), 1) << op;
  const auto refused = [&](const std::string& file, const Words& parts) {
    expect_error(with({"plan", "--search", "baechi-metf", "--pin", file}, kLanguageModel), 3, parts);
  };
  refused(pin_file({{"rnn_l1.3.*", pinned_on(1)}, {"*.3.gates", pinned_on(0)}}),
          {"op 'rnn_l1.3.gates' is pinned in two ways", "'rnn_l1.3.*'", "'*.3.gates'"});
  refused(pin_file({{"rnn_l7.*", pinned_on(0)}}), {"no op of model 'rnnlm' is named like 'rnn_l7.*'"});
  refused(pin_file({{"outputs.step.", pinned_on(0)}}), {"op 'outputs.step.' is not in model"});
  refused(pin_file({{"rnn_l1", pinned_on(0)}}),
          {"op 'rnn_l1' is not in model", "'rnn_l1.*' names the ops of that layer"});
}

// Also in groups that stay together.
TEST(CliPlacement, AnOpsOwnNameCountsMoreThanStarsInGroups) {
  const std::string plan = scratch("plan.json");
  const Json pins = {{"rnn_l0.3.input", pinned_on(0)}, {"word.0", pinned_on(1)}};
  const Json groups = {{"a", Json::array({"rnn_l0.*"})}, {"b", Json::array({"rnn_l0.0.input", "word.0"})}};
  json_of(with({"plan", "--search", "baechi-metf", "--pin", pin_file(pins, groups), "-o", plan}, kLanguageModel));
  const Json made = Json::parse(contents(plan));
  for (const auto& [name, choice] : made["ops"].items()) {
    const int device = made["meshes"][choice["mesh"].get<std::string>()]["devices"][0];
    const bool of_b = name == "rnn_l0.0.input" || name == "word.0";
    if (of_b || name.starts_with("rnn_l0.")) EXPECT_EQ(device, of_b ? 1 : 0) << name;
  }
  const auto refused = [&](const Json& colocation, const Words& parts) {
    expect_error(
        with({"plan", "--search", "baechi-metf", "--pin", pin_file(Json::object(), colocation)}, kLanguageModel), 3,
        parts);
  };
  refused({{"a", Json::array({"word.0"})}, {"b", Json::array({"word.0"})}},
          {"'word.0' is in two", "'a' and 'b'", "take it out of one"});
  refused({{"a", Json::array({"rnn_l0.*"})}, {"b", Json::array({"*.0.input"})}},
          {"'rnn_l0.0.input' is in two", "'a' and 'b' by '*.0.input'", "its own name"});
}

// Plans of whole operations have no stages, and others as many as their search makes.
TEST(CliPlacement, PinnedStagesAreRefusedBeforeTheSearch) {
  const auto pinned = [](const std::string& name, int stage) {
    Json pin = pinned_on(0);
    pin["stage"] = stage;
    return pin_file({{name, pin}});
  };
  for (const auto& [search, name] :
       {std::pair("placement", "rnn_l0.3.input"), std::pair("placement", "*"), std::pair("baechi-metf", "rnn_l0.*"),
        std::pair("single", "rnn_l0.3.input"), std::pair("auto", "rnn_l0.3.input")}) {
    const Outcome o = partita(with({"plan", "--search", search, "--pin", pinned(name, 1)}, kLanguageModel));
    EXPECT_EQ(o.code, 3) << o.err;
    for (const std::string part : {"pins.json: pins: op '", "is pinned to stage 1", "leave 'stage' out"})
      EXPECT_NE(o.err.find(part), std::string::npos) << search << ": " << o.err;
    EXPECT_EQ(o.err.find("pass 1"), std::string::npos) << o.err;
  }
  expect_error({"plan", "zoo:mlp", "--cluster", "flexflow-p100", "--devices", "2", "--search", "pipeline?stages=2",
                "--pin", pinned("fc3", 2)},
               3, {"pins.json: pins: op 'fc3' is pinned to stage 2", "stages 0 to 1"});
  // A whole plan of a pipeline serves as pins.
  const std::string plan = scratch("plan.json");
  const Words mlp = {"plan", "zoo:mlp", "--batch", "16", "--cluster", "flexflow-p100", "--devices", "2"};
  json_of(with(mlp, {"--search", "pipeline?stages=2,micro-batches=4", "-o", plan}));
  for (const char* search : {"pipeline?stages=2", "data-parallel"})
    EXPECT_EQ(partita(with(mlp, {"--search", search, "--pin", plan})).code, 0) << search;
}

// If a device placement does not fit, the message names a change with which the same search fits, and it does.
TEST(CliPlacement, TellsWithWhichRecomputationItFits) {
  const Words asked = {"plan",      "zoo:mlp?layers=8,width=64",
                       "--batch",   "512",
                       "--cluster", "flexflow-p100",
                       "--devices", "1",
                       "--search",  "placement"};
  const int64_t whole = json_of(asked)["peak_memory_bytes"],
                layer = json_of(with(asked, {"--recompute", "layer"}))["peak_memory_bytes"];
  ASSERT_LT(layer, whole);
  const std::string limit = std::to_string(layer + (whole - layer) / 10) + "B";
  const Outcome o = partita(with(asked, {"--memory-limit", limit}));
  EXPECT_EQ(o.code, 4) << o.err;
  const std::vector<std::string> offer = first_match(o.err, "(it fits with|or) --recompute ([a-z]+) \\(");
  ASSERT_FALSE(offer.empty()) << o.err;
  EXPECT_EQ(o.err.find("or take --recompute"), std::string::npos) << o.err;
  EXPECT_EQ(partita(with(asked, {"--memory-limit", limit, "--recompute", offer[2]})).code, 0);
  // For a rule of device placement, the message names the search of device placement.
  Words by_rule = with(asked, {"--memory-limit", limit});
  *std::find(by_rule.begin(), by_rule.end(), "placement") = "baechi-metf";
  const std::string said = partita(by_rule).err;
  EXPECT_TRUE(has_match(said, "(it fits with|or) --search placement --recompute ([a-z]+) \\(")) << said;
}

TEST(CliPlacement, PinsThatContradictAreNamed) {
  const auto refused = [&](const std::string& file, Words more, const Words& parts) {
    more.insert(more.end(), {"plan", "--search", "placement", "--pin", file});
    std::rotate(more.begin(), more.end() - 5, more.end());
    expect_error(with(more, kLanguageModel), 3, parts);
  };
  refused(pin_file({{"rnn_l0.0.input", pinned_on(1)}, {"rnn_l1.2.input", pinned_on(0)}},
                   {{"tied", {"rnn_l0.0.input", "rnn_l1.*.input"}}}),
          {},
          {"pins.json: pins: op 'rnn_l0.0.input' is pinned on device 1, 'node0.gpu1'",
           "op 'rnn_l1.2.input' on device 0, 'node0.gpu0'", "colocation group 'tied'"});
  refused(pin_file({{"decoder.bias.update.add", pinned_on(1)}, {"decoder.bias.update.sqrt", pinned_on(0)}}),
          {"--optimizer", "adam?fine=1"},
          {"op 'decoder.bias.update.add' is pinned on device 1", "op 'decoder.bias.update.sqrt' on device 0",
           "the update of 'decoder.bias'"});
}

// A search by time says so, whatever the objective; steps of microseconds have three digits.
TEST(CliPlacement, SaysWhatItGoesBy) {
  const Words mlp = {"plan", "zoo:mlp?layers=1", "--batch", "8", "--cluster", "flexflow-p100", "--devices", "2"};
  EXPECT_EQ(json_of(with(mlp, {"--search", "expert-placement"}))["objective"], "time");
  EXPECT_EQ(json_of(with(mlp, {"--search", "soybean"}))["objective"], "comm");
  const std::string notes = partita(with(mlp, {"--search", "expert-placement"})).err;
  EXPECT_TRUE(has_match(notes, "[0-9]{2}\\.[0-9] us in the placement problem")) << notes;
}

}  // namespace
}  // namespace partita

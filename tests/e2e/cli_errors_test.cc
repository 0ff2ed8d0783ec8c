// Tests errors in a pin file, a problem, an option or a name of a file: one message that names the place, and its exit
// code.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>

#include "partita/base/testing/patterns.h"
#include "program.h"

namespace partita {
namespace {

const std::string kProblem = data("sharding_example.json");

// A pin file with one mesh `m`.
std::string pins(const Json& mesh, const Json& ops, const Json& kept) {
  Json json = {{"meshes", {{"m", mesh}}}};
  if (!ops.is_null()) json["ops"] = ops;
  if (!kept.is_null()) json["kept"] = kept;
  return put("pins.json", json.dump());
}

TEST(CliErrors, PinsAreCheckedBeforeASearchSeesThem) {
  const Json two = {{"extents", {2}}, {"devices", {0, 1}}};
  const auto kept = [](const Json& sbp) { return Json{{"x", {{"mesh", "m"}, {"sbp", sbp}}}}; };
  const auto op = [](const Json& strategy) { return Json{{"fc1", {{"mesh", "m"}, {"strategy", strategy}}}}; };
  const auto refused = [](const std::string& search, const std::string& file, Words parts) {
    parts.push_back("pins: ");
    expect_error({"plan", "zoo:mlp?layers=2,width=6", "--devices", "2", "--search", search, "--pin", file}, 3, parts);
  };
  for (const char* search : {"tofu", "soybean", "data-parallel", "exact"}) {
    refused(search, pins(two, {}, kept(Json::array())), {"pins.json: pins: tensor 'x': 0 Sbp for a mesh of 1 axes"});
    refused(search, pins(two, {}, kept({"S(5)"})), {"tensor 'x': S(5) names an axis that shape"});
  }
  refused("tofu", pins(two, {}, kept({"B", "B"})), {"'x': 2 Sbp"});
  refused("tofu", pins(two, {}, kept({"S(0.1)"})), {"'x': S(0.1) names an axis"});
  refused("tofu", pins(two, {}, {{"loss.loss", {{"mesh", "m"}, {"sbp", {"S(0)"}}}}}),
          {"'loss.loss': S(0) names an axis"});
  refused("tofu", pins(two, op(Json::array()), {}), {"op 'fc1' (", "0 strategies for a mesh of 1 axes"});
  refused("tofu", pins(two, op({"n", "n"}), {}), {"op 'fc1' (", "2 strategies"});
  refused("tofu", pins(two, op({"nowhere"}), {}), {"op 'fc1' (", "no index 'nowhere'"});
  refused("tofu", pins({{"extents", {5}}, {"devices", {0, 1}}}, {}, kept({"B"})), {"5 positions lists 2 devices"});
  refused("tofu", pins({{"extents", Json::array()}, {"devices", {0, 1}}}, {}, kept(Json::array())),
          {"1 positions lists 2 devices"});
  // More positions than 64 bits count.
  refused("tofu", pins({{"extents", {2147483647, 2147483647, 2147483647}}, {"devices", {0, 1}}}, {}, kept({"B"})),
          {"more positions than can be counted"});
  // A pin that is right, but which a search by cuts has no way to keep.
  refused("tofu", pins(two, {}, {{"fc1", {{"mesh", "m"}, {"sbp", {"P(sum)"}}}}}),
          {"'fc1': tofu keeps no partial values, as [P(sum)]"});
  refused("soybean", pins({{"extents", {1}}, {"devices", {0}}}, {}, kept({"B"})), {"'x': soybean cuts the devices"});
  // Or one that has no choice.
  refused("small-batch", pins(two, {}, kept({"B"})), {"pins.json: pins: every device has the whole model"});
}

TEST(CliErrors, Problems) {
  const auto solve = [](const std::string& file, int code, const Words& parts) {
    expect_error({"solve", file}, code, parts);
  };
  solve(put("twice.json", R"({"problem": 1, "problem": {"nodes": {}}})"), 3, {"the key problem comes twice"});
  solve(put("deep_twice.json", R"({"a": {"b": {"c": {"d": {"e": 1, "e": 2}}}}})"), 3, {"the key e comes twice"});
  solve(scratch(""), 3, {"is a folder"});
  const std::string text = contents(kProblem), digits(100'000, '7');
  std::string long_cost = text;
  const size_t at = long_cost.find("\"costs\"");
  long_cost.insert(long_cost.find_first_of("0123456789", at), digits);
  solve(put("long.json", long_cost), 3, {"100", "characters"});
  EXPECT_LT(partita({"solve", scratch("long.json")}).err.size(), 1000u);
  // 40,000 objects in one another, and reading that takes longer than the limit.
  std::string deep;
  for (int n = 0; n < 40'000; ++n) deep += "{\"a\":";
  const auto begin = std::chrono::steady_clock::now();
  solve(put("deep.json", deep + "1" + std::string(40'000, '}')), 3, {"is missing"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  std::string wide = "{\"more\": [";
  while (wide.size() < 20'000'000) wide += "[1], ";
  put("wide.json", wide + "0]," + text.substr(1));
  expect_error({"solve", scratch("wide.json"), "--time-limit", "0.001"}, 5, {"time limit passed while", "read"});
}

// Recursion over these trees would end in a stack overflow.
TEST(CliErrors, FilesThatAreNestedDeep) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const auto file = [&](const char* name, const char* before) { return put(name, before + deep + "}"); };
  const Words parts = {"nested deeper than 1000"};
  expect_error({"simulate", file("plan.json", "{\"schema_version\": ")}, 3, parts);
  expect_error({"plan", "zoo:mlp", "--pin", file("pins.json", "{\"ops\": ")}, 3, parts);
  expect_error({"show", file("config.json", "{\"model_type\": \"gpt2\", \"n_embd\": ")}, 3, parts);
  expect_error({"check", kProblem, "--bound", file("bound.json", "{\"steps\": ")}, 3, parts);
  expect_error({"train", "zoo:mlp", "--steps", "1", "--weights", file("w.index.json", "{\"weight_map\": ")}, 3, parts);
}

TEST(CliErrors, OptionsTwiceOrEmpty) {
  expect_error({"show", "zoo:mlp?layers=1,layers=2"}, 2, {"'layers' is given twice"});
  expect_error({"plan", "zoo:mlp", "--search", "tofu?coarsening=on,coarsening=off"}, 2,
               {"'tofu'", "'coarsening' is given twice"});
  expect_error({"plan", "zoo:mlp", "--search", "fsdp?stage=2,stage=1"}, 2, {"'stage' is given twice"});
  expect_error({"plan", "zoo:mlp", "--optimizer", "sgd?nesterov=1,nesterov=0"}, 2, {"'nesterov' is given twice"});
  for (const char* option : {"--batch", "--pin", "--from", "--tdl", "--dump"})
    expect_error({"plan", "zoo:mlp", option, ""}, 2, {option, "empty"});
  expect_error({"plan", "zoo:mlp", "--dump", ""}, 2, {"takes a folder's path"});
  expect_error({"train", "zoo:mlp", "--data", ""}, 2, {"--data", "empty"});
  expect_error({"explain", "plan.json", ""}, 2, {"takes a name"});
  expect_error({"ops", ""}, 2, {"takes a name"});
  for (const char* seconds : {"0", "-1", "inf", "nan", "1e999", "", "1s"})
    for (const char* command : {"plan", "solve"})
      expect_error({command, "zoo:mlp", "--time-limit", seconds}, 2,
                   {"--time-limit", "takes a positive number of seconds", fmt::format("'{}'", seconds)});
}

TEST(CliErrors, NamesOfFiles) {
  for (const char* file : {"/bin/ls", "/dev/null"})
    for (const char* command : {"show", "plan"})
      expect_error({command, file}, 3, {file, "is not a model file", ".onnx", "config.json", "zoo:"});
  const std::string plan = scratch("plan.json");
  ASSERT_EQ(partita({"plan", "zoo:mlp", "--devices", "2", "-o", plan}).code, 0);
  const std::string said = partita({"explain", plan, "fc11"}).err;
  const size_t first = said.find("near it are: ");
  ASSERT_NE(first, std::string::npos) << said;
  std::set<std::string> names;
  std::istringstream near(said.substr(first + 13));
  for (std::string name; near >> name;) EXPECT_TRUE(names.insert(name.substr(0, name.find(','))).second) << said;
  EXPECT_EQ(names.size(), 3u) << said;
  const std::string far = partita({"explain", plan, "nosuch"}).err;
  EXPECT_EQ(far.find("near"), std::string::npos) << far;
  EXPECT_NE(far.find("no op or tensor 'nosuch'; 'ops' and 'kept' in the file list names"), std::string::npos) << far;
  Json later = Json::parse(contents(plan));
  later["schema_version"] = 3;
  expect_error({"plan", "zoo:mlp", "--devices", "2", "--pin", put("later.json", later.dump())}, 3,
               {"later.json", "schema_version 3", "plan again"});
}

TEST(CliTrain, ALossThatIsNotFiniteIsSaid) {
  const std::string log = scratch("log.jsonl");
  const Outcome o = partita({"train", "zoo:mlp?width=4,batch=2", "--steps", "8", "--lr", "1e38", "--log", log});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(has_match(o.err, "the loss is not finite since step [1-8];")) << o.err;
  const std::string lines = contents(log);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 8);
  EXPECT_TRUE(has_match(lines, "\\{\"step\":[0-7]\\}")) << lines;  // without a loss
}

// The weights are 0, and the slope of a root at 0 is infinite, in PyTorch too.
TEST(CliTrain, AnInfiniteDerivativeIsNamed) {
  const std::string model = fmt::format("{}/tests/data/cases/root_of_zero/model.onnx", PARTITA_SOURCE_DIR);
  for (const char* devices : {"1", "2"}) {
    const Outcome o = partita({"train", model, "--steps", "4", "--devices", devices, "--loss", "mse"});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_NE(o.err.find("the gradients of step 1 are not finite, so the weights are lost, whatever the learning rate: "
                         "sqrt.grad.x 'y.grad.x'"),
              std::string::npos)
        << o.err;
    EXPECT_EQ(o.err.find("smaller learning rate"), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace partita

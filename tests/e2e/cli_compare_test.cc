// Tests `partita compare`: its columns, plans as rows. An error of one search costs the others nothing.
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

#include "program.h"

namespace partita {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  return {std::istream_iterator<std::string>(text), {}};
}

std::string line_of(const std::string& text, const std::string& begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin)) return line;
  return "";
}

// A row has a word for each column, and says what the JSON object of the same search says.
TEST(CliCompare, RowsHaveMicroBatchesTokensUtilizationAndMemory) {
  const Words asked = {"compare",   "zoo:gpt2?layers=2,hidden=64,heads=2,vocabulary=128,steps=32",
                       "--batch",   "32",
                       "--cluster", "dgx-h100",
                       "--search",  "data-parallel,pipeline?stages=4,micro-batches=8"};
  const Outcome o = partita(asked);
  ASSERT_EQ(o.code, 0) << o.err;
  const std::vector<std::string> columns = words_of(line_of(o.out, "search"));
  const std::vector<std::string> wanted = {"search", "batch", "micro-batches", "communication",
                                           "step",   "time",  "samples/s",     "tokens/s",
                                           "MFU",    "peak",  "memory",        "seconds"};
  EXPECT_EQ(columns, wanted);
  const Json rows = json_of(asked)["rows"];
  const std::vector<std::string> one = words_of(line_of(o.out, "data-parallel ")),
                                 four = words_of(line_of(o.out, "pipeline?"));
  ASSERT_EQ(one.size(), 13u) << o.out;  // amounts and the time are two words each
  EXPECT_EQ(one[2], "1");
  EXPECT_EQ(four.at(2), "8");
  EXPECT_NEAR(std::stod(one[8]), rows[0]["tokens_per_second"].get<double>(), 1);
  EXPECT_NEAR(rows[0]["tokens_per_second"].get<double>(), 32 * rows[0]["samples_per_second"].get<double>(), 1e-3);
  EXPECT_EQ(one[9], fmt::format("{:.1f}%", 100 * rows[0]["model_flops_utilization"].get<double>()));
  const size_t memory = o.out.find("\nmemory of the device that needs most\n");
  ASSERT_NE(memory, std::string::npos) << o.out;
  for (const char* search : {"data-parallel ", "pipeline?stages=4,micro-batches=8 "})
    EXPECT_NE(line_of(o.out.substr(memory), search).find("weights "), std::string::npos) << o.out;
}

// Five words of a plan on another cluster are those of the same rule there.
TEST(CliCompare, PlansAreRowsAlsoOnAnotherCluster) {
  const auto planned = [](const std::string& search, const std::string& cluster, const std::string& file) {
    return json_of({"plan", "zoo:mlp?layers=3,width=64", "--batch", "32", "--cluster", cluster, "--devices", "2",
                    "--search", search, "-o", file});
  };
  const std::string one = scratch("one.json"), two = scratch("two.json"), there = scratch("there.json");
  const Json first = planned("data-parallel", "dgx-1", one), second = planned("model-parallel", "dgx-1", two);
  const Json rows = json_of({"compare", one, two})["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["plan"], one);
  for (const char* key : {"step_time_us", "comm_bytes", "peak_memory_bytes", "cluster", "search"}) {
    EXPECT_EQ(rows[0][key], first[key]) << key;
    EXPECT_EQ(rows[1][key], second[key]) << key;
  }
  const Json other = planned("data-parallel", "dgx-h100", there);
  const Json on_other = json_of({"compare", one, there, "--cluster", "dgx-h100", "--devices", "2"})["rows"];
  const Json simulated = json_of({"simulate", one, "--cluster", "dgx-h100", "--devices", "2"});
  EXPECT_NE(first["step_time_us"], other["step_time_us"]);
  for (const Json& row : {on_other[0], on_other[1], simulated}) {
    EXPECT_EQ(row["step_time_us"], other["step_time_us"]);
    EXPECT_EQ(row["peak_memory_bytes"], other["peak_memory_bytes"]);
  }
  EXPECT_EQ(on_other[0]["cluster"], "dgx-h100");
  expect_error({"simulate", one, "--cluster", "dgx-h100"}, 3, {one, "for 2 devices", "has 8", "--devices 2"});
  const Outcome text = partita({"compare", one, two});
  EXPECT_EQ(words_of(line_of(text.out, "plan"))[0], "plan");
  EXPECT_NE(line_of(text.out, one), "");
}

TEST(CliCompare, TakesOneModelWithSearchesOrPlans) {
  const std::string plan = scratch("plan.json");
  json_of({"plan", "zoo:mlp", "--devices", "2", "--search", "single", "-o", plan});
  expect_error({"compare", "zoo:mlp"}, 2, {"--search"});
  expect_error({"compare", "zoo:mlp", "zoo:lenet", "--search", "single"}, 2, {"'zoo:mlp' and 'zoo:lenet'"});
  expect_error({"compare", plan, "zoo:lenet"}, 2, {"not both"});
  expect_error({"compare", plan, "--search", "single"}, 2, {"--search"});
  for (const Words& fixed : {Words{"--batch", "4"}, Words{"--from", plan}, Words{"--memory-limit", "1GB"}})
    expect_error({"compare", plan, fixed[0], fixed[1]}, 2, {fixed[0], "is fixed in the plan", plan});
  const Outcome o = partita({"compare", scratch("none.json"), plan});  // the other row counts
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(line_of(o.out, scratch("none.json")).find("no plan: "), std::string::npos) << o.out;
  EXPECT_NE(line_of(o.out, plan + " ").find("us "), std::string::npos) << o.out;
}

// An error that ends the command comes without a table.
TEST(CliCompare, ErrorsForAllHaveNoHeader) {
  const Words asked = {"compare", "zoo:mlp", "--search", "single,data-parallel"};
  expect_error(with(asked, {"--cluster", "a.json,b.json"}), 3,
               {"'a.json,b.json'", "one cluster", "command of its own"});
  expect_error(with(asked, {"--devices", "2", "--batch", "0"}), 3, {"batch"});
  expect_error({"compare", scratch("none.onnx"), "--search", "single"}, 3, {"none.onnx"});
  // A row that says why there is no plan stands under a header.
  const Outcome o = partita(with(asked, {"--memory-limit", "2kB"}));
  EXPECT_EQ(o.out.find("search "), 0u) << o.out;
}

TEST(CliCompare, OptionsAreCheckedBeforeTheFirstSearch) {
  const auto refused = [](const std::string& searches, const Words& more, const Words& parts) {
    Words words = {"compare", "zoo:mlp", "--devices", "2", "--search", searches};
    words.insert(words.end(), more.begin(), more.end());
    expect_error(words, 2, parts);
  };
  for (const char* search : {"placement", "pesto", "baechi-metf", "expert-placement", "soap", "flexflow"}) {
    refused(fmt::format("single,{}?micro-batches=2", search), {},
            {fmt::format("'{}'", search), "not in 2 micro-batches"});
    refused(fmt::format("single,{}", search), {"--micro-batches", "2"}, {fmt::format("'{}'", search)});
  }
  refused("single,exact?micro-batch-size=2", {}, {"--micro-batch-size", "'exact'", "data-parallel"});
  refused("single,zero?stage=9", {}, {"'zero'", "'stage'"});
  refused("single,zero?recompute=some", {}, {"'zero'", "'recompute'"});
}

TEST(CliCompare, WhatASearchRefusesLaterIsARow) {
  const Words words = {"compare", "zoo:mlp", "--batch", "8", "--devices", "4", "--search"};
  const auto rows = [&](const std::string& searches, int code) {
    Words all = words;
    all.insert(all.end(), {searches, "--json"});
    const Outcome o = partita(all);
    EXPECT_EQ(o.code, code) << o.err;
    return Json::parse(o.out).at("rows");
  };
  Json found = rows("single,exact?mesh=2x3,placement?micro-batch-size=4,data-parallel", 2);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_NE(found[1]["reason"].get<std::string>().find("mesh 2x3 is of 6 devices"), std::string::npos) << found[1];
  EXPECT_NE(found[2]["reason"].get<std::string>().find("not in 2 micro-batches"), std::string::npos) << found[2];
  for (int i : {0, 3}) EXPECT_GT(found[static_cast<size_t>(i)]["step_time_us"], 0.0) << i;
  found = rows("exact?mesh=2x3,single", 2);  // also if it is the first
  EXPECT_TRUE(found[0].contains("reason"));
  EXPECT_GT(found[1]["step_time_us"], 0.0);
  found = rows("single,data-parallel?micro-batch-size=3,zero", 3);
  EXPECT_NE(found[1]["reason"].get<std::string>().find("--batch 12"), std::string::npos) << found[1];
  EXPECT_GT(found[2]["step_time_us"], 0.0);
}

// Pins that one search refuses are a row, wherever the search stands. Pins that are wrong for all end the command.
TEST(CliCompare, WhatASearchSaysOfPinsIsARow) {
  const auto compared = [](const std::string& searches, const std::string& pins) {
    return partita({"compare", "zoo:rnnlm?steps=2,hidden=16,vocabulary=50", "--batch", "8", "--cluster",
                    "flexflow-p100", "--devices", "2", "--search", searches, "--pin", put("pins.json", pins),
                    "--json"});
  };
  const std::string on_cpu = R"({"device_types": {"embedding*": "cpu", "word.*": "cpu"}})";
  for (const auto& [searches, refused] : {std::pair("single,baechi-metf", 0), std::pair("baechi-metf,single", 1),
                                          std::pair("data-parallel?micro-batch-size=3,baechi-metf", 0)}) {
    const Outcome o = compared(searches, on_cpu);
    EXPECT_EQ(o.code, std::string(searches).starts_with("data") ? 3 : 2) << o.err;
    const Json rows = Json::parse(o.out).at("rows");
    ASSERT_EQ(rows.size(), 2U) << searches;
    EXPECT_TRUE(rows[static_cast<size_t>(refused)].contains("reason")) << searches << rows;
    EXPECT_GT(rows[static_cast<size_t>(1 - refused)].value("step_time_us", 0.0), 0.0) << searches << rows;
  }
  for (const char* wrong : {"{", R"({"device_types": {"nothing": "cpu"}})", R"({"device_types": 3})"}) {
    const Outcome o = compared("single,baechi-metf", wrong);
    EXPECT_EQ(o.code, 3) << o.err;
    EXPECT_EQ(o.out, "") << wrong;
    EXPECT_NE(o.err.find("pins.json: "), std::string::npos) << o.err;
  }
}

// An error that concerns all searches is printed once.
TEST(CliCompare, AWrongModelIsSaidOnce) {
  const Outcome o = partita({"compare", scratch("none.onnx"), "--devices", "2", "--search", "single,data-parallel"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("none.onnx: cannot be read"), std::string::npos) << o.err;
  EXPECT_EQ(o.out.find("no plan"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace partita

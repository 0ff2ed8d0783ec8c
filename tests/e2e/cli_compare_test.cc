// `partita compare`: what is wrong with one search costs the others nothing.
#include <gtest/gtest.h>

#include "program.h"

namespace partita {
namespace {

// How many micro-batches there are is said where nobody gave them.
TEST(CliCompare, SaysMicroBatchesThatWereNotGiven) {
  const Words mlp = {"compare", "zoo:mlp?layers=4,width=64", "--batch", "64", "--devices", "2"};
  const auto said = [&](const Words& more) {
    Words words = mlp;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome o = partita(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.err.find(" micro-batches\n") != std::string::npos;
  };
  EXPECT_TRUE(said({"--search", "pipeline?stages=2"}));
  EXPECT_FALSE(said({"--search", "pipeline?stages=2,micro-batches=8"}));
  EXPECT_FALSE(said({"--search", "pipeline?stages=2", "--micro-batches", "8"}));
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
  found = rows("exact?mesh=2x3,single", 2);  // also where it is the first
  EXPECT_TRUE(found[0].contains("reason"));
  EXPECT_GT(found[1]["step_time_us"], 0.0);
  found = rows("single,data-parallel?micro-batch-size=3,zero", 3);
  EXPECT_NE(found[1]["reason"].get<std::string>().find("--batch 12"), std::string::npos) << found[1];
  EXPECT_GT(found[2]["step_time_us"], 0.0);
}

// Pins that one search refuses are a row wherever it stands; pins that are wrong for all end the command.
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

// What is wrong for all of them is said once.
TEST(CliCompare, AWrongModelIsSaidOnce) {
  const Outcome o = partita({"compare", scratch("none.onnx"), "--devices", "2", "--search", "single,data-parallel"});
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("none.onnx: cannot be read"), std::string::npos) << o.err;
  EXPECT_EQ(o.out.find("no plan"), std::string::npos) << o.out;
}

}  // namespace
}  // namespace partita

// Tests `partita plan` of models of repeated layers, which `auto` plans by their configurations.
#include <gtest/gtest.h>

#include <algorithm>

#include "program.h"

namespace partita {
namespace {

const Words kLlama = {"plan",        "zoo:llama-3-8b?layers=16,vocabulary=8192",
                      "--batch",     "16",
                      "--dtype",     "bf16",
                      "--optimizer", "adamw",
                      "--objective", "time"};

Json planned(const Words& words) {
  const Outcome o = partita(with(words, {"--json"}));
  EXPECT_EQ(o.code, 0) << o.err;
  return Json::parse(o.out);
}

// The best are in order and of different kinds; the frontier trades time for memory; the plan is the fastest that was
// simulated, and its text makes it again.
TEST(CliConfigurations, AreComparedAndTheFastestIsThePlan) {
  const Json json = planned(with(kLlama, {"--cluster", "dgx-h100"}));
  const Json& table = json.at("configurations");
  EXPECT_GE(table.at("estimated").get<int>(), table.at("fitting").get<int>());
  EXPECT_TRUE(table.at("whole").get<bool>());
  double before = 0;
  for (const Json& row : table.at("best")) {
    EXPECT_GE(row.at("step_time_us").get<double>(), before);
    before = row.at("step_time_us");
    EXPECT_GT(row.at("tokens_per_second_per_device").get<double>(), 0);
  }
  const Json& frontier = table.at("frontier");
  for (size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GE(frontier[i].at("step_time_us").get<double>(), frontier[i - 1].at("step_time_us").get<double>());
    EXPECT_LT(frontier[i].at("memory_bytes").get<int64_t>(), frontier[i - 1].at("memory_bytes").get<int64_t>());
  }
  double fastest = 1e300;
  for (const Json& row : table.at("simulated"))
    if (row.contains("step_time_us")) fastest = std::min(fastest, row.at("step_time_us").get<double>());
  EXPECT_LE(json.at("step_time_us").get<double>(), fastest);
  const Json again = planned(with(kLlama, {"--cluster", "dgx-h100", "--search", json.at("search").get<std::string>()}));
  EXPECT_EQ(again.at("step_time_us"), json.at("step_time_us"));
  EXPECT_EQ(again.at("comm_bytes"), json.at("comm_bytes"));
}

// With the nodes that the error names, there is a plan.
TEST(CliConfigurations, NoneFitsNamesTheFewestNodes) {
  const Words limited = with(kLlama, {"--memory-limit", "6GB"});
  const Outcome o = partita(with(limited, {"--cluster", "dgx-h100"}));
  ASSERT_EQ(o.code, 4) << o.err;
  EXPECT_NE(o.err.find("configurations fits in 6.00 GB a device; the nearest needs"), std::string::npos) << o.err;
  const size_t at = o.err.find("--cluster dgx-h100:");
  ASSERT_NE(at, std::string::npos) << o.err;
  const std::string cluster = o.err.substr(at + 10, o.err.find(')', at) - at - 10);
  EXPECT_EQ(partita(with(limited, {"--cluster", cluster})).code, 0) << cluster;
}

TEST(CliConfigurations, AreTableAndFrontierInText) {
  const Outcome o = partita(with(kLlama, {"--cluster", "dgx-h100"}));
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* text :
       {"configurations ", " estimated, ", "simulated ", "the best of each choice of degrees", "tp 2 x dp 4, "})
    EXPECT_NE(o.out.find(text), std::string::npos) << text << "\n" << o.out;
}

// A model without repeated layers goes to the searches, and so does a request that fixes a part.
TEST(CliConfigurations, AreNotComparedForOthers) {
  for (const Words& words : {Words{"plan", "zoo:lenet", "--devices", "2", "--objective", "time", "--max-steps", "50"},
                             with(kLlama, {"--cluster", "dgx-h100", "--search", "fsdp", "--recompute", "layer"}),
                             Words{"plan", "zoo:mlp", "--devices", "2", "--micro-batches", "2", "--objective", "time"}})
    EXPECT_FALSE(planned(words).contains("configurations")) << fmt::format("{}", fmt::join(words, " "));
}

}  // namespace
}  // namespace partita

// Tests what plan, simulate and compare print of how well the steps of a device are known.
#include <gtest/gtest.h>

#include "program.h"

namespace partita {
namespace {

Words planned_on(const std::string& cluster) {
  return {"plan", "zoo:mlp", "--cluster", cluster, "--search", "data-parallel"};
}

TEST(CliValidation, PlansSayHowManyPublishedStepsThereAre) {
  const Outcome b200 = partita(planned_on("dgx-b200"));
  EXPECT_EQ(b200.code, 0) << b200.err;
  EXPECT_NE(b200.out.find("validation     no published steps of B200, derived as for others, of which 8 of 10 took "),
            std::string::npos)
      << b200.out;
  const Outcome h100 = partita(planned_on("dgx-h100"));
  EXPECT_NE(h100.out.find("validation     35 published steps of H100: 8 of 10 took "), std::string::npos) << h100.out;
  EXPECT_EQ(partita(planned_on("local:4")).out.find("validation"), std::string::npos);
}

TEST(CliValidation, JsonHasTheBandOfTheStep) {
  const std::string file = scratch("validated.json");
  Words words = planned_on("dgx-b200");
  words.insert(words.end(), {"-o", file});
  const Json plan = json_of(words), simulated = json_of({"simulate", file});
  for (const Json& json : {plan, simulated}) {
    ASSERT_EQ(json.at("validation").size(), 1u) << json;
    const Json& known = json["validation"][0];
    EXPECT_EQ(known["device"], "B200");
    EXPECT_EQ(known["runs"], 0);
    const double step = json["step_time_us"], low = json["step_time_low_us"], high = json["step_time_high_us"];
    EXPECT_NEAR(low, known["low"].get<double>() * step, 1e-6 * step);
    EXPECT_NEAR(high, known["high"].get<double>() * step, 1e-6 * step);
    EXPECT_LT(low, step);
    EXPECT_GT(high, step);
  }
  EXPECT_FALSE(json_of(planned_on("local:4")).contains("validation"));
}

TEST(CliValidation, ModelsUnlikeThePublishedOnesAreSaid) {
  const auto said = [](const std::string& model, const std::string& cluster) {
    return json_of({"plan", model, "--cluster", cluster, "--search", "data-parallel"})
        .value("beyond_validation", Json::array());
  };
  EXPECT_EQ(said("zoo:gpt2?layers=1,steps=64", "dgx-h100"), Json::array());
  EXPECT_EQ(said("zoo:moe?batch=8", "local:2"), Json::array());  // nothing is published of it at all
  const Json experts = said("zoo:moe?batch=8", "dgx-h100"), images = said("zoo:lenet", "dgx-h100"),
             longer = said("zoo:gpt2?layers=1,steps=8193,batch=8", "dgx-a100");
  ASSERT_EQ(experts.size(), 1u);
  EXPECT_EQ(experts[0], "no published step has experts, and this model has");
  ASSERT_EQ(images.size(), 1u);
  EXPECT_NE(images[0].get<std::string>().find("ResNet-50"), std::string::npos);
  ASSERT_EQ(longer.size(), 1u);
  EXPECT_NE(longer[0].get<std::string>().find("over 8192 tokens"), std::string::npos);
}

TEST(CliValidation, CompareSaysItOnce) {
  const Words words = {"compare", "zoo:mlp", "--cluster", "dgx-h200", "--search", "single,data-parallel"};
  const Outcome o = partita(words);
  const std::string said = "3 published steps of H200, too few; derived as for others, of which 8 of 10 took ";
  const size_t at = o.err.find(said);
  ASSERT_NE(at, std::string::npos) << o.err;
  EXPECT_EQ(o.err.find(said, at + 1), std::string::npos) << o.err;
}

}  // namespace
}  // namespace partita

// Tests `plan`, `compare` and `explain` of device placements.
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace partita {
namespace {

const char* const kModel = "zoo:nmt?layers=2,steps=4,hidden=64,vocabulary=50,batch=8";

const Words kOn = {"--cluster", "dgx-1", "--devices", "2"};

TEST(ExplainPlaced, ShowsWhoDoesWhatWhen) {
  const std::string plan = scratch("plan.json");
  const Json figures = json_of(with({"plan", kModel, "--search", "placement", "-o", plan}, kOn));
  const double step_us = figures["step_time_us"], bound_us = figures["lower_bound_step_time_us"];
  EXPECT_LE(bound_us, step_us);
  EXPECT_NEAR(figures["gap"].get<double>(), 1 - bound_us / step_us, 1e-9);

  const Json shown = json_of({"explain", plan})["placement"];
  EXPECT_EQ(shown["step_time_us"], step_us);
  EXPECT_EQ(shown["lower_bound_step_time_us"], bound_us);
  ASSERT_EQ(shown["devices"].size(), 2u);
  double computed = 0, of_layers = 0;
  for (const Json& device : shown["devices"]) computed += device["compute_time_us"].get<double>();
  for (const Json& layer : shown["layers"]) {
    EXPECT_LT(layer["start_us"].get<double>(), layer["end_us"].get<double>());
    for (const auto& [device, us] : layer["compute_time_us"].items()) of_layers += us.get<double>();
  }
  EXPECT_NEAR(of_layers, computed, 1e-6 * computed);

  const Outcome text = partita({"explain", plan});
  EXPECT_EQ(text.code, 0);
  for (const char* part : {"it places operations whole", "no placement of whole operations takes less than",
                           "socket0.switch0.gpu0", "transfers of", "encoder.rnn_l0", "fetch from socket0.switch0.gpu"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is not in " << text.out;
}

// An operation of a group lists the ops that stay with it, and every op the step if it were on another device.
TEST(ExplainPlaced, SaysWhatAnotherDeviceWouldTake) {
  const std::string plan = scratch("plan.json");
  json_of(with({"plan", kModel, "--search", "expert-placement", "--optimizer", "sgd?momentum=0.9,fine=1", "-o", plan},
               kOn));
  const Json op = json_of({"explain", plan, "encoder.rnn.weight_hh_l0.update.add"})["op"]["placement"];
  EXPECT_GT(op["together"].size(), 1u);
  ASSERT_EQ(op["alternatives"].size(), 1u);
  EXPECT_NE(op["alternatives"][0]["device"], op["device"]);
  EXPECT_LT(op["start_us"].get<double>(), op["end_us"].get<double>());
  const std::string text = partita({"explain", plan, "decoder.rnn_l1.2.input"}).out;
  EXPECT_NE(text.find("on another device"), std::string::npos) << text;
  EXPECT_EQ(text.find("[]"), std::string::npos) << text;
}

TEST(ExplainPlaced, CompareHasTheGap) {
  const Outcome o = partita(with({"compare", kModel, "--search", "single,expert-placement"}, kOn));
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.out.find(" gap "), std::string::npos);
  EXPECT_NE(o.out.find('%'), std::string::npos);
  const Outcome without = partita(with({"compare", kModel, "--search", "single,data-parallel"}, kOn));
  EXPECT_EQ(without.out.find(" gap "), std::string::npos);
}

}  // namespace
}  // namespace partita

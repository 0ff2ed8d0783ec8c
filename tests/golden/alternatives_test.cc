// Tests Tofu's alternatives that the simulator evaluates, against single-device plans.
#include <gtest/gtest.h>

#include "partita/base/align.h"
#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/pipeline/pipeline.h"
#include "partita/schedule/lower.h"
#include "partita/search/estimates/replicas.h"
#include "partita/sim/simulate.h"
#include "tests/golden/uneven_cluster.h"

namespace partita {
namespace {

Planned planned(const std::string& search, const std::string& model, int64_t batch, int devices,
                std::optional<int64_t> memory_limit_bytes = {}, const Optimizer& optimizer = {}) {
  Request request;
  request.model = model;
  request.bindings["batch"] = std::to_string(batch);
  request.search = search;
  request.cluster = "p2.8xlarge";
  request.devices = devices;
  request.memory_limit_bytes = memory_limit_bytes;
  request.optimizer = optimizer;
  Runner runner;
  return plan_model(request, runner);
}

constexpr const char* kModel = "zoo:mlp?layers=2,width=20";

TEST(SmallBatch, TakesTheLargestBatchThatFits) {
  const auto alone_bytes = [](int64_t batch) { return planned("single", kModel, batch, 1).peak_memory_bytes(); };
  for (int64_t limit : {alone_bytes(1), alone_bytes(6) + 1000, alone_bytes(23) - 1, alone_bytes(25)}) {
    const Planned found = planned("small-batch", kModel, 4 * 25 + 3, 4, limit);
    ASSERT_TRUE(found.search.estimate);
    EXPECT_FALSE(found.search.plan);
    EXPECT_EQ(*found.batch() % 4, 0);
    const int64_t samples = *found.batch() / 4;
    EXPECT_EQ(found.peak_memory_bytes(), alone_bytes(samples));
    EXPECT_LE(found.peak_memory_bytes(), limit);
    EXPECT_LE(samples, 25);
    if (samples < 25) {
      EXPECT_GT(alone_bytes(samples + 1), limit) << samples;
    }
  }
  try {
    planned("small-batch", kModel, 100, 4, alone_bytes(1) - 100);
    FAIL() << "one sample does not fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible);
    EXPECT_NE(std::string(error.what()).find(" 100 B more than"), std::string::npos) << error.what();
  }
}

TEST(SmallBatch, TimeIsOneDevicesRateIsThatOfAll) {
  const Planned alone = planned("single", kModel, 30, 1), one = planned("small-batch", kModel, 30, 1);
  EXPECT_EQ(one.step_time_ns(), alone.step_time_ns());
  EXPECT_EQ(one.peak_memory_bytes(), alone.peak_memory_bytes());
  // Inputs come over links that the other devices load too.
  const Planned eight = planned("small-batch", kModel, 8 * 30, 8);
  EXPECT_EQ(eight.batch(), 240);
  EXPECT_GE(eight.step_time_ns(), alone.step_time_ns());
  int64_t input_bytes = 0;
  for (TensorId input : alone.training.inputs) input_bytes += alone.training.tensor(input).bytes();
  const double further_ns = 7 * static_cast<double>(input_bytes) / 10e9 * 1e9;  // 10 GB/s, an eighth for each
  EXPECT_LE(static_cast<double>(eight.step_time_ns() - alone.step_time_ns()), further_ns + 10);
  EXPECT_DOUBLE_EQ(*eight.samples_per_second(), 240 / (static_cast<double>(eight.step_time_ns()) / 1e9));
}

const char* const kSwapped[] = {"zoo:mlp?layers=4,width=40", "zoo:lenet", "zoo:rnnlm?steps=4,hidden=20,vocabulary=7"};

TEST(Swap, WhatFitsIsNotMoved) {
  for (const char* model : kSwapped) {
    SCOPED_TRACE(model);
    // In the memory that the static planner needs, whole slots, nothing moves.
    const Planned alone = planned("single", model, 4, 1);
    const int64_t limit = align_up(alone.peak_memory_bytes(), kAlignBytes);
    const Planned one = planned("swap", model, 4, 1, limit);
    ASSERT_TRUE(one.search.estimate);
    EXPECT_EQ(one.search.estimate->host_bytes, 0);
    EXPECT_LE(one.peak_memory_bytes(), limit);
    // In ample memory it takes the time of the plan whose registers share no bytes: nothing waits for memory.
    const Planned ample = planned("swap", model, 4, 1);
    LowerOptions options;
    options.share_bytes = false;
    EXPECT_EQ(
        ample.step_time_ns(),
        simulate(lower(alone.training, alone.plan, alone.cluster, options), CostModel(alone.cluster)).step_time_ns);
    EXPECT_EQ(ample.batch(), 4);
  }
}

TEST(Swap, CopiesTakeTheirTimeOnSharedLinks) {
  for (const char* model : kSwapped) {
    SCOPED_TRACE(model);
    const Planned alone = planned("single", model, 4, 1);
    const int64_t limit = alone.peak_memory_bytes() * 3 / 4;
    const Planned one = planned("swap", model, 4, 1, limit), eight = planned("swap", model, 32, 8, limit);
    const auto in = [](const Planned& p) { return p.search.counters.at("swap_in_bytes"); };
    const auto out = [](const Planned& p) { return p.search.counters.at("swap_out_bytes"); };
    EXPECT_GT(in(one), 0);
    EXPECT_EQ(in(eight), in(one));
    EXPECT_EQ(static_cast<double>(eight.search.estimate->host_bytes), 8 * (in(one) + out(one)));
    EXPECT_LE(one.peak_memory_bytes(), limit);
    EXPECT_GE(one.step_time_ns(), alone.step_time_ns());
    EXPECT_GE(eight.step_time_ns(), one.step_time_ns());
    // 10 GB/s each way, an eighth for each of eight.
    EXPECT_GE(static_cast<double>(one.step_time_ns()), std::max(in(one), out(one)) / 10);
    EXPECT_GE(static_cast<double>(eight.step_time_ns()), std::max(in(one), out(one)) / 10 * 8);
  }
}

// Gradients that are kept until the last update take memory, or go to the host.
TEST(Swap, KeepsGradients) {
  const Optimizer kept{.kind = "sgd?keep_gradients=1"};
  for (const char* model : kSwapped) {
    SCOPED_TRACE(model);
    const auto fits = [&](const Optimizer& optimizer) {
      return align_up(planned("single", model, 4, 1, {}, optimizer).peak_memory_bytes(), kAlignBytes);
    };
    const int64_t small = fits({}), large = fits(kept);
    ASSERT_LT(small, large);
    EXPECT_EQ(planned("swap", model, 4, 1, small).search.estimate->host_bytes, 0);
    EXPECT_EQ(planned("swap", model, 4, 1, large, kept).search.estimate->host_bytes, 0);
    EXPECT_GE(planned("swap", model, 4, 1, small, kept).search.estimate->host_bytes, large - small);
  }
}

TEST(Swap, SaysWhatOneOpLacks) {
  try {
    planned("swap", kModel, 100, 4, 200);
    FAIL() << "no op has room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInfeasible);
    EXPECT_NE(std::string(error.what()).find("at once"), std::string::npos) << error.what();
  }
  Request request;
  request.model = kModel;
  request.search = "swap";
  request.cluster = "local:2";
  Runner runner;
  EXPECT_THROW(plan_model(request, runner), Error);  // its devices are their own hosts
}

TEST(Replicas, SharedLinksAreDivided) {
  // Two devices behind one host link of 8 GB/s, one of half the speed behind another of its own.
  const Cluster cluster = uneven_cluster({100, 1, "{bandwidth_gbytes_per_s: 30, latency_us: 1}", ""});
  const Cluster share = own_share(cluster);
  const auto host_bandwidth = [](const Cluster& c, int d) { return c.bandwidth(c.devices[d].host, DeviceId(d)) / 1e9; };
  EXPECT_DOUBLE_EQ(host_bandwidth(cluster, 0), 8);
  EXPECT_DOUBLE_EQ(host_bandwidth(share, 0), 4);
  EXPECT_DOUBLE_EQ(host_bandwidth(share, 1), 4);
  EXPECT_DOUBLE_EQ(host_bandwidth(share, 2), 8);
  EXPECT_DOUBLE_EQ(share.bandwidth(DeviceId(0), DeviceId(2)), cluster.bandwidth(DeviceId(0), DeviceId(2)));
  EXPECT_EQ(representatives(share), (std::vector<DeviceId>{DeviceId(0), DeviceId(0), DeviceId(2)}));
}

}  // namespace
}  // namespace partita

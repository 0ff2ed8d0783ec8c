// Compares the planned memory of some devices lowered by themselves with theirs if all are lowered; and tests plans
// that are too large for that.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "partita/base/error.h"
#include "partita/base/rng.h"
#include "partita/models/testing/training.h"
#include "partita/pipeline/pipeline.h"
#include "partita/schedule/lower.h"
#include "partita/schedule/representatives.h"
#include "partita/search/all/search_text.h"
#include "partita/search/evaluate.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

// The bytes that one device is planned to need more by itself.
struct Alone {
  int devices = 0, same = 0;
  double most = 0, least = 0;
};

void look_at(const std::string& model, const std::string& cluster_name, const std::string& search, Alone& sum) {
  const Graph graph = training(model);
  const Cluster cluster = load_cluster(cluster_name);
  const SearchChoice choice = parse_search(search);
  Rng rng(1);
  const SearchResult found =
      choice.entry->search({graph, cluster, Objective::kComm, {}, choice.options}, {.steps = 20}, rng);
  ASSERT_TRUE(found.plan) << found.reason;
  const std::vector<int64_t> whole = planned_memory(graph, resolve(graph, *found.plan, cluster), cluster).peak_bytes;
  for (int d = 0; d < cluster.compute_count; ++d) {
    const std::vector<int64_t> some = evaluate_memory(graph, *found.plan, cluster, {}, {DeviceId(d)}).peak_bytes;
    for (int other = 0; other < cluster.compute_count; ++other)
      EXPECT_TRUE(other == d || some[static_cast<size_t>(other)] == 0);
    const int64_t alone = some[static_cast<size_t>(d)], all = whole[static_cast<size_t>(d)];
    const double more = static_cast<double>(alone) / static_cast<double>(all) - 1;
    ++sum.devices;
    sum.same += alone == all;
    sum.most = std::max(sum.most, more);
    sum.least = std::min(sum.least, more);
  }
}

// If groups communicate together, the figures are exact. For tensors that others fetch from a device, it is not known
// just how long they stay.
TEST(SomeDevices, NeedWhatTheyNeedAmongAll) {
  for (const auto& [searches, fetches] : {std::pair(std::vector<std::string>{"data-parallel", "zero?stage=3"}, false),
                                          {{"megatron", "tofu", "soybean", "exact"}, true}}) {
    Alone sum;
    for (const std::string& search : searches)
      for (const char* model :
           {"mlp?layers=3,width=96,batch=96", "transformer?layers=2,hidden=96,heads=4,steps=8,vocabulary=48,batch=24",
            "rnnlm?steps=3,hidden=96,vocabulary=48,batch=48"})
        for (const char* cluster : {"local:3", "local:8"})
          if (search != "megatron" || std::string(model).starts_with("transformer"))
            look_at(model, cluster, search, sum);
    std::printf("%s: %d of %d the same, others %+.2f%% to %+.2f%%\n", fetches ? "with fetches" : "collectives alone",
                sum.same, sum.devices, 100 * sum.least, 100 * sum.most);
    EXPECT_GT(sum.devices, 0);
    EXPECT_TRUE(fetches || sum.same == sum.devices);
    EXPECT_GT(10 * sum.same, 7 * sum.devices);
    EXPECT_GT(sum.least, -0.06);
    EXPECT_LT(sum.most, 0.08);
  }
}

// Compares the step time and the memory of a few devices with those of all.
TEST(SomeDevices, TellTheStepTime) {
  const std::string gpt2 = "zoo:gpt2?layers=8,hidden=128,heads=8,vocabulary=512,steps=64";
  const std::string moe = "zoo:moe?layers=4,hidden=64,heads=8,steps=16,vocabulary=96,experts=8,groups=64";
  double least = 1, most = 1;
  for (const auto& [model, cluster, search] : std::vector<std::tuple<std::string, const char*, std::string>>{
           {gpt2, "dgx-1", "data-parallel"},
           {gpt2, "dgx-1", "zero?stage=3,micro-batches=4"},
           {gpt2, "dgx-1", "megatron?tensor=4"},
           {gpt2, "dgx-1", "pipeline?stages=4,micro-batches=8"},
           {gpt2, "dgx-1", "pipeline?stages=4,micro-batches=8,schedule=gpipe"},
           {gpt2, "dgx-1", "megatron?tensor=2,pipeline=2,micro-batches=4,zero=1"},
           {gpt2, "dgx-1", "pipeline?stages=4,schedule=interleaved,micro-batches=8"},
           {gpt2, "dgx-h100:2", "megatron?tensor=4,pipeline=2,micro-batches=8"},
           {gpt2, "dgx-h100:2", "megatron?tensor=8,pipeline=2,micro-batches=4,zero=2"},
           {gpt2, "dgx-h100:2", "data-parallel"},
           {gpt2, "dgx-h100:2", "zero?stage=2,micro-batches=2"},
           {moe, "dgx-1", "pipeline?stages=2,micro-batches=4"},
           {moe, "dgx-h100:2", "megatron?tensor=8"}}) {
    Request request;
    request.model = model;
    request.bindings["batch"] = "64";
    request.cluster = cluster;
    request.search = search;
    Runner runner;
    const Planned p = plan_model(request, runner);
    const auto figures = [&](const std::vector<DeviceId>& devices) {
      const DeviceMask device_mask = mask_with_hosts(devices, p.cluster);
      const PhysicalGraph graph = lower(p.training, resolve(p.training, p.plan, p.cluster, device_mask), p.cluster);
      const int64_t peak = *std::max_element(graph.peak_bytes.begin(), graph.peak_bytes.begin() + graph.compute_count);
      return std::pair(static_cast<double>(simulate(graph, CostModel(p.cluster)).step_time_ns),
                       static_cast<double>(peak));
    };
    const auto all = figures({}), some = figures(representative_devices(p.cluster, p.plan));
    std::printf("%s %s: step time %.3f of that of all, memory %.3f\n", cluster, search.c_str(), some.first / all.first,
                some.second / all.second);
    least = std::min(least, some.first / all.first);
    most = std::max(most, some.first / all.first);
    EXPECT_NEAR(some.second / all.second, 1, 0.06) << cluster << " " << search;
  }
  EXPECT_GT(least, 0.9);
  EXPECT_LT(most, 1.1);
}

// Compares a step of many micro-batches, extrapolated from a few, with that of all.
TEST(SomeDevices, TellWhatManyMicroBatchesTake) {
  for (const char* search : {"pipeline?stages=4", "pipeline?stages=4,schedule=gpipe", "pipeline?stages=4,virtual=2",
                             "megatron?tensor=2,pipeline=2,zero=1"}) {
    Request request;
    request.model = "zoo:gpt2?layers=8,hidden=128,heads=8,vocabulary=512,steps=64";
    request.bindings["batch"] = "576";
    request.micro_batches = 72;
    request.cluster = "dgx-1";
    request.search = search;
    request.optimizer.clip_norm = 1;
    Runner runner;
    const Planned p = plan_model(request, runner);
    ASSERT_TRUE(p.of_all_micro_batches) << search;
    Planned all = p;
    follow_whole(all, runner);
    const StepBreakdown whole = all.breakdown(), told = p.breakdown();
    std::printf("%s: step time %.3f of that of all", search,
                static_cast<double>(told.step_ns()) / static_cast<double>(whole.step_ns()));
    EXPECT_NEAR(static_cast<double>(told.step_ns()) / static_cast<double>(whole.step_ns()), 1, 0.03) << search;
    ASSERT_EQ(told.stages.size(), whole.stages.size());
    for (size_t s = 0; s < told.stages.size(); ++s) {
      const StageFigures &stage = told.stages[s], &of_all = whole.stages[s];
      const double memory =
                       static_cast<double>(stage.peak_memory_bytes) / static_cast<double>(of_all.peak_memory_bytes),
                   compute = static_cast<double>(stage.time.compute_ns) / static_cast<double>(of_all.time.compute_ns);
      std::printf("; stage %zu: memory %.3f, computing %.3f, %d and %d in flight", s, memory, compute, stage.in_flight,
                  of_all.in_flight);
      EXPECT_NEAR(memory, 1, 0.03) << search << " stage " << s;
      EXPECT_NEAR(compute, 1, 0.03) << search << " stage " << s;
      EXPECT_EQ(stage.in_flight, of_all.in_flight) << search << " stage " << s;
      EXPECT_EQ(stage.time.step_ns(), told.step_ns());
    }
    std::printf("\n");
    EXPECT_NEAR(static_cast<double>(*evaluate_memory(p.training, p.plan, p.cluster).memory_deficit),
                static_cast<double>(p.least_memory_bytes() - p.cluster.devices[0].memory_bytes),
                0.03 * static_cast<double>(p.least_memory_bytes()));
  }
}

// Every device of a plan that splits evenly needs the same; on 16,384 of them three are looked at.
TEST(SomeDevices, StandForAllWhereThereAreVeryMany) {
  Request request;
  request.model = "zoo:transformer?layers=2,hidden=64,heads=4,steps=8,vocabulary=64,batch=16384";
  request.cluster = "dgx-h100:2048";
  request.search = "data-parallel";
  Runner runner;
  const Planned large = plan_model(request, runner);
  ASSERT_TRUE(is_too_large_to_lower(large.training, large.cluster));
  EXPECT_EQ(large.representatives, (std::vector<DeviceId>{DeviceId(0), DeviceId(8192), DeviceId(16383)}));
  EXPECT_FALSE(large.is_whole());
  EXPECT_EQ(large.report.inner_bytes, 0);
  EXPECT_GT(large.report.comm_bytes, 0);

  request.model = "zoo:transformer?layers=2,hidden=64,heads=4,steps=8,vocabulary=64,batch=8";
  request.cluster = "dgx-h100:1";
  const Planned small = plan_model(request, runner);
  ASSERT_FALSE(is_too_large_to_lower(small.training, small.cluster));
  EXPECT_TRUE(small.representatives.empty());
  EXPECT_EQ(large.peak_memory_bytes(), small.peak_memory_bytes());  // one sample a device, either way

  const Problem problem{large.training, large.cluster};
  const int64_t least = large.least_memory_bytes();
  EXPECT_LE(least, large.peak_memory_bytes());
  EXPECT_EQ(memory_deficit(problem, large.plan), least - large.cluster.devices[0].memory_bytes);
  try {
    lower(large.training, large.plan, large.cluster);
    FAIL() << "lowered";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput);
    EXPECT_NE(std::string(e.what()).find("16384 devices"), std::string::npos) << e.what();
  }
  request.model = "zoo:transformer?layers=2,hidden=64,heads=4,steps=8,vocabulary=64,batch=16384";
  request.cluster = "dgx-h100:2048";
  request.memory_limit_bytes = least - 1;
  request.bucket_bytes = kBucketBytes;  // without the option there would be none, and it would fit
  try {
    plan_model(request, runner);
    FAIL() << "fits";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kInfeasible);
    EXPECT_NE(std::string(e.what()).find("(1 bytes missing)"), std::string::npos) << e.what();
  }
}

// If little time is left, by this machine's current speed, a plan's figures are extrapolated from representatives. A
// small plan's are of all, however little there is.
TEST(SomeDevices, TellWhereTimeIsShort) {
  const auto devices = [](const char* model, std::optional<double> seconds, double firings_per_second = 25'000) {
    const Graph graph = training(model);
    const Cluster cluster = load_cluster("local:64");
    const SearchChoice choice = parse_search("data-parallel");
    Rng rng(1);
    const Plan plan = *choice.entry->search({graph, cluster, Objective::kComm, {}, choice.options}, {}, rng).plan;
    Watch watch;
    if (seconds)
      watch.deadline = Watch::Clock::now() +
                       std::chrono::duration_cast<Watch::Clock::duration>(std::chrono::duration<double>(*seconds));
    return choose_representatives_within(graph, plan, cluster, watch, firings_per_second).devices.size();
  };
  const char* const large = "resnet-50?image=32,width=8,batch=64";
  EXPECT_EQ(devices(large, 60.0), devices(large, std::nullopt));
  EXPECT_EQ(devices(large, 0.0), 3U);
  EXPECT_EQ(devices(large, 60.0, 100), 3U);
  EXPECT_EQ(devices("mlp?layers=2,width=64,batch=64", 0.0), 0U);
}

}  // namespace
}  // namespace partita

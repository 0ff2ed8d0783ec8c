// Tests how much of a data-parallel step's communication overlaps its kernels, which order of a plan is chosen, and the
// memory limit's effect.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <tuple>

#include "partita/base/error.h"
#include "partita/physical/breakdown.h"
#include "partita/pipeline/pipeline.h"
#include "partita/schedule/choose_order.h"
#include "partita/schedule/orders.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

Request request_of(const std::string& model, const std::string& search, const std::string& cluster, int batch) {
  Request request;
  request.model = model;
  request.bindings["batch"] = std::to_string(batch);
  request.search = search;
  request.cluster = cluster;
  request.dtype = DType::kBFloat16;
  return request;
}

Planned made(const Request& request) {
  Runner runner;
  return plan_model(request, runner);
}

struct Collectives {
  int64_t all_ns = 0, last_ns = 0;  // of device 0, for parameters: all of this kind, and the one that ends last
};
Collectives collectives_of(const PhysicalGraph& graph, const Trace& trace, StepKind kind) {
  Collectives found;
  int64_t end = -1;
  for (const Event& e : trace.events) {
    const Task& task = graph.task(e.task);
    if (task.device != DeviceId(0)) continue;
    if (graph.queues[task.queue.index()].kind != QueueKind::kParameterCollective) continue;
    if (std::get<CollectiveWork>(task.work).kind != kind) continue;
    found.all_ns += e.end_ns - e.start_ns;
    if (e.end_ns > end) end = e.end_ns, found.last_ns = e.end_ns - e.start_ns;
  }
  return found;
}

// PyTorch's DistributedDataParallel starts the reduction of finished gradients while the backward pass goes on, so all
// but the last may be hidden. At least 80% of that is.
TEST(Overlap, DataParallelPlansHideWhatDdpHides) {
  for (const auto& [model, batch] :
       std::vector<std::pair<std::string, int>>{{"zoo:gpt2?layers=6", 64}, {"zoo:resnet-50", 256}}) {
    Request request = request_of(model, "data-parallel", "dgx-h100", batch);
    if (model == "zoo:resnet-50") request.batch_norm_groups = "replica";
    const Planned p = made(request);
    const Collectives reductions = collectives_of(p.physical, p.predicted, StepKind::kAllReduce);
    const StepBreakdown parts = p.breakdown();
    int64_t open = 0;
    for (const auto& [what, ns] : parts.exposed_ns)
      if (what == "all-reduce") open += ns;
    const int64_t may_hide = reductions.all_ns - reductions.last_ns, hidden = reductions.all_ns - open;
    std::printf("%s: %.2f ms of reductions, %.2f ms in the open, the last takes %.2f ms\n", model.c_str(),
                static_cast<double>(reductions.all_ns) / 1e6, static_cast<double>(open) / 1e6,
                static_cast<double>(reductions.last_ns) / 1e6);
    EXPECT_GT(reductions.all_ns, 0);
    EXPECT_GE(static_cast<double>(hidden), 0.8 * static_cast<double>(may_hide)) << model;
  }
}

// Stage 1 of ZeRO: weights are updated in shards, and gathered, while the backward pass goes on.
TEST(Overlap, UpdatedWeightsAreGatheredBesideTheBackwardPass) {
  Request request = request_of("zoo:gpt2?layers=6", "zero?stage=1", "dgx-h100:2", 64);
  request.dtype = DType::kFloat32;
  const Planned p = made(request);
  const Collectives gathers = collectives_of(p.physical, p.predicted, StepKind::kAllGather);
  const int64_t open = p.breakdown().exposed_ns.at("all-gather");
  std::printf("%.2f ms of gathers, %.2f ms in the open, the last takes %.2f ms\n",
              static_cast<double>(gathers.all_ns) / 1e6, static_cast<double>(open) / 1e6,
              static_cast<double>(gathers.last_ns) / 1e6);
  EXPECT_LE(static_cast<double>(open), 0.5 * static_cast<double>(gathers.all_ns));
}

// Transfers between stages overlap compute with one micro-batch more in flight if that is faster, and with the
// schedule's own number if memory is short. Both are admitted.
TEST(Overlap, APipelineHasOneMoreInFlightWhereMemoryAllows) {
  for (const auto& [search, most, least] : {std::tuple("pipeline?stages=4,micro-batches=16", 5, 4),
                                            {"pipeline?stages=2,virtual=2,micro-batches=8", 5, 5}}) {
    Request request = request_of("zoo:gpt2?layers=8", search, "dgx-a100:2", 256);
    request.budget.steps = 1;  // the evenest cut, whatever memory there is
    const Planned roomy = made(request);
    EXPECT_EQ(roomy.breakdown().stages[0].in_flight, most) << search;
    request.memory_limit_bytes = roomy.peak_memory_bytes() * 99 / 100;
    const Planned tighter = made(request);
    EXPECT_EQ(tighter.breakdown().stages[0].in_flight, least) << search;
    EXPECT_LT(tighter.peak_memory_bytes(), roomy.peak_memory_bytes()) << search;
    EXPECT_GE(tighter.breakdown().step_ns(), roomy.breakdown().step_ns()) << search;
    EXPECT_EQ(refuse(tighter.physical), std::nullopt) << search;
  }
}

// ZeRO-3's gathers overlap the layers before, if there is memory for two layers' weights. The tightest order takes no
// more memory than the limit, and longer.
TEST(Overlap, TheMemoryLimitDecidesHowMuch) {
  Request request = request_of("zoo:gpt2-xl?layers=8,steps=512", "fsdp?recompute=layer", "dgx-h100:2", 16);
  request.bucket_bytes = 0;
  const Planned roomy = made(request);
  request.memory_limit_bytes = roomy.peak_memory_bytes() * 95 / 100;
  const Planned tighter = made(request);
  EXPECT_LT(tighter.peak_memory_bytes(), roomy.peak_memory_bytes());
  EXPECT_GT(tighter.breakdown().step_ns(), roomy.breakdown().step_ns());
  std::printf("%.1f MB: %.2f ms; %.1f MB: %.2f ms\n", static_cast<double>(roomy.peak_memory_bytes()) / 1e6,
              static_cast<double>(roomy.breakdown().step_ns()) / 1e6,
              static_cast<double>(tighter.peak_memory_bytes()) / 1e6,
              static_cast<double>(tighter.breakdown().step_ns()) / 1e6);
}

// All orders are simulated one by one. The chosen order has least memory among those about as fast as the fastest. In
// the plan of SoyBean that is the tightest, in which a device waits less for others.
TEST(Overlap, TheOrderOfLeastMemoryThatIsAboutAsFastCounts) {
  for (const auto& [model, search, cluster, batch] :
       std::vector<std::tuple<std::string, std::string, std::string, int>>{
           {"zoo:mlp?layers=4,width=8192,bias=0,loss=elementwise", "soybean", "p2.8xlarge", 16384},
           {"zoo:wresnet-50-4", "data-parallel", "dgx-h100", 8},
           {"zoo:gpt2?layers=4,steps=128", "zero?stage=3", "dgx-1", 32},
           {"zoo:gpt2?layers=8,hidden=256,heads=4,vocabulary=512,steps=64", "pipeline?stages=4,micro-batches=8",
            "dgx-1", 64}}) {
    Request request = request_of(model, search, cluster, batch);
    if (search == "soybean") request.dtype = DType::kFloat32;
    const Planned p = made(request);
    Orders orders(p.training, *p.resolved, p.cluster);
    ASSERT_GT(orders.size(), 1U) << search;
    std::vector<std::pair<int64_t, double>> found;  // peak bytes and ns, by order
    double fastest = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < orders.size(); ++i) {
      const PhysicalGraph& graph = orders.with_edges(i);
      found.emplace_back(*std::max_element(graph.peak_bytes.begin(), graph.peak_bytes.begin() + graph.compute_count),
                         simulate(graph, CostModel(p.cluster)).step_time_ns);
      fastest = std::min(fastest, found.back().second);
    }
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& [bytes, ns] : found)
      if (ns <= fastest * (1 + kAboutAsFast)) least = std::min(least, bytes);
    EXPECT_EQ(p.peak_memory_bytes(), least) << search;
    EXPECT_LE(static_cast<double>(p.step_time_ns()), fastest * (1 + kAboutAsFast)) << search;
    EXPECT_EQ(p.least_memory_bytes(), found.front().first) << search;
    std::printf("%s: %.1f of %.1f to %.1f MB, %.2f of %.2f to %.2f ms\n", search.c_str(),
                static_cast<double>(p.peak_memory_bytes()) / 1e6, static_cast<double>(found.front().first) / 1e6,
                static_cast<double>(found.back().first) / 1e6, static_cast<double>(p.step_time_ns()) / 1e6,
                found.front().second / 1e6, found.back().second / 1e6);
  }
}

// Weights of gigabytes whose gradients are reduced for longer than the kernels take. With the largest overlap budget
// they lie in memory together, which makes the step no shorter.
TEST(Overlap, RoomThatGainsNothingIsNotTaken) {
  Request request = request_of("zoo:wresnet-152-10", "data-parallel", "dgx-h100", 8);
  request.dtype = DType::kFloat32;
  const Planned p = made(request);
  EXPECT_LT(p.peak_memory_bytes(), p.least_memory_bytes() * 106 / 100);
}

// With the stated least memory a plan fits, and with a byte less it does not.
TEST(Overlap, ThePlanFitsIntoTheLeastMemoryThatIsTold) {
  Request request = request_of("zoo:gpt2?layers=4,steps=128", "zero?stage=3", "dgx-1", 32);
  request.bucket_bytes = 0;
  const Planned roomy = made(request);
  const int64_t least = roomy.least_memory_bytes();
  ASSERT_LT(least, roomy.peak_memory_bytes());
  request.memory_limit_bytes = least;
  const Planned tight = made(request);
  EXPECT_EQ(tight.peak_memory_bytes(), least);
  EXPECT_EQ(tight.least_memory_bytes(), least);
  request.memory_limit_bytes = least - 1;
  EXPECT_THROW(made(request), Error);
}

}  // namespace
}  // namespace partita

// What of a data-parallel step's communication runs beside its kernels, and how the memory limit decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "partita/base/error.h"
#include "partita/physical/breakdown.h"
#include "partita/physical/lower.h"
#include "partita/pipeline.h"
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

// PyTorch's DistributedDataParallel starts the reduction of what the backward pass has made while it goes on, so that
// all but the last may be hidden. At least 80% of that is.
TEST(Overlap, DataParallelPlansHideWhatDdpHides) {
  for (const auto& [model, batch] :
       std::vector<std::pair<std::string, int>>{{"zoo:gpt2?layers=6", 64}, {"zoo:resnet-50", 256}}) {
    Request request = request_of(model, "data-parallel", "dgx-h100", batch);
    if (model == "zoo:resnet-50") request.batch_norm_groups = "replica";
    const Planned p = made(request);
    const PhysicalGraph graph = lower(p.training, p.plan, p.cluster);
    const Trace trace = simulate(graph, CostModel(p.cluster));
    const Collectives reductions = collectives_of(graph, trace, StepKind::kAllReduce);
    const StepBreakdown parts = breakdown_of(trace, graph);
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

// Stage 1 of ZeRO: weights are updated in parts, and gathered, while the backward pass goes on.
TEST(Overlap, UpdatedWeightsAreGatheredBesideTheBackwardPass) {
  Request request = request_of("zoo:gpt2?layers=6", "zero?stage=1", "dgx-h100:2", 64);
  request.dtype = DType::kFloat32;
  const Planned p = made(request);
  const PhysicalGraph graph = lower(p.training, p.plan, p.cluster);
  const Trace trace = simulate(graph, CostModel(p.cluster));
  const Collectives gathers = collectives_of(graph, trace, StepKind::kAllGather);
  const int64_t open = breakdown_of(trace, graph).exposed_ns.at("all-gather");
  std::printf("%.2f ms of gathers, %.2f ms in the open, the last takes %.2f ms\n",
              static_cast<double>(gathers.all_ns) / 1e6, static_cast<double>(open) / 1e6,
              static_cast<double>(gathers.last_ns) / 1e6);
  EXPECT_LE(static_cast<double>(open), 0.5 * static_cast<double>(gathers.all_ns));
}

// Transfers between stages run beside compute with one micro-batch more in flight, and the schedule's own number where
// memory is short. Both are admitted.
TEST(Overlap, APipelineHasOneMoreInFlightWhereMemoryAllows) {
  for (const auto& [search, most, least] :
       {std::tuple("pipeline?stages=4,micro-batches=8", 5, 4), {"pipeline?stages=2,virtual=2,micro-batches=8", 5, 5}}) {
    Request request = request_of("zoo:gpt2?layers=8,hidden=256,heads=4,vocabulary=512,steps=64", search, "dgx-1", 64);
    const Planned roomy = made(request);
    EXPECT_EQ(roomy.breakdown().stages[0].in_flight, most) << search;
    request.memory_limit_bytes = roomy.peak_memory_bytes() * 99 / 100;
    const Planned tighter = made(request);
    EXPECT_EQ(tighter.breakdown().stages[0].in_flight, least) << search;
    EXPECT_LT(tighter.peak_memory_bytes(), roomy.peak_memory_bytes()) << search;
    EXPECT_GE(tighter.breakdown().step_ns(), roomy.breakdown().step_ns()) << search;
    EXPECT_EQ(refuse(lower(tighter.training, tighter.plan, tighter.cluster)), std::nullopt) << search;
  }
}

// ZeRO-3's gathers run beside the layers before, where there is memory for two layers' weights; the tightest order
// takes no more memory than the limit, and longer.
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

}  // namespace
}  // namespace partita

// Tests a device's two static queues in lowered plans: the collectives on each, and their overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/trace.h"
#include "partita/pipeline/pipeline.h"
#include "partita/schedule/lower.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

Planned made(const std::string& model, const std::string& search, const std::string& cluster, int batch) {
  Request request;
  request.model = model;
  request.bindings["batch"] = std::to_string(batch);
  request.search = search;
  request.cluster = cluster;
  request.optimizer = {"adam", 0.01};
  request.optimizer.clip_norm = 1;
  request.bucket_bytes = 0;  // many small reductions
  Runner runner;
  return plan_model(request, runner);
}

bool is_collective(const Task& task) { return std::holds_alternative<CollectiveWork>(task.work); }
bool is_of_parameters(const PhysicalGraph& graph, const Task& task) {
  return graph.queues[task.queue.index()].name.ends_with(".collective.parameters");
}

// Tensors with an axis of samples, and inner steps of ops that read one, are on the one queue. Parameters, states, and
// operands and results of updates are on the other. The rest is not tested here.
TEST(Queues, OfActivationsAndOfParameters) {
  const std::string gpt2 = "zoo:gpt2?layers=2,hidden=32,heads=4,vocabulary=64,steps=8";
  for (const auto& [model, search] : std::vector<std::pair<std::string, std::string>>{
           {gpt2, "data-parallel"},
           {gpt2, "megatron?tensor=2"},
           {gpt2, "megatron?tensor=2,sequence=1,zero=3"},
           {gpt2, "megatron?tensor=2,zero=2,micro-batches=2"},
           {"zoo:moe?layers=2,hidden=32,heads=4,steps=8,vocabulary=32,experts=4,groups=8",
            "megatron?tensor=2,expert=2"},
           {"zoo:resnet-18?image=32,classes=8", "data-parallel"}}) {
    SCOPED_TRACE(model + " " + search);
    const Planned p = made(model, search, "local:4", 16);
    const Graph& graph = p.training;
    std::set<TensorId> updated;
    for (const Op& op : graph.ops)
      if (op.phase == Phase::kUpdate && op.definition == "adam") updated.insert(op.operands.begin(), op.operands.end());
    const PhysicalGraph physical = lower(graph, p.plan, p.cluster);
    int counts[2] = {0, 0};
    for (const Task& task : physical.tasks) {
      if (!is_collective(task)) continue;
      const bool of_parameters = is_of_parameters(physical, task);
      ++counts[of_parameters];
      const TensorId id = physical.reg(task.reads[0].reg).tensor;
      const Op& op = graph.op(task.op);
      if (!id.valid()) {
        const bool of_samples = std::any_of(op.operands.begin(), op.operands.end(),
                                            [&](TensorId t) { return graph.tensor(t).sample_axis >= 0; });
        EXPECT_FALSE(of_samples && of_parameters) << task.name;
        EXPECT_TRUE(of_samples || op.phase != Phase::kUpdate || of_parameters) << task.name;
        continue;
      }
      const Tensor& tensor = graph.tensor(id);
      EXPECT_FALSE(tensor.sample_axis >= 0 && of_parameters) << task.name;
      if (tensor.role == Role::kParameter || tensor.role == Role::kState || tensor.replaces.valid() ||
          updated.contains(id)) {
        EXPECT_TRUE(of_parameters) << task.name;
      }
    }
    std::printf("%s: %d collectives of activations, %d of parameters\n", search.c_str(), counts[0], counts[1]);
    EXPECT_GT(counts[true], 0);
    EXPECT_EQ(counts[false] > 0, search != "data-parallel" || model != gpt2);
  }
}

// Pairs of firings of one device's collectives: a sum of activations in the backward pass, within a tensor group, that
// begins or ends while a reduction of gradients between nodes is under way.
int overlaps(const PhysicalGraph& graph, const Trace& trace, DeviceId device) {
  std::vector<Event> sums, reductions;
  for (const Event& e : trace.events) {
    const Task& task = graph.task(e.task);
    if (task.device != device || !is_collective(task)) continue;
    const auto& work = std::get<CollectiveWork>(task.work);
    if (!work.partial) continue;
    if (work.size == 2 && task.phase == Phase::kUpdate && graph.reg(task.reads[0].reg).tensor.valid())
      reductions.push_back(e);
    if (work.size == 8 && task.phase == Phase::kBackward) sums.push_back(e);
  }
  EXPECT_FALSE(sums.empty());
  EXPECT_FALSE(reductions.empty());
  int count = 0;
  for (const Event& sum : sums)
    for (const Event& reduction : reductions)
      count += std::max(sum.start_ns, reduction.start_ns) < std::min(sum.end_ns, reduction.end_ns);
  return count;
}

// Tensor 8 x data 2 on two nodes. Reductions over the slow network between them hold up no tensor group, which has
// links of its own inside a node. With one static queue a device, as is tried here too, none would overlap.
TEST(Queues, AReductionBetweenNodesHoldsUpNoTensorGroup) {
  const Planned p =
      made("zoo:gpt2?layers=4,hidden=512,heads=8,vocabulary=1024,steps=128", "megatron?tensor=8", "dgx-h100:2", 16);
  const PhysicalGraph graph = lower(p.training, p.plan, p.cluster);
  ASSERT_EQ(refuse(graph), std::nullopt);
  PhysicalGraph one_queue = graph;
  for (Task& task : one_queue.tasks)
    for (std::size_t q = 0; is_collective(task) && q < graph.queues.size(); ++q)
      if (graph.queues[q].device == task.device && graph.queues[q].name.ends_with(".collective.activations"))
        task.queue = QueueId(q);
  make_edges(one_queue);
  ASSERT_EQ(refuse(one_queue), std::nullopt);
  const CostModel cost(p.cluster);
  const Trace two = simulate(graph, cost), one = simulate(one_queue, cost);
  std::printf("step %.1f us with two queues, %.1f us with one\n", static_cast<double>(two.step_time_ns) / 1e3,
              static_cast<double>(one.step_time_ns) / 1e3);
  for (const DeviceId device : {DeviceId(0), DeviceId(15)}) {
    EXPECT_GT(overlaps(graph, two, device), 4);
    EXPECT_EQ(overlaps(one_queue, one, device), 0);
  }
  EXPECT_LT(two.step_time_ns, one.step_time_ns);
  const std::string rows = chrome_trace(two, graph, p.cluster);
  for (const char* queue : {"activations", "parameters"})
    EXPECT_NE(rows.find(fmt::format("\"name\":\"{}.collective.{}\"", p.cluster.devices[0].name, queue)),
              std::string::npos);
}

}  // namespace
}  // namespace partita

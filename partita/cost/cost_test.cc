// Figures of the cost model, worked out by hand.
#include "partita/cost/cost.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"

namespace partita {
namespace {

// Two devices: 4 TFLOP/s in float32 and 2 in float64 at half efficiency, 100 GB/s, 5 us a launch. Two links: 10 GB/s
// with 2 us, and 1 GB/s with 3 us.
Cluster cluster() {
  Cluster c;
  c.compute_count = 2;
  c.devices.resize(2);
  for (Device& d : c.devices) {
    d.name = "gpu";
    d.peak_flops_per_s = {{DType::kFloat32, 4e12}, {DType::kFloat64, 2e12}};
    d.memory_bandwidth_bytes_per_s = 100e9;
    d.efficiency = 0.5;
    d.launch_overhead_us = 5;
  }
  c.links = {{"fast", 10e9, 2}, {"slow", 1e9, 3}};
  return c;
}

struct Fixture {
  PhysicalGraph graph;
  Task task;
  explicit Fixture(DType dtype = DType::kFloat32) {
    Register reg;
    reg.name = "r";
    reg.dtype = dtype;
    graph.registers = {reg};
    task.device = DeviceId(0);
    task.writes = {{RegisterId(0)}};
  }
};

TEST(TaskCost, RooflineOfAKernel) {
  const Cluster c = cluster();
  const CostModel cost(c);
  Fixture f;
  f.task.flops = 2e8;      // 100 us at 2 TFLOP/s
  f.task.bytes = 1000000;  // 20 us at 50 GB/s
  EXPECT_EQ(cost.task_ns(f.graph, f.task), 105000);
  f.task.bytes = 10000000;  // 200 us: bound by memory
  EXPECT_EQ(cost.task_ns(f.graph, f.task), 205000);
  Fixture g(DType::kFloat64);
  g.task.flops = 2e8;  // 200 us at 1 TFLOP/s
  EXPECT_EQ(cost.task_ns(g.graph, g.task), 205000);
  Fixture i(DType::kInt64);  // at float32's rate
  i.task.flops = 2e8;
  EXPECT_EQ(cost.task_ns(i.graph, i.task), 105000);
}

TEST(TaskCost, ATickAtLeast) {
  Cluster c = cluster();
  for (Device& d : c.devices) d.launch_overhead_us = 0;
  Fixture f;
  EXPECT_EQ(CostModel(c).task_ns(f.graph, f.task), 1);
}

TEST(TaskCost, LatencyAndNarrowestLinkOfATransfer) {
  const Cluster c = cluster();
  const CostModel cost(c);
  Fixture f;
  f.task.work = CopyWork{};
  f.task.bytes = 1000000;
  f.task.route = {LinkId(0)};
  EXPECT_EQ(cost.task_ns(f.graph, f.task), 2000 + 100000);
  f.task.route = {LinkId(0), LinkId(1)};
  EXPECT_EQ(cost.task_ns(f.graph, f.task), 5000 + 1000000);
}

TEST(TaskCost, ADTypeTheDeviceLacksIsBadInput) {
  Cluster c = cluster();
  c.devices[0].peak_flops_per_s.erase(DType::kFloat64);
  Fixture f(DType::kFloat64);
  f.task.flops = 1;
  try {
    CostModel(c).task_ns(f.graph, f.task);
    FAIL() << "it has a cost";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kBadInput);
    EXPECT_STREQ(e.what(), "cluster: device 'gpu' has no peak FLOP/s for float64");
  }
}

// A ring of `routes`: 3 MB of each participant.
int64_t ring(StepKind kind, const std::vector<std::vector<LinkId>>& routes) {
  const Cluster c = cluster();
  PhysicalGraph graph;
  std::vector<TaskId> participants;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    Task task;
    task.route = routes[i];
    task.bytes = 3000000;
    CollectiveWork work;
    work.kind = kind;
    work.collective = CollectiveId(0);
    work.rank = static_cast<int>(i);
    work.size = static_cast<int>(routes.size());
    task.work = work;
    graph.tasks.push_back(task);
    participants.push_back(TaskId(i));
  }
  return CostModel(c).collective_ns(graph, participants);
}

TEST(CollectiveCost, ARing) {
  // Each hop over a link of its own; the bytes pass the slow one in 3 ms; rounds wait for its 3 us.
  const std::vector<std::vector<LinkId>> two{{LinkId(0)}, {LinkId(1)}};
  EXPECT_EQ(ring(StepKind::kAllGather, two), 1 * 3000 + 3000000);
  EXPECT_EQ(ring(StepKind::kReduceScatter, two), 1 * 3000 + 3000000);
  EXPECT_EQ(ring(StepKind::kAllReduce, two), 2 * 3000 + 3000000);
  EXPECT_EQ(ring(StepKind::kAllReduce, {{LinkId(0)}, {LinkId(1)}, {}}), 4 * 3000 + 3000000);
  EXPECT_EQ(ring(StepKind::kAllReduce, {{LinkId(0)}}), 1);
}

// Two hops over one link take twice as long as one, as two transfers do.
TEST(CollectiveCost, HopsThatShareALink) {
  EXPECT_EQ(ring(StepKind::kAllGather, {{LinkId(1)}, {LinkId(1)}}), 3000 + 6000000);
  EXPECT_EQ(ring(StepKind::kAllGather, {{LinkId(0), LinkId(1)}, {LinkId(1)}, {LinkId(0)}}), 2 * 5000 + 6000000);
}

}  // namespace
}  // namespace partita

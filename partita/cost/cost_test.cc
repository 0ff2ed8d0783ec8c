// Tests figures of the cost model, worked out by hand.
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

}  // namespace
}  // namespace partita

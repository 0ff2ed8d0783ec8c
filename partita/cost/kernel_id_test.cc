// Tests ids of kernels, and the times that a profile gives for them.
#include "partita/cost/kernel_id.h"

#include <gtest/gtest.h>

#include "partita/cost/cost.h"
#include "partita/graph/kept_gradients.h"

namespace partita {
namespace {

constexpr const char* kMatmul = "matmul(a, b)[i, j] = sum(k) a[i, k] * b[k, j]";

// A product on one device, of rows [lo, hi) of 32.
struct Product {
  PhysicalGraph graph;
  Cluster cluster;
  explicit Product(Interval rows) {
    const auto bound = std::make_shared<const tdl::Bound>(tdl::bind(kMatmul, {{32, 8}, {8, 16}}));
    const auto reg = [&](const Shape& axes, const Box& box) {
      Register r;
      r.device = DeviceId(0);
      r.axes = axes;
      r.boxes = {box};
      graph.registers.push_back(r);
      return RegisterId(graph.registers.size() - 1);
    };
    Task task;
    task.device = DeviceId(0);
    task.work = KernelWork{"matmul", {{"p", 2}}, bound, 0, 1, {{rows, {0, 16}, {0, 8}}}};
    const auto access = [](RegisterId r, int tensor) {
      Access a{r};
      a.tensor = tensor;
      return a;
    };
    // The rows are a box of a register that has all of them.
    task.reads = {access(reg({32, 8}, full_box({32, 8})), 0), access(reg({8, 16}, full_box({8, 16})), 1)};
    task.reads[0].boxes = {{rows, {0, 8}}};
    task.writes = {access(reg({32, 16}, {rows, {0, 16}}), 2)};
    task.flops = 2.0 * static_cast<double>(rows.size()) * 16 * 8;
    task.bytes = 4 * (rows.size() * 8 + 8 * 16 + rows.size() * 16);
    graph.tasks = {task};
    cluster.compute_count = 1;
    cluster.devices.resize(1);
    cluster.devices[0].model = "core";
    cluster.devices[0].peak_flops_per_s = {{DType::kFloat32, 1e12}};
    cluster.devices[0].memory_bandwidth_bytes_per_s = 1e12;
  }
  const KernelWork& work() const { return std::get<KernelWork>(graph.tasks[0].work); }
  KernelId id() const { return kernel_id(graph, graph.tasks[0], work(), formula_hash(*work().bound)); }
};

// A kernel is the same, and so its measured time, whether the gradient that it reads is kept or freed.
TEST(KernelIds, DoNotSayThatAGradientIsKept) {
  Product product({8, 24});
  const KernelId freed = product.id();
  std::get<KernelWork>(product.graph.tasks[0].work).attributes[kKeptGradient] = 1;
  EXPECT_EQ(product.id(), freed);
}

TEST(KernelIds, AreOfLocalExtents) {
  const KernelId id = Product({8, 24}).id();
  EXPECT_EQ(id.text(), "matmul i=16 k=16 j=8 float32");
  EXPECT_EQ(id.attributes, "p=2");
  EXPECT_EQ(id.operands, (std::vector<KernelId::Operand>{{"a", DType::kFloat32, 128, false},
                                                         {"b", DType::kFloat32, 128, false},
                                                         {"out", DType::kFloat32, 256, true}}));
  EXPECT_EQ(id, Product({0, 16}).id());
  EXPECT_NE(id.key(), Product({0, 17}).id().key());
}

TEST(KernelIds, TellFormulasOfOneNameApartAndNotTheirExtents) {
  const auto form = [](const char* text, int64_t rows) { return formula_hash(tdl::bind(text, {{rows, 8}, {8, 16}})); };
  EXPECT_EQ(form(kMatmul, 32), form(kMatmul, 128));
  EXPECT_NE(form(kMatmul, 32), form("matmul(a, b)[i, j] = max(k) a[i, k] * b[k, j]", 32));
}

TEST(ProfiledTimes, AreThoseOfTheTaskAndMarkedWhereEstimated) {
  Product half({0, 16}), whole({0, 32});
  Profile profile;
  profile.device = "core";
  profile.machine.task_us = 0.5;
  profile.add({half.id(),
               half.graph.tasks[0].flops,
               static_cast<double>(half.graph.tasks[0].bytes),
               {.us = 20, .runs = 9, .together_us = 30, .cold_us = 25}});
  const auto with = [&](Product& p) {
    p.cluster.profile = std::make_shared<const Profile>(profile);
    return CostModel(p.cluster).task_time(p.graph, p.graph.tasks[0]);
  };
  const TaskTime known = with(half);
  EXPECT_EQ(known.ns, 20500);
  EXPECT_EQ(known.cold_ns, 25500);
  EXPECT_EQ(known.together, 1.5);
  EXPECT_FALSE(known.estimated);
  const TaskTime guess = with(whole);
  EXPECT_TRUE(guess.estimated);
  EXPECT_GT(guess.ns, known.ns);
  EXPECT_LT(guess.ns, 3 * known.ns);
  // A step adds up means: those of all runs together, here 23 us over 20.
  MeasuredKernel interrupted = profile.kernels().begin()->second;
  interrupted.time.mean_us = 23;
  profile.add(interrupted);
  EXPECT_NEAR(profile.mean_over_median(), 1.15, 1e-12);
  EXPECT_EQ(with(half).ns, 23500);
  EXPECT_EQ(with(half).cold_ns, 29250);
  // It says nothing about another type of device.
  half.cluster.devices[0].model = "H100";
  EXPECT_LT(CostModel(half.cluster).task_ns(half.graph, half.graph.tasks[0]), 100);
}

}  // namespace
}  // namespace partita

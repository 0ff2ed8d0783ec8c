// Tests kernels that overlap collectives, by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "partita/physical/testing/builder.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

using testing::one_byte_a_ns;
using testing::PhysicalBuilder;

// Runs collectives of these bytes, one after another, between both devices, from 20 ns on, when gpu1 has made their
// operand. gpu0 has kernels of these bytes.
struct Ends {
  std::vector<int64_t> kernels, collectives;
};

Ends run(const std::vector<int64_t>& kernels, const std::vector<int64_t>& collectives, double overlapped_speed) {
  PhysicalBuilder b(2);
  const RegisterId made = b.reg("made", 1, 5);
  b.graph.task(b.add("make", 1, {}, {made})).bytes = 20;
  b.graph.order.push_back({TaskId(0), 0});
  std::vector<TaskId> timed;
  for (size_t k = 0; k < kernels.size(); ++k) {
    timed.push_back(b.add(fmt::format("k{}", k), 0, {}, {b.reg(fmt::format("r{}", k), 0, 5)}));
    b.graph.task(timed.back()).bytes = kernels[k];
    b.graph.order.push_back({timed.back(), 0});
  }
  for (size_t c = 0; c < collectives.size(); ++c) {
    const auto participants = b.all_reduce(fmt::format("c{}", c), {b.constant(fmt::format("x{}", c), 0, 5), made},
                                           {b.reg(fmt::format("y{}", c), 0, 5), b.reg(fmt::format("z{}", c), 1, 5)});
    for (TaskId t : participants) b.graph.task(t).bytes = collectives[c];
    b.graph.order.push_back({participants[0], 0});
    timed.push_back(participants[0]);
  }
  make_counts(b.graph);
  plan_memory(b.graph, {.share_bytes = false});
  make_edges(b.graph);
  Cluster cluster = one_byte_a_ns(2);
  for (Device& device : cluster.devices) device.kernels.beside_collectives = overlapped_speed;
  const Trace trace = simulate(b.graph, CostModel(cluster));
  Ends ends;
  for (size_t t = 0; t < timed.size(); ++t)
    for (const Event& e : trace.events)
      if (e.task == timed[t]) (t < kernels.size() ? ends.kernels : ends.collectives).push_back(e.end_ns);
  return ends;
}

// The example of running.h.
TEST(Beside, AKernelIsSlowerWhileACollectiveRuns) {
  EXPECT_EQ(run({100}, {40}, 0.5).kernels, std::vector<int64_t>{120});
  EXPECT_EQ(run({100}, {40}, 1).kernels, std::vector<int64_t>{100});
  EXPECT_EQ(run({100}, {40}, 0.5).collectives, std::vector<int64_t>{60});
}

TEST(Beside, UntilTheLastOfThemEnds) {
  // 20 of it isolated, 35 in 70 ns under two collectives, 45 isolated.
  EXPECT_EQ(run({100}, {40, 30}, 0.5).kernels, std::vector<int64_t>{135});
  // The first ends at 30: 20 isolated and 5 of 10. The second is slower all along, the third for 5 ns of its 10.
  EXPECT_EQ(run({25, 10, 10}, {35}, 0.5).kernels, (std::vector<int64_t>{30, 50, 63}));
}

TEST(Beside, OnItsOwnDeviceAlone) {
  PhysicalBuilder b(3);
  const RegisterId r = b.reg("r", 2, 5);
  b.graph.task(b.add("apart", 2, {}, {r})).bytes = 100;
  const auto participants =
      b.all_reduce("c", {b.constant("x0", 0, 5), b.constant("x1", 1, 5)}, {b.reg("y0", 0, 5), b.reg("y1", 1, 5)});
  for (TaskId t : participants) b.graph.task(t).bytes = 90;
  testing::run_passes(b.graph);
  Cluster cluster = one_byte_a_ns(3);
  for (Device& device : cluster.devices) device.kernels.beside_collectives = 0.5;
  EXPECT_EQ(simulate(b.graph, CostModel(cluster)).step_time_ns, 100);
}

}  // namespace
}  // namespace partita

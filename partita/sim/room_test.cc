// Room between collectives of parameters and compute, by hand.
#include "partita/physical/room.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/builder.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

using testing::PhysicalBuilder;
constexpr auto kParameters = PhysicalBuilder::Of::kParameters;

// A backward pass of 8 kernels on two devices. Kernel i reads what i-1 made, and makes a gradient as large, which is
// reduced over both and read by an update.
struct Backward {
  PhysicalBuilder b{2};
  Cluster cluster = testing::one_byte_a_ns(2);
  Backward() {
    std::vector<RegisterId> before;
    for (int d = 0; d < 2; ++d) before.push_back(b.constant(fmt::format("x@{}", d), d, 250));
    for (int i = 0; i < 8; ++i) {
      std::vector<RegisterId> partial, whole;
      for (int d = 0; d < 2; ++d) {
        const RegisterId y = b.reg(fmt::format("y{}@{}", i, d), d, 250), g = b.reg(fmt::format("g{}@{}", i, d), d, 250);
        Task& grad = b.graph.task(b.add(fmt::format("grad{}@{}", i, d), d, {before[d]}, {y, g}));
        grad.phase = Phase::kBackward;
        grad.bytes = 1000;
        before[d] = y;
        partial.push_back(g);
        whole.push_back(b.reg(fmt::format("r{}@{}", i, d), d, 250));
      }
      for (const TaskId t : b.all_reduce(fmt::format("reduce{}", i), partial, whole, 1, kParameters)) {
        b.graph.task(t).phase = Phase::kUpdate;
        b.graph.task(t).turn = Task::Turn::kEager;
        b.graph.task(t).bytes = 900;
      }
      for (int d = 0; d < 2; ++d)
        b.graph
            .task(b.add(fmt::format("update{}@{}", i, d), d, {whole[d]},
                        {b.carried(fmt::format("w{}@{}", i, d), d, 250)}))
            .phase = Phase::kUpdate;
    }
  }
  int64_t step_ns(double part, int64_t* peak = nullptr) {
    LowerOptions options;
    if (part > 0) options.room = room_of(b.graph, cluster, part, {});
    PhysicalGraph graph = b.graph;
    testing::run_passes(graph, options);
    EXPECT_EQ(refuse(graph), std::nullopt);
    if (peak) *peak = graph.peak_bytes[0];
    return simulate(graph, CostModel(cluster)).step_time_ns;
  }
};

TEST(Room, IsAStretchOfTheKernelsOfADevice) {
  Backward graph;
  const Room room = room_of(graph.b.graph, graph.cluster, 0.25, {});
  double all = 0;
  for (size_t t = 0; t < graph.b.graph.tasks.size(); ++t)
    if (graph.b.graph.tasks[t].device == DeviceId(0)) all += room.seconds[t];
  EXPECT_NEAR(room.stretch_s, all / 4, 1e-15);
  for (size_t t = 0; t < graph.b.graph.tasks.size(); ++t)
    EXPECT_EQ(room.seconds[t] > 0, graph.b.graph.tasks[t].name.starts_with("grad")) << graph.b.graph.tasks[t].name;
}

// A stretch of a little less than two kernels.
TEST(Room, BytesOfAReductionAreFreeAStretchBehindIt) {
  Backward graph;
  LowerOptions options;
  options.room = room_of(graph.b.graph, graph.cluster, 0.24, {});
  PhysicalGraph& lowered = graph.b.graph;
  testing::run_passes(lowered, options);
  const NodeTable table = number_nodes(lowered);
  const std::vector<int> place = places(lowered, table);
  const Held held = held_bytes(lowered, table, options.room);
  auto at = [&](const std::string& task) { return place[table.number(graph.b.node(task))]; };
  for (int d = 0; d < 2; ++d)
    for (int i = 0; i < 6; ++i) {
      auto held_until = [&](const std::string& task) {
        return until(held, at(task), DeviceId(static_cast<size_t>(d)));
      };
      const int two_on = at(fmt::format("grad{}@{}", i + 2, d));
      EXPECT_EQ(held_until(fmt::format("reduce{}@0", i)), two_on);
      EXPECT_GE(held_until(fmt::format("update{}@{}", i, d)), two_on);
      const std::string kernel = fmt::format("grad{}@{}", i, d);
      EXPECT_EQ(held_until(kernel), at(kernel));
    }
}

TEST(Room, LetsReductionsRunBesideTheBackwardPass) {
  Backward graph;
  int64_t tight = 0, roomy = 0;
  const int64_t one_after_another = graph.step_ns(0, &tight), beside = graph.step_ns(0.25, &roomy);
  EXPECT_LT(beside, one_after_another * 3 / 4);
  EXPECT_GT(roomy, tight);
}

TEST(Room, NoneIsWantedWithoutCollectivesOfParameters) {
  PhysicalBuilder b(2);
  const RegisterId x = b.constant("x@0", 0, 4), y = b.constant("x@1", 1, 4);
  b.all_reduce("sum", {x, y}, {b.reg("s@0", 0, 4), b.reg("s@1", 1, 4)});
  EXPECT_FALSE(wants_room(b.graph));
  EXPECT_TRUE(wants_room(Backward().b.graph));
}

}  // namespace
}  // namespace partita

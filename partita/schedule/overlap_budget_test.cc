// Tests overlap budgets of collectives of parameters, by hand.
#include "partita/schedule/overlap_budget.h"

#include <gtest/gtest.h>

#include "partita/base/error.h"
#include "partita/physical/passes.h"
#include "partita/physical/testing/builder.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

using testing::PhysicalBuilder;
constexpr auto kParameters = PhysicalBuilder::Of::kParameters;

// A backward pass of 8 kernels on two devices. Kernel i reads the result of i-1, and makes a gradient as large, which
// is reduced over both and read by an update.
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
    if (part > 0) set_overlap_budget(options, overlap_budget(b.graph, peak_times(b.graph, cluster, false), part, {}));
    PhysicalGraph graph = b.graph;
    testing::run_passes(graph, options);
    EXPECT_EQ(refuse(graph), std::nullopt);
    if (peak) *peak = graph.peak_bytes[0];
    return simulate(graph, CostModel(cluster)).step_time_ns;
  }
};

TEST(OverlapBudget, IsAPartOfTheKernelsOfADevice) {
  Backward graph;
  const PeakTimes times = peak_times(graph.b.graph, graph.cluster, false);
  const OverlapBudget budget = overlap_budget(graph.b.graph, times, 0.25, {});
  double all = 0;
  for (size_t t = 0; t < graph.b.graph.tasks.size(); ++t)
    if (graph.b.graph.tasks[t].device == DeviceId(0)) all += times.kernels[t];
  EXPECT_NEAR(budget.most_s, all / 4, 1e-15);
  EXPECT_NEAR(budget.spare_s, all * kSpareFraction, 1e-15);
  for (size_t t = 0; t < graph.b.graph.tasks.size(); ++t) {
    const std::string& name = graph.b.graph.tasks[t].name;
    EXPECT_EQ(times.kernels[t] > 0, name.starts_with("grad")) << name;
    EXPECT_EQ(times.overlap[t] > 0, name.starts_with("reduce")) << name;
  }
}

// Kernel i ends at i + 1 us. Its reduction takes 0.7 us; or 1.7 us, and then waits for the one before.
TEST(OverlapBudget, BytesOfAReductionAreFreeBehindTheKernelsOfItsTime) {
  for (const auto& [ns, free_behind] : {std::pair(700, std::vector{1, 2, 3, 4}), {1700, {2, 4, 6, 7}}}) {
    Backward graph;
    PhysicalGraph& lowered = graph.b.graph;
    for (Task& task : lowered.tasks)
      if (std::holds_alternative<CollectiveWork>(task.work)) task.bytes = ns;
    LowerOptions options;
    const OverlapBudget budget = overlap_budget(lowered, peak_times(lowered, graph.cluster, false), 1, {});
    set_overlap_budget(options, budget);
    testing::run_passes(lowered, options);
    const NodeTable table = number_nodes(lowered);
    const std::vector<int> place = places(lowered, table);
    const Held held = held_bytes(lowered, table, budget);
    auto at = [&](const std::string& task) { return place[table.number(graph.b.node(task))]; };
    for (int d = 0; d < 2; ++d)
      for (int i = 0; i < 4; ++i) {
        auto held_until = [&](const std::string& task) {
          return held_at(held, at(task), DeviceId(static_cast<size_t>(d))).until;
        };
        const int end = at(fmt::format("grad{}@{}", free_behind[i], d));
        EXPECT_EQ(held_until(fmt::format("reduce{}@0", i)), end) << ns << " ns, " << i;
        EXPECT_GE(held_until(fmt::format("update{}@{}", i, d)), end) << ns << " ns, " << i;
        const std::string kernel = fmt::format("grad{}@{}", i, d);
        EXPECT_EQ(held_until(kernel), at(kernel));
      }
  }
}

// A forward pass of 32 kernels of 1 us on two devices. Kernels 20, 21 and 23 read a weight that is gathered in 1.3 us.
TEST(OverlapBudget, GathersStandAheadByTheirTimeOneBeforeTheOther) {
  PhysicalBuilder b(2);
  std::vector<RegisterId> before;
  for (int d = 0; d < 2; ++d) before.push_back(b.constant(fmt::format("x@{}", d), d, 250));
  std::vector<TaskId> gathers;
  std::vector<OpId> kernels;
  for (int i = 0; i < 32; ++i) {
    std::vector<RegisterId> part, whole;
    for (int d = 0; d < 2; ++d) {
      part.push_back(b.constant(fmt::format("w{}@{}", i, d), d, 250));
      whole.push_back(b.reg(fmt::format("g{}@{}", i, d), d, 250));
    }
    const bool gathered = i == 20 || i == 21 || i == 23;
    const std::vector<TaskId> gather =
        gathered ? b.all_reduce(fmt::format("gather{}", i), part, whole, 1, kParameters) : std::vector<TaskId>{};
    for (int d = 0; d < 2; ++d) {
      const RegisterId y = b.reg(fmt::format("y{}@{}", i, d), d, 250);
      Task& kernel =
          b.graph.task(b.add(fmt::format("k{}@{}", i, d), d, {before[d], gathered ? whole[d] : part[d]}, {y}));
      kernel.bytes = 1000;
      kernel.op = d == 0 ? kernel.op : kernels.back();
      if (d == 0) kernels.push_back(kernel.op);
      before[d] = y;
    }
    for (const TaskId t : gather) {
      std::get<CollectiveWork>(b.graph.task(t).work).kind = StepKind::kAllGather;
      b.graph.task(t).bytes = 1300;
      b.graph.task(t).op = kernels.back();
    }
    if (gathered) gathers.push_back(gather.front());
  }
  const PeakTimes times = peak_times(b.graph, testing::one_byte_a_ns(2), false);
  const auto stands_before = [&](double part) {
    const OverlapBudget budget = overlap_budget(b.graph, times, part, {});
    std::vector<OpId> ops;
    for (const TaskId t : gathers) ops.emplace_back(static_cast<size_t>(budget.ahead[t.index()]));
    return ops;
  };
  // Over at 23, 21 and, as the one before begins then, 19.7 us; and 32/64 us of spare time.
  EXPECT_EQ(stands_before(1), (std::vector{kernels[17], kernels[19], kernels[21]}));
  // Half a microsecond ahead at most.
  EXPECT_EQ(stands_before(1.0 / 64), (std::vector{kernels[19], kernels[20], kernels[22]}));
  EXPECT_EQ(stands_before(0), (std::vector{kernels[20], kernels[21], kernels[23]}));
}

TEST(OverlapBudget, LetsReductionsRunBesideTheBackwardPass) {
  Backward graph;
  int64_t tight = 0, roomy = 0;
  const int64_t one_after_another = graph.step_ns(0, &tight), overlapped = graph.step_ns(0.25, &roomy);
  EXPECT_LT(overlapped, one_after_another * 3 / 4);
  EXPECT_GT(roomy, tight);
}

TEST(OverlapBudget, NoneIsWantedWithoutCollectivesOfParameters) {
  PhysicalBuilder b(2);
  const RegisterId x = b.constant("x@0", 0, 4), y = b.constant("x@1", 1, 4);
  b.all_reduce("sum", {x, y}, {b.reg("s@0", 0, 4), b.reg("s@1", 1, 4)});
  EXPECT_FALSE(may_overlap(peak_times(b.graph, testing::one_byte_a_ns(2), false)));
  Backward graph;
  EXPECT_TRUE(may_overlap(peak_times(graph.b.graph, graph.cluster, false)));
}

}  // namespace
}  // namespace partita

// Tests pipelines of equal virtual stages with free transfers, simulated: the bubble and the micro-batches in flight
// are those of the schedule.
#include <gtest/gtest.h>

#include <algorithm>

#include "partita/base/error.h"
#include "partita/physical/testing/builder.h"
#include "partita/schedule/overlap_budget.h"
#include "partita/sim/simulate.h"

namespace partita {
namespace {

using testing::one_byte_a_ns;
using testing::PhysicalBuilder;
using testing::pipeline;
using testing::run_passes;

constexpr int64_t kStageNs = 1'000'000;  // a transfer takes 1

Trace simulated(const PhysicalGraph& graph, int steps = 1) {
  const Cluster cluster = one_byte_a_ns(graph.device_count);
  return simulate(graph, CostModel(cluster), steps);
}

PhysicalGraph passed(const Pipelining& p, const LowerOptions& options) {
  PhysicalBuilder b = pipeline(p.micro_batches, p.ranks, p.virtual_stages);
  for (Task& task : b.graph.tasks)
    if (task.route.empty()) task.bytes = kStageNs;
  run_passes(b.graph, options);
  EXPECT_EQ(refuse(b.graph), std::nullopt);
  return b.graph;
}

// Forwards begun less backwards done on a rank, at most.
int most_in_flight(const PhysicalGraph& graph, const Trace& trace, int rank) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const Event& e : trace.events) {
    const Task& task = graph.task(e.task);
    if (task.device != DeviceId(rank) || !task.route.empty()) continue;
    const bool backward = task.phase == Phase::kBackward;
    changes.emplace_back(backward ? e.end_ns : e.start_ns, backward ? -1 : 1);
  }
  std::sort(changes.begin(), changes.end());
  int now = 0, most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return most;
}

TEST(Schedules, BubbleAndInFlightOfASimulatedPipeline) {
  for (int s : {1, 2, 3, 4, 8})
    for (int m : {1, 2, 3, 4, 6, 8, 12, 16})
      for (Schedule schedule : {Schedule::kDefault, Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved})
        for (const auto& [v, more] : {std::pair(1, 0), {1, 1}, {2, 0}, {3, 0}}) {
          const Pipelining p{schedule, s, v, m, more};
          if (pipelining_error(p) || (more > 0 && schedule != Schedule::k1F1B)) continue;
          const PhysicalGraph graph = passed(p, {.schedule = schedule, .virtual_stages = v, .more_in_flight = more});
          const Trace trace = simulated(graph);
          SCOPED_TRACE(
              fmt::format("{}, {} ranks, {} chunks each, {} micro-batches, {} more", name_of(schedule), s, v, m, more));
          const int64_t times = trace.step_time_ns / kStageNs;  // how many times a virtual stage's time
          EXPECT_EQ(times, schedule == Schedule::kDefault ? 2 * m * s : 2 * (m * v + s - 1));
          for (int rank = 0; rank < s; ++rank)
            EXPECT_EQ(most_in_flight(graph, trace, rank), in_flight(p, rank)) << "rank " << rank;
          if (schedule == Schedule::k1F1B) {
            EXPECT_EQ(in_flight(p, 0), std::min(m, s > 1 ? s + more : 1));
          }
        }
}

// Transfers of a tenth of a virtual stage's time. A stage that has S - s micro-batches in flight waits for those of one
// there and back. With one more, only the first ones and the last ones are waited for.
TEST(Schedules, WithRoomTransfersRunBesideCompute) {
  constexpr int kRanks = 4, kMicroBatches = 24;
  PhysicalBuilder b = pipeline(kMicroBatches, kRanks);
  for (Task& task : b.graph.tasks) task.bytes = task.route.empty() ? kStageNs : kStageNs / 10;
  const PeakTimes times = peak_times(b.graph, one_byte_a_ns(kRanks), true);
  const auto waited_for = [&](double fraction, bool slack, int more) {
    LowerOptions options{.schedule = Schedule::k1F1B, .transfer_slack = slack, .more_in_flight = more};
    if (fraction > 0) set_overlap_budget(options, overlap_budget(b.graph, times, fraction, {}));
    PhysicalGraph graph = b.graph;
    run_passes(graph, options);
    EXPECT_EQ(refuse(graph), std::nullopt);
    const int64_t all_kernels = 2 * (kMicroBatches + kRanks - 1) * kStageNs;
    return static_cast<double>(simulated(graph).step_time_ns - all_kernels) / (kStageNs / 10.0);
  };
  const double tight = waited_for(0, false, 0), overlapped = waited_for(1, true, 0), all = waited_for(1, true, 1);
  EXPECT_GT(tight, 2 * kMicroBatches);
  EXPECT_LE(overlapped, 1.2 * kMicroBatches);
  EXPECT_LE(all, 2 * kRanks);
}

}  // namespace
}  // namespace partita

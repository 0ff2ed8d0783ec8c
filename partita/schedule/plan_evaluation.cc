// Evaluates plans: by the checker, by the memory planner, or by the simulator.
#include "partita/schedule/plan_evaluation.h"

#include "partita/graph/micro_batches.h"
#include "partita/physical/for_stages.h"
#include "partita/plan/check.h"
#include "partita/schedule/choose_order.h"
#include "partita/schedule/lower.h"
#include "partita/schedule/representatives.h"

namespace partita {

namespace {

PlanEvaluation with_deficit(std::vector<int64_t> peak_bytes, const Cluster& cluster) {
  PlanEvaluation out;
  out.memory_deficit = memory_deficit(peak_bytes, cluster).bytes;
  out.peak_bytes = std::move(peak_bytes);
  return out;
}

// Finds peaks by device. Micro-batches beyond those of `from` add as much as the last of these.
std::vector<int64_t> peaks_of(const Graph& graph, const Plan& plan, const Cluster& cluster, const Representatives& from,
                              const Watch& watch) {
  const Resolved resolved = resolve(graph, plan, cluster, mask_with_hosts(from.devices, cluster));
  if (from.micro_batches == graph.micro_batches()) return planned_memory(graph, resolved, cluster, watch).peak_bytes;
  const auto of = [&](int micro_batches) {
    return planned_memory(with_fewer_micro_batches(graph, micro_batches),
                          with_fewer_micro_batches(resolved, micro_batches), cluster, watch)
        .peak_bytes;
  };
  std::vector<int64_t> peaks = of(from.micro_batches);
  if (!memory_grows_with_micro_batches(plan)) return peaks;
  const std::vector<int64_t> beyond = extrapolate_bytes(peaks, of(from.micro_batches - from.period),
                                                        (graph.micro_batches() - from.micro_batches) / from.period);
  for (size_t d = 0; d < peaks.size(); ++d) peaks[d] += beyond[d];
  return peaks;
}

}  // namespace

PlanEvaluation evaluate_bytes(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  PlanEvaluation out;
  out.comm_bytes = check(graph, plan, cluster).comm_bytes;
  return out;
}

PlanEvaluation evaluate_memory(const Graph& graph, const Plan& plan, const Cluster& cluster, const Watch& watch,
                               const std::vector<DeviceId>& devices) {
  Representatives from = choose_representatives(graph, plan, cluster);
  if (!devices.empty()) from = {devices, graph.micro_batches()};
  return with_deficit(peaks_of(graph, plan, cluster, from, watch), cluster);
}

PlanEvaluation evaluate_step(const Graph& in_micro_batches, const Plan& plan, const Cluster& cluster,
                             int64_t bucket_bytes, const Watch& watch) {
  const Graph graph = for_stages(in_micro_batches, plan);
  const Representatives from = choose_representatives(graph, plan, cluster);
  Resolved with_buckets = resolve(graph, plan, cluster, mask_with_hosts(from.devices, cluster));
  with_buckets.bucket_bytes = bucket_bytes;
  auto resolved = std::make_shared<const Resolved>(std::move(with_buckets));
  ChosenOrder chosen = choose_order_and_buckets(
      graph, plan, resolved, from, cluster,
      {.out_of_memory = OutOfMemoryPolicy::kSimulate, .watch = watch, .patience = {}, .known = {}});
  PlanEvaluation out = with_deficit(std::move(chosen.peak_bytes), cluster);
  out.step_ns = chosen.breakdown->step_ns();
  return out;
}

}  // namespace partita

// Evaluates a plan as a placement of the problem's operations, and with one of them on another device.
#include "partita/search/device_placement/placed_explain.h"

#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/device_placement/decode.h"
#include "partita/device_placement/memory.h"
#include "partita/search/device_placement/placed_plan.h"

namespace partita {

namespace {

// Makes the ops that the plan has on a host cpu ops: pins said so.
Graph with_types_of(Graph graph, const Cluster& cluster, const Plan& plan) {
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (plan.ops[i].mesh.devices[0].value >= cluster.compute_count) graph.ops[i].device_type = DeviceType::kCpu;
  return graph;
}

}  // namespace

std::optional<PlacedExplainer> PlacedExplainer::of(const Graph& of_model, const Cluster& cluster, const Plan& plan) {
  const Graph graph = with_types_of(of_model, cluster, plan);
  const Problem problem{.graph = graph, .cluster = cluster};
  if (!can_be_placed(problem)) return std::nullopt;
  PlacedExplainer e(placed_graph(problem, CostModel(cluster), {}));
  std::string why;
  std::optional<PlacedPlan> placed = placed_plan(e.placed_, plan, why);
  if (!placed) return std::nullopt;
  e.device_ = std::move(placed->device);
  e.order_ = std::move(placed->order);
  e.end_ns_ = list_schedule(e.placed_.problem, e.device_, e.order_, true).end;
  return e;
}

std::vector<OpId> PlacedExplainer::together(OpId op) const {
  const int number = placed_.number[op.index()], group = placed_.problem.ops[static_cast<size_t>(number)].group;
  std::vector<OpId> ops;
  for (size_t o = 0; o < placed_.op.size(); ++o)
    if (placed_.op[o].valid() && (placed_.op[o] == op || (group >= 0 && placed_.problem.ops[o].group == group)))
      ops.push_back(placed_.op[o]);
  return ops;
}

std::vector<PlacedAlternative> PlacedExplainer::alternatives(OpId op) const {
  const PlacementProblem& p = placed_.problem;
  const auto number = static_cast<size_t>(placed_.number[op.index()]);
  PlacedMemory memory(p);
  std::vector<PlacedAlternative> all;
  for (size_t d = 0; d < p.devices.size(); ++d) {
    if (p.ops[number].ns[d] <= 0 || static_cast<int>(d) == device_[number]) continue;
    std::vector<int> device = device_;
    device[number] = static_cast<int>(d);
    for (size_t o = 0; o < p.ops.size(); ++o)
      if (p.ops[number].group >= 0 && p.ops[o].group == p.ops[number].group) device[o] = static_cast<int>(d);
    const PlacedSchedule schedule = list_schedule(p, device, order_, true);
    const std::vector<int64_t> peaks = memory.peaks(schedule);
    int64_t missing = 0;
    for (size_t at = 0; at < peaks.size(); ++at) missing = std::max(missing, peaks[at] - p.devices[at].memory_bytes);
    all.push_back({DeviceId(d), schedule.end - end_ns_, missing});
  }
  return all;
}

}  // namespace partita

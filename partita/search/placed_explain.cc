// A plan as a placement of the problem's operations, and what it takes with one of them elsewhere.
#include "partita/search/placed_explain.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/placement/decode.h"
#include "partita/placement/memory.h"

namespace partita {

bool places_whole_ops(const Plan& plan) {
  const auto whole = [](const OpChoice& c) { return c.mesh.devices.size() == 1; };
  return !plan.ops.empty() && std::all_of(plan.ops.begin(), plan.ops.end(), whole) &&
         std::any_of(plan.ops.begin(), plan.ops.end(),
                     [&](const OpChoice& c) { return c.mesh.devices != plan.ops[0].mesh.devices; });
}

namespace {

// Operations of a plan run where its meshes say; what stands for parameters is where these are kept; what is left
// (loads, outputs) is on the one device that it can be on.
std::vector<int> devices_of(const PlacedGraph& placed, const Plan& plan) {
  const PlacementProblem& p = placed.problem;
  std::vector<int> device(p.ops.size(), -1);
  for (size_t t = 0; t < placed.start.size(); ++t)
    if (const auto kept = plan.kept.find(TensorId(t)); placed.start[t] >= 0 && kept != plan.kept.end())
      device[static_cast<size_t>(placed.start[t])] = kept->second.mesh.devices[0].value;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    if (placed.op[o].valid()) device[o] = plan.ops[placed.op[o].index()].mesh.devices[0].value;
    for (size_t d = 0; device[o] < 0 && d < p.ops[o].ns.size(); ++d)
      if (p.ops[o].ns[d] > 0) device[o] = static_cast<int>(d);
  }
  return device;
}

// What the plan has on a host is a cpu op: pins said so.
Graph with_types_of(Graph graph, const Cluster& cluster, const Plan& plan) {
  for (size_t i = 0; i < graph.ops.size(); ++i)
    if (plan.ops[i].mesh.devices[0].value >= cluster.compute_count) graph.ops[i].device_type = DeviceType::kCpu;
  return graph;
}

// Starts and loads, operations in the plan's order, outputs.
std::vector<int> order_of(const PlacedGraph& placed, const Plan& plan) {
  const PlacementProblem& p = placed.problem;
  std::vector<size_t> place(placed.number.size());
  for (size_t i = 0; i < place.size(); ++i) place[plan.order.empty() ? i : plan.order[i].index()] = i;
  std::vector<std::pair<size_t, int>> key(p.ops.size());  // by operation
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const size_t last = place.size() + 1;
    key[o] = {placed.op[o].valid()     ? place[placed.op[o].index()] + 1
              : p.ops[o].reads.empty() ? 0
                                       : last,
              static_cast<int>(o)};
  }
  std::sort(key.begin(), key.end());
  std::vector<int> order;
  for (const auto& [at, o] : key) order.push_back(o);
  return order;
}

}  // namespace

std::optional<PlacedExplainer> PlacedExplainer::of(const Graph& of_model, const Cluster& cluster, const Plan& plan) {
  const Graph graph = with_types_of(of_model, cluster, plan);
  const Problem problem{.graph = graph, .cluster = cluster};
  if (!can_be_placed(problem)) return std::nullopt;
  PlacedExplainer e(placed_graph(problem, CostModel(cluster), {}));
  const PlacementProblem& p = e.placed_.problem;
  e.device_ = devices_of(e.placed_, plan);
  for (size_t o = 0; o < p.ops.size(); ++o)
    if (p.ops[o].ns[static_cast<size_t>(e.device_[o])] <= 0) return std::nullopt;  // edited by hand
  e.order_ = order_of(e.placed_, plan);
  e.end_ns_ = list_schedule(p, e.device_, e.order_, true).end;
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

// Makes the cluster, the devices and the step of a model that every device has to itself.
#include "partita/search/estimates/replicas.h"

#include <algorithm>
#include <tuple>

#include "partita/base/error.h"
#include "partita/cluster/same_type.h"
#include "partita/graph/batch.h"
#include "partita/plan/pin_error.h"
#include "partita/plan/rule_planner.h"

namespace partita {

Cluster own_share(const Cluster& cluster) {
  std::vector<int> devices(cluster.links.size(), 0);  // by link: the devices whose routes pass it
  for (int d = 0; d < cluster.compute_count; ++d) {
    const DeviceId device(d), host = cluster.device(device).host;
    for (const auto& route : {cluster.route(host, device), cluster.route(device, host)})
      for (LinkId l : route) ++devices[l.index()];
  }
  Cluster share = cluster;
  for (size_t l = 0; l < devices.size(); ++l) share.links[l].bandwidth_bytes_per_s /= std::max(1, devices[l]);
  return share;
}

std::vector<DeviceId> representatives(const Cluster& cluster) {
  const auto to_host = [&](DeviceId id) {
    const DeviceId host = cluster.device(id).host;
    return std::tuple(cluster.bandwidth(host, id), cluster.latency_us(host, id), cluster.bandwidth(id, host),
                      cluster.latency_us(id, host));
  };
  const auto is_alike = [&](DeviceId a, DeviceId b) {
    return is_same_type(cluster.device(a), cluster.device(b)) &&
           cluster.device(a).memory_bytes == cluster.device(b).memory_bytes && to_host(a) == to_host(b);
  };
  std::vector<DeviceId> first, result;
  for (int d = 0; d < cluster.compute_count; ++d) {
    const DeviceId id(d);
    const auto known = std::find_if(first.begin(), first.end(), [&](DeviceId f) { return is_alike(f, id); });
    result.push_back(known == first.end() ? first.emplace_back(id) : *known);
  }
  return result;
}

Plan plan_on(const Graph& graph, const Cluster& cluster, DeviceId device) {
  const Constraints none;
  RulePlanner planner(graph, cluster, none, Mesh{{}, {device}});
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const bool on_host = graph.ops[i].device_type == DeviceType::kCpu;
    planner.place(OpId(i), {Mesh{{}, {on_host ? cluster.device(device).host : device}}, {}});
  }
  Plan plan = planner.finish("single");
  for (const Tensor& t : graph.tensors)
    if (t.replaces.valid()) plan.kept.at(t.replaces).mesh = plan.ops[t.producer.index()].mesh;
  return plan;
}

int64_t samples_a_device(const Problem& problem) {
  if (!problem.constraints.empty())
    fail_pin("every device has the whole model to itself: there is nothing that a pin could choose");
  const auto batch = find_batch(problem.graph);
  if (!batch) fail("model '{}' has no input with samples along axis 0", problem.graph.name);
  const int devices = problem.cluster.compute_count;
  if (*batch < devices)
    throw DoesNotApply(
        fmt::format("{} samples for {} devices, each of which takes one at least; give --batch", *batch, devices));
  return *batch / devices;
}

Graph step_of(const Problem& problem, int64_t samples) {
  const int64_t given = find_batch(problem.graph).value_or(0);
  if (samples == given) return problem.graph;
  if (!problem.with_batch)
    fail(
        "model '{}': a step of {} samples is needed beside that of {}, and this graph cannot be built again; give it "
        "by a file or from the zoo",
        problem.graph.name, samples, given);
  Graph graph = problem.with_batch(samples);
  if (find_batch(graph) != samples)
    fail("model '{}': built again with batch={}, it has {} samples", graph.name, samples,
         find_batch(graph).value_or(0));
  return graph;
}

}  // namespace partita

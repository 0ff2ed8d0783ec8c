// Chooses the devices and micro-batches to simulate, by the plan's stages and the count of firings.
#include "partita/schedule/representatives.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "partita/cluster/direct.h"
#include "partita/physical/inter_op_parallelism.h"
#include "partita/schedule/lower.h"

namespace partita {

namespace {

// The ranks of a plan's pipeline.
int ranks_of(const Plan& plan) {
  int stages = 1;
  for (const OpChoice& choice : plan.ops) stages = std::max(stages, choice.stage + 1);
  return std::max(1, stages / plan.pipeline.virtual_stages);
}

// The number of micro-batches after which further ones repeat the same.
int few_micro_batches(const Plan& plan, int m) {
  switch (plan.pipeline.schedule) {
    case Schedule::kInterleaved:  // in groups of as many as there are ranks
      return std::min(m, 5 * ranks_of(plan));
    case Schedule::kGpipe: {  // more of them, since what one adds to memory is not always the same
      const int ranks = ranks_of(plan), several = 3 * ranks;
      return m <= several ? m : several + (m - several) % ranks;
    }
    case Schedule::kDefault:
      return std::min(m, ranks_of(plan) + 2);
    case Schedule::k1F1B:  // one more than are in flight
      return std::min(m, ranks_of(plan) + 3);
  }
  return m;
}

// The number of micro-batches after which a step repeats.
int period_of(const Plan& plan) {
  const Schedule schedule = plan.pipeline.schedule;
  return schedule == Schedule::kInterleaved || schedule == Schedule::kGpipe ? ranks_of(plan) : 1;
}

// The last of these devices. If groups of `each` run over links of different rates, the last of the slowest group.
DeviceId representative_of(const Cluster& cluster, const std::vector<DeviceId>& devices, size_t each) {
  const bool wired =
      std::any_of(devices.begin(), devices.end(), [&](DeviceId d) { return cluster.routes.own_to(d).size() > 1; });
  if (!wired || each < 2) return devices.back();
  size_t slowest = devices.size();
  double most_s = -1;
  for (size_t end = each; end <= devices.size(); end += each) {
    const auto first = devices.begin() + static_cast<std::ptrdiff_t>(end - each);
    const double s = reduction_links(cluster, {first, first + static_cast<std::ptrdiff_t>(each)}).inside_s;
    if (s >= most_s) slowest = end, most_s = s;
  }
  return devices[slowest - 1];
}

// One device of a mesh, and if devices are of several types the last of each. The slowest of them decides how long
// others wait.
std::vector<DeviceId> representatives_of(const Cluster& cluster, const Mesh& mesh) {
  const std::vector<DeviceId> devices(mesh.devices.begin(), mesh.devices.end());
  std::map<std::string, DeviceId> last;  // by type
  for (const DeviceId d : devices) last[cluster.device(d).model] = d;
  std::vector<DeviceId> out = {representative_of(
      cluster, devices, mesh.extents.empty() ? devices.size() : static_cast<size_t>(mesh.extents.back()))};
  for (const auto& [type, device] : last)
    if (type != cluster.device(out[0]).model) out.push_back(device);
  return out;
}

}  // namespace

std::vector<DeviceId> representative_devices(const Cluster& cluster) {
  std::set<DeviceId> devices;
  for (const int d : {0, cluster.compute_count / 2, cluster.compute_count - 1}) devices.insert(DeviceId(d));
  std::map<std::string, DeviceId> last;  // by type
  for (int d = 0; d < cluster.compute_count; ++d) last[cluster.device(DeviceId(d)).model] = DeviceId(d);
  std::set<std::string> types;
  for (const DeviceId d : devices) types.insert(cluster.device(d).model);
  for (const auto& [type, device] : last)
    if (!types.contains(type)) devices.insert(device);
  return {devices.begin(), devices.end()};
}

std::vector<DeviceId> representative_devices(const Cluster& cluster, const Plan& plan) {
  std::map<int, std::map<std::string, DeviceId>> last;  // by rank, by type
  const int ranks = ranks_of(plan);
  Mesh known_mesh;
  std::vector<DeviceId> representatives;
  for (const OpChoice& choice : plan.ops) {
    if (choice.mesh != known_mesh) {
      known_mesh = choice.mesh;
      representatives = representatives_of(cluster, choice.mesh);
    }
    auto& of_rank = last[choice.stage % ranks];
    for (const DeviceId d : representatives) {
      const auto [at, fresh] = of_rank.try_emplace(cluster.device(d).model, d);
      if (!fresh) at->second = std::max(at->second, d);
    }
  }
  std::set<DeviceId> devices;
  if (last.size() < 2) {
    for (const DeviceId d : representative_devices(cluster)) devices.insert(d);
  } else {
    for (const auto& [rank, of_rank] : last)
      for (const auto& [type, device] : of_rank) devices.insert(device);
  }
  SharedList<DeviceId> known;  // mostly the next mesh is the same
  for (const OpChoice& choice : plan.ops) {
    if (choice.mesh.devices == known) continue;
    known = choice.mesh.devices;
    if (std::none_of(known.begin(), known.end(), [&](DeviceId d) { return devices.contains(d); }))
      devices.insert(*(known.end() - 1));
  }
  return {devices.begin(), devices.end()};
}

namespace {

// About 4 s. If devices do not represent each other, half a minute.
int64_t quick_firings_of(const Graph& graph, const Plan& plan) {
  return has_inter_op_parallelism(graph, plan.ops) ? 500'000 : 60'000;
}

Representatives representatives_within(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                       int64_t quick_firings) {
  const int m = graph.micro_batches(), few = few_micro_batches(plan, m), period = period_of(plan);
  const auto firings = [&](bool all_devices, int micro_batches) {
    int64_t sum = 0;
    for (size_t i = 0; i < graph.ops.size(); ++i)
      sum += std::min(graph.firings(graph.ops[i]), micro_batches) *
             (all_devices ? static_cast<int64_t>(plan.ops[i].mesh.devices.size()) : 1);
    return sum;
  };
  if (!is_too_large_to_lower(graph, cluster)) {
    if (firings(true, m) <= quick_firings) return {{}, m};
    if (firings(true, few) <= quick_firings) return {{}, few, period};
  }
  const std::vector<DeviceId> representatives = representative_devices(cluster, plan);
  if (static_cast<int>(representatives.size()) == cluster.compute_count) return {{}, few, period};
  return {representatives, firings(false, m) <= quick_firings ? m : few, period};
}

}  // namespace

Representatives choose_representatives(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return representatives_within(graph, plan, cluster, quick_firings_of(graph, plan));
}

Representatives choose_representatives_within(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                              const Watch& watch, double firings_per_second) {
  constexpr int64_t kAlways = 5'000;  // firings, whatever time is left
  const int64_t quick_firings = quick_firings_of(graph, plan);
  const std::optional<double> left = watch.left();
  if (!left) return representatives_within(graph, plan, cluster, quick_firings);
  return representatives_within(graph, plan, cluster,
                                std::clamp(static_cast<int64_t>(*left * firings_per_second), kAlways, quick_firings));
}

Representatives choose_few_representatives(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return {choose_representatives(graph, plan, cluster).devices, few_micro_batches(plan, graph.micro_batches()),
          period_of(plan)};
}

DeviceMask mask_with_hosts(const std::vector<DeviceId>& devices, const Cluster& cluster) {
  if (devices.empty()) return nullptr;
  std::vector<char> device_mask(cluster.devices.size(), 0);
  for (DeviceId d : devices) device_mask[d.index()] = device_mask[cluster.device(d).host.index()] = 1;
  return std::make_shared<const std::vector<char>>(std::move(device_mask));
}

bool memory_grows_with_micro_batches(const Plan& plan) { return plan.pipeline.schedule == Schedule::kGpipe; }

std::vector<int64_t> extrapolate_bytes(const std::vector<int64_t>& peaks, const std::vector<int64_t>& one_fewer,
                                       int64_t more) {
  std::vector<int64_t> beyond;
  for (size_t d = 0; d < peaks.size(); ++d) beyond.push_back(more * std::max<int64_t>(0, peaks[d] - one_fewer[d]));
  return beyond;
}

}  // namespace partita

// Lowering in the tightest order, and of what a plan's figures are made.
#include "partita/physical/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "partita/base/error.h"
#include "partita/cluster/direct.h"
#include "partita/physical/beside.h"
#include "partita/physical/few.h"
#include "partita/physical/orders.h"

namespace partita {

namespace {

// The ranks of a plan's pipeline.
int ranks_of(const Plan& plan) {
  int stages = 1;
  for (const OpChoice& choice : plan.ops) stages = std::max(stages, choice.stage + 1);
  return std::max(1, stages / plan.pipeline.virtual_stages);
}

// From which on all micro-batches tell no more: telling().
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

// Micro-batches after which a step repeats.
int period_of(const Plan& plan) {
  const Schedule schedule = plan.pipeline.schedule;
  return schedule == Schedule::kInterleaved || schedule == Schedule::kGpipe ? ranks_of(plan) : 1;
}

// The last of these devices. Where groups of `each` run over wires of different rates, the last of the slowest group.
DeviceId typical_device(const Cluster& cluster, const std::vector<DeviceId>& devices, size_t each) {
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

// One of a mesh, and where devices are of several types the last of each: the slowest of them says how long others
// wait.
std::vector<DeviceId> typical_devices_of(const Cluster& cluster, const Mesh& mesh) {
  const std::vector<DeviceId> devices(mesh.devices.begin(), mesh.devices.end());
  std::map<std::string, DeviceId> last;  // by type
  for (const DeviceId d : devices) last[cluster.device(d).model] = d;
  std::vector<DeviceId> out = {typical_device(
      cluster, devices, mesh.extents.empty() ? devices.size() : static_cast<size_t>(mesh.extents.back()))};
  for (const auto& [type, device] : last)
    if (type != cluster.device(out[0]).model) out.push_back(device);
  return out;
}

constexpr int64_t kMostTasks = 1'000'000;  // gigabytes, and minutes

}  // namespace

bool is_too_large_to_lower(const Graph& graph, const Cluster& cluster) {
  return static_cast<int64_t>(graph.ops.size()) * cluster.compute_count > kMostTasks;
}

void expect_small_enough(const Graph& graph, const Cluster& cluster) {
  if (is_too_large_to_lower(graph, cluster))
    fail("plan for '{}' on '{}': {} ops on {} devices are more than {} tasks, too many to simulate or to run",
         graph.name, cluster.name, graph.ops.size(), cluster.compute_count, kMostTasks);
}

std::vector<DeviceId> typical_devices(const Cluster& cluster) {
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

std::vector<DeviceId> typical_devices(const Cluster& cluster, const Plan& plan) {
  std::map<int, std::map<std::string, DeviceId>> last;  // by rank, by type
  const int ranks = ranks_of(plan);
  Mesh known_mesh;
  std::vector<DeviceId> typical;
  for (const OpChoice& choice : plan.ops) {
    if (choice.mesh != known_mesh) {
      known_mesh = choice.mesh;
      typical = typical_devices_of(cluster, choice.mesh);
    }
    auto& of_rank = last[choice.stage % ranks];
    for (const DeviceId d : typical) {
      const auto [at, fresh] = of_rank.try_emplace(cluster.device(d).model, d);
      if (!fresh) at->second = std::max(at->second, d);
    }
  }
  std::set<DeviceId> devices;
  if (last.size() < 2) {
    for (const DeviceId d : typical_devices(cluster)) devices.insert(d);
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

// About 4 s; and where devices do not stand for each other, half a minute.
int64_t quick_acts_of(const Graph& graph, const Plan& plan) {
  return has_ops_beside(graph, plan.ops) ? 500'000 : 60'000;
}

Telling telling_of(const Graph& graph, const Plan& plan, const Cluster& cluster, int64_t quick_acts) {
  const int m = graph.micro_batches(), few = few_micro_batches(plan, m), period = period_of(plan);
  const auto acts = [&](bool all_devices, int parts) {
    int64_t sum = 0;
    for (size_t i = 0; i < graph.ops.size(); ++i)
      sum += std::min(graph.acts(graph.ops[i]), parts) *
             (all_devices ? static_cast<int64_t>(plan.ops[i].mesh.devices.size()) : 1);
    return sum;
  };
  if (!is_too_large_to_lower(graph, cluster)) {
    if (acts(true, m) <= quick_acts) return {{}, m};
    if (acts(true, few) <= quick_acts) return {{}, few, period};
  }
  const std::vector<DeviceId> typical = typical_devices(cluster, plan);
  if (static_cast<int>(typical.size()) == cluster.compute_count) return {{}, few, period};
  return {typical, acts(false, m) <= quick_acts ? m : few, period};
}

}  // namespace

Telling telling(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return telling_of(graph, plan, cluster, quick_acts_of(graph, plan));
}

Telling telling_within(const Graph& graph, const Plan& plan, const Cluster& cluster, const Watch& watch,
                       double acts_per_second) {
  constexpr int64_t kAlways = 5'000;  // acts, whatever is left
  const int64_t quick_acts = quick_acts_of(graph, plan);
  const std::optional<double> left = watch.left();
  if (!left) return telling_of(graph, plan, cluster, quick_acts);
  return telling_of(graph, plan, cluster,
                    std::clamp(static_cast<int64_t>(*left * acts_per_second), kAlways, quick_acts));
}

Telling of_few(const Graph& graph, const Plan& plan, const Cluster& cluster) {
  return {telling(graph, plan, cluster).devices, few_micro_batches(plan, graph.micro_batches()), period_of(plan)};
}

Listed with_hosts(const std::vector<DeviceId>& devices, const Cluster& cluster) {
  if (devices.empty()) return nullptr;
  std::vector<char> listed(cluster.devices.size(), 0);
  for (DeviceId d : devices) listed[d.index()] = listed[cluster.device(d).host.index()] = 1;
  return std::make_shared<const std::vector<char>>(std::move(listed));
}

bool grows_with_parts(const Plan& plan) { return plan.pipeline.schedule == Schedule::kGpipe; }

std::vector<int64_t> bytes_beyond(const std::vector<int64_t>& peaks, const std::vector<int64_t>& one_fewer,
                                  int64_t more) {
  std::vector<int64_t> beyond;
  for (size_t d = 0; d < peaks.size(); ++d) beyond.push_back(more * std::max<int64_t>(0, peaks[d] - one_fewer[d]));
  return beyond;
}

PhysicalGraph lower(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const LowerOptions& options) {
  if (!resolved.listed) expect_small_enough(graph, cluster);
  return Orders(graph, resolved, cluster, options).lowered(0);
}

PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options) {
  expect_small_enough(graph, cluster);
  return lower(graph, resolve(graph, plan, cluster), cluster, options);
}

PhysicalGraph planned_memory(const Graph& graph, const Resolved& resolved, const Cluster& cluster, const Watch& watch) {
  LowerOptions options;
  options.watch = watch;
  return Orders(graph, resolved, cluster, options).taken(0);
}

}  // namespace partita

// Evaluates assignments straight from the definitions.
#include "partita/partitioning/cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/error.h"

namespace partita::partitioning {

namespace {

// A sum of sizes is above the limit only by more than rounding.
bool exceeds(double size, double limit) { return size > limit * (1 + 1e-12); }

// For each group: the outputs that its nodes read from outside, and its own outputs read outside, each node's once.
struct Traffic {
  double in = 0, out = 0;
};
std::vector<Traffic> traffic_of(const Instance& instance, const std::vector<int>& group, int groups) {
  std::vector<Traffic> traffic(groups);
  std::vector<int> paid(groups, -1);
  for (size_t u = 0; u < instance.nodes.size(); ++u) {
    const Node& node = instance.nodes[u];
    bool leaves = false;
    for (const int reader : node.readers) {
      const int of = group[reader];
      if (of == group[u]) continue;
      leaves = true;
      if (of < 0 || paid[of] == static_cast<int>(u)) continue;
      paid[of] = static_cast<int>(u);
      traffic[of].in += node.cost;
    }
    if (leaves && group[u] >= 0) traffic[group[u]].out += node.cost;
  }
  return traffic;
}

// A node outside `group` on a path between two nodes of it, over nodes allowed by `passes`.
template <typename Passes>
std::optional<int> outside(const Instance& instance, const std::vector<int>& group, int which, Passes passes) {
  std::vector<char> left(instance.nodes.size());  // outside, after a node of the group
  for (const int v : instance.order) {
    if (!passes(v)) continue;
    for (const int u : instance.nodes[v].reads) {
      if (!passes(u)) continue;
      if (group[v] == which && left[u]) return u;
      if (group[v] != which && (left[u] || group[u] == which)) left[v] = 1;
    }
  }
  return std::nullopt;
}

// Colors, support and memory; `device[v]` < 0 is a CPU.
std::optional<std::string> wrong_placing(const Instance& instance, const std::vector<int>& device,
                                         const std::vector<int>& accelerator) {
  std::vector<int> first(instance.colors, -1);
  std::vector<double> size(instance.accelerators);
  for (size_t v = 0; v < instance.nodes.size(); ++v) {
    const Node& node = instance.nodes[v];
    int& with = first[node.color];
    if (with < 0) with = static_cast<int>(v);
    if (device[v] != device[with])
      return fmt::format("nodes {} and {} are of one color and on two devices", instance.nodes[with].id, node.id);
    if (accelerator[v] < 0) continue;
    if (!node.supported) return fmt::format("node {} is on an accelerator, which cannot run it", node.id);
    size[accelerator[v]] += node.size;
  }
  for (int a = 0; a < instance.accelerators; ++a)
    if (exceeds(size[a], instance.max_size))
      return fmt::format("accelerator {} holds {} bytes of {}", a, size[a], instance.max_size);
  return std::nullopt;
}

}  // namespace

std::vector<Load> loads_of(const Instance& instance, const Devices& devices) {
  const int k = instance.accelerators, all = k + instance.cpus;
  std::vector<Load> loads(all);
  for (size_t v = 0; v < instance.nodes.size(); ++v) {
    Load& load = loads[devices[v]];
    load.compute += devices[v] < k ? instance.nodes[v].accelerator : instance.nodes[v].cpu;
    load.size += instance.nodes[v].size;
  }
  const std::vector<Traffic> traffic = traffic_of(instance, devices, all);
  for (int a = 0; a < k; ++a) loads[a].communication = traffic[a].in + traffic[a].out;
  return loads;
}

double max_load(const Instance& instance, const Devices& devices) {
  double most = 0;
  for (const Load& load : loads_of(instance, devices)) most = std::max(most, load.sum());
  return most;
}

namespace {

// The compute, memory and traffic of each subgraph, without times.
std::vector<Run> runs_of(const Instance& instance, const Subgraphs& place, int groups) {
  std::vector<Run> runs(groups);
  for (size_t v = 0; v < place.size(); ++v) {
    if (place[v] < 0) continue;
    Run& run = runs[place[v]];
    run.compute += instance.nodes[v].accelerator;
    run.size += instance.nodes[v].size;
    ++run.nodes;
  }
  const std::vector<Traffic> traffic = traffic_of(instance, place, groups);
  for (int g = 0; g < groups; ++g) runs[g].in = traffic[g].in, runs[g].out = traffic[g].out;
  return runs;
}

}  // namespace

std::optional<Latency> latency_of(const Instance& instance, const Subgraphs& place, int q) {
  const int groups = instance.accelerators * q;
  Latency latency;
  latency.runs = runs_of(instance, place, groups);
  std::vector<std::vector<int>> members(groups);
  // The number of inputs that each group and each node on a CPU still waits for: edges from other places, and the
  // subgraph before.
  std::vector<int> waits(instance.nodes.size()), group_waits(groups);
  for (const int v : instance.order) {
    const int of = place[v];
    if (of < 0) {
      waits[v] = static_cast<int>(instance.nodes[v].reads.size());
      continue;
    }
    members[of].push_back(v);
    for (const int u : instance.nodes[v].reads) group_waits[of] += place[u] != of;
  }
  for (int g = 0; g < groups; ++g) group_waits[g] += g % q != 0;
  std::vector<double> ready(instance.nodes.size());  // for a node on a CPU: when all its inputs so far were there
  std::vector<int> ready_nodes, ready_groups;
  size_t done = 0;
  for (const int v : instance.order)
    if (place[v] < 0 && waits[v] == 0) ready_nodes.push_back(v);
  for (int g = 0; g < groups; ++g)
    if (group_waits[g] == 0) ready_groups.push_back(g);
  const auto finish = [&](int u, double time) {
    ++done;
    latency.total = std::max(latency.total, time);
    for (const int reader : instance.nodes[u].readers) {
      const int of = place[reader];
      if (of < 0) {
        ready[reader] = std::max(ready[reader], time);
        if (--waits[reader] == 0) ready_nodes.push_back(reader);
      } else if (of != place[u]) {
        latency.runs[of].start = std::max(latency.runs[of].start, time);
        if (--group_waits[of] == 0) ready_groups.push_back(of);
      }
    }
  };
  while (!ready_nodes.empty() || !ready_groups.empty()) {
    if (!ready_nodes.empty()) {
      const int v = ready_nodes.back();
      ready_nodes.pop_back();
      finish(v, ready[v] + instance.nodes[v].cpu);
      continue;
    }
    const int g = ready_groups.back();
    ready_groups.pop_back();
    const double end = latency.runs[g].end();
    for (const int v : members[g]) finish(v, end);
    if (g % q == q - 1) continue;
    latency.runs[g + 1].start = std::max(latency.runs[g + 1].start, end);
    if (--group_waits[g + 1] == 0) ready_groups.push_back(g + 1);
  }
  if (done < instance.nodes.size()) return std::nullopt;
  return latency;
}

std::optional<std::string> wrong_devices(const Instance& instance, const Devices& devices, bool contiguous) {
  ensure(devices.size() == instance.nodes.size(), "{} devices for {} nodes", devices.size(), instance.nodes.size());
  const int k = instance.accelerators, all = k + instance.cpus;
  std::vector<int> accelerator = devices;
  for (size_t v = 0; v < devices.size(); ++v) {
    if (devices[v] < 0 || devices[v] >= all)
      return fmt::format("node {} is on device {} of {}", instance.nodes[v].id, devices[v], all);
    if (devices[v] >= k) accelerator[v] = -1;
  }
  if (auto wrong = wrong_placing(instance, devices, accelerator)) return wrong;
  const auto is_forward = [&](int v) { return !instance.nodes[v].backward; };
  if (contiguous)
    for (int d = 0; d < all; ++d)
      if (const auto v = outside(instance, devices, d, is_forward))
        return fmt::format("a path between two forward nodes of device {} leaves it at node {}", d,
                           instance.nodes[*v].id);
  return std::nullopt;
}

std::optional<std::string> wrong_subgraphs(const Instance& instance, const Subgraphs& place, int q) {
  ensure(place.size() == instance.nodes.size(), "{} places for {} nodes", place.size(), instance.nodes.size());
  std::vector<int> device(place.size());
  for (size_t v = 0; v < place.size(); ++v) {
    if (place[v] < kCpu || place[v] >= instance.accelerators * q)
      return fmt::format("node {} is in subgraph {} of {}", instance.nodes[v].id, place[v], instance.accelerators * q);
    device[v] = place[v] < 0 ? kCpu : place[v] / q;
  }
  if (auto wrong = wrong_placing(instance, device, device)) return wrong;
  for (int g = 0; g < instance.accelerators * q; ++g)
    if (const auto v = outside(instance, place, g, [](int) { return true; }))
      return fmt::format("a path between two nodes of subgraph {} of accelerator {} leaves it at node {}", g % q, g / q,
                         instance.nodes[*v].id);
  if (!latency_of(instance, place, q)) return "subgraphs wait for each other in a circle";
  return std::nullopt;
}

}  // namespace partita::partitioning

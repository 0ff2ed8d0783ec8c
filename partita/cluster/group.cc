// Counts how busy the links of a device group are under rings and under straight transfers.
#include "partita/cluster/group.h"

#include <algorithm>
#include <map>

#include "partita/cluster/nodes.h"
#include "partita/cluster/rings.h"

namespace partita {

namespace {

using Devices = std::vector<DeviceId>;

constexpr size_t kMostWiredDevices = 16;  // in a node, up to which rings over wires are sought
constexpr int kMostTurns = 64;            // rings that are counted; more are alike

DeviceId node_of(const Cluster& cluster, DeviceId device) {
  const DeviceId host = cluster.device(device).host;
  return host.valid() ? host : device;
}

// Rate of the wires between two members, in multiples of the narrowest wire; 0 if there are none.
std::vector<std::vector<int>> wires_among(const Cluster& cluster, const Devices& members) {
  const size_t n = members.size();
  std::vector<std::vector<double>> rates(n, std::vector<double>(n, 0));
  double least = 0;
  for (size_t i = 0; i < n; ++i)
    for (int other : cluster.routes.own_to(members[i])) {
      const auto j = std::lower_bound(members.begin(), members.end(), DeviceId(size_t(other)));
      if (j == members.end() || *j != DeviceId(size_t(other))) continue;
      const double rate = cluster.bandwidth(members[i], *j);
      rates[i][static_cast<size_t>(j - members.begin())] = rate;
      if (least == 0 || rate < least) least = rate;
    }
  std::vector<std::vector<int>> wires(n, std::vector<int>(n, 0));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      if (rates[i][j] > 0) wires[i][j] = static_cast<int>(std::min(64.0, rates[i][j] / least + 1e-6));
  return wires;
}

std::vector<Devices> rings_of_node(const Cluster& cluster, const Devices& members) {
  std::vector<Devices> rings;
  if (members.size() > 1 && members.size() <= kMostWiredDevices)
    for (const std::vector<int>& ring : disjoint_rings(wires_among(cluster, members))) {
      Devices& order = rings.emplace_back();
      for (int i : ring) order.push_back(members[i]);
    }
  if (rings.empty()) rings.push_back(members);
  return rings;
}

struct Count {
  const Cluster& cluster;
  GroupLinks group;
  std::map<LinkId, LinkLoad> loads;
};

void add_hop(Count& count, DeviceId from, DeviceId to, bool inside, double bytes) {
  double latency_us = 0;
  count.cluster.routes.for_each_link(from, to, [&](LinkId l) {
    latency_us += count.cluster.link(l).latency_us;
    (inside ? count.loads[l].inside : count.loads[l].between) += bytes;
  });
  double& slowest = inside ? count.group.inside_latency_us : count.group.between_latency_us;
  slowest = std::max(slowest, latency_us);
}

// Adds one turn of the rings: in each node it starts from another member and takes the next ring.
void add_ring(Count& count, const std::vector<std::vector<Devices>>& rings, int turn, double bytes) {
  Devices order;
  std::vector<size_t> ends;  // by node: the place after its last member
  for (const std::vector<Devices>& of_node : rings) {
    const size_t m = of_node[0].size(), t = static_cast<size_t>(turn);
    const Devices& ring = of_node[t % of_node.size()];
    for (size_t i = 0; i < m; ++i) order.push_back(ring[(i + t / of_node.size()) % m]);
    ends.push_back(order.size());
  }
  size_t node = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool last = i + 1 == ends[node];
    node += last;
    const DeviceId next = order[(i + 1) % order.size()];
    if (next != order[i]) add_hop(count, order[i], next, !last || rings.size() == 1, bytes);
  }
}

GroupLinks finished(Count count) {
  GroupLinks& group = count.group;
  for (auto& [link, load] : count.loads) {
    load.link = link;
    const double rate = count.cluster.link(link).bandwidth_bytes_per_s;
    group.inside_s = std::max(group.inside_s, load.inside / rate);
    group.between_s = std::max(group.between_s, load.between / rate);
    group.loads.push_back(load);
  }
  if (group.nodes > 1 && group.per_node > 1) group.inside_s *= group.per_node / (group.per_node - 1.0);
  return std::move(count.group);
}

Count counted(const Cluster& cluster, const std::vector<Devices>& nodes) {
  Count count{cluster, {}, {}};
  count.group.nodes = static_cast<int>(nodes.size());
  for (const Devices& members : nodes) {
    count.group.devices += static_cast<int>(members.size());
    count.group.per_node = std::max(count.group.per_node, static_cast<int>(members.size()));
  }
  return count;
}

}  // namespace

std::vector<Devices> group_by_node(const Cluster& cluster, Devices devices) {
  std::sort(devices.begin(), devices.end());
  std::map<DeviceId, Devices> nodes;
  for (DeviceId d : devices) nodes[node_of(cluster, d)].push_back(d);
  std::vector<Devices> out;
  for (auto& [host, members] : nodes) out.push_back(std::move(members));
  std::sort(out.begin(), out.end());
  return out;
}

GroupLinks ring_links(const Cluster& cluster, std::vector<DeviceId> devices) {
  const std::vector<Devices> nodes = group_by_node(cluster, std::move(devices));
  Count count = counted(cluster, nodes);
  std::vector<std::vector<Devices>> rings;
  size_t most = 1;
  for (const Devices& members : nodes) {
    rings.push_back(rings_of_node(cluster, members));
    most = std::max(most, rings.back().size());
  }
  const int turns = std::min(kMostTurns, static_cast<int>(most) * (nodes.size() > 1 ? count.group.per_node : 1));
  for (int turn = 0; turn < turns; ++turn) add_ring(count, rings, turn, 1.0 / turns);
  return finished(std::move(count));
}

GroupLinks pair_links(const Cluster& cluster, std::vector<DeviceId> devices) {
  const std::vector<Devices> nodes = group_by_node(cluster, std::move(devices));
  Count count = counted(cluster, nodes);
  if (count.group.devices < 2) return finished(std::move(count));
  const double bytes = 1.0 / (count.group.devices - 1);
  for (size_t a = 0; a < nodes.size(); ++a)
    for (size_t b = 0; b < nodes.size(); ++b)
      for (DeviceId from : nodes[a])
        for (DeviceId to : nodes[b])
          if (from != to) add_hop(count, from, to, a == b, bytes);
  return finished(std::move(count));
}

double busiest_link_seconds(const Cluster& cluster, const GroupLinks& group, double inside_rate, double between_rate) {
  double busiest = 0;
  for (const LinkLoad& load : group.loads)
    busiest = std::max(busiest, (load.inside / inside_rate + load.between / between_rate) /
                                    cluster.link(load.link).bandwidth_bytes_per_s);
  return busiest;
}

std::vector<LinkId> busy_links(const Cluster& cluster, const GroupLinks& group) {
  const double busiest = busiest_link_seconds(cluster, group, 1, 1);
  std::vector<LinkId> busy;
  for (const LinkLoad& load : group.loads)
    if (2 * (load.inside + load.between) / cluster.link(load.link).bandwidth_bytes_per_s >= busiest)
      busy.push_back(load.link);
  return busy;
}

}  // namespace partita

// Orders devices so that the fastest links join equal parts of the list (single linkage).
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "partita/cluster/cluster.h"

namespace partita {

namespace {

using DevicePair = std::pair<int, int>;  // first < second

void sort_unique(std::vector<DevicePair>& pairs) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
}

// ---------------------------------------------------------------- candidate pairs

// Compute devices below a switch.
struct Below {
  std::vector<int> devices, children;  // child of the switch above each device: the switch before, or itself
  bool alike = true;                   // all have links of one speed to the switch, and back
};

using Speed = std::pair<double, double>;  // bandwidth and latency

Speed speed_of(const Cluster& cluster, const std::vector<LinkId>& links) {
  double bandwidth = std::numeric_limits<double>::infinity(), latency = 0;
  for (LinkId l : links)
    bandwidth = std::min(bandwidth, cluster.link(l).bandwidth_bytes_per_s), latency += cluster.link(l).latency_us;
  return {bandwidth, latency};
}

std::map<int, Below> devices_below(const Cluster& cluster) {
  std::map<int, Below> switches;
  std::map<int, std::array<Speed, 2>> first;  // by switch: the first device's up and down
  for (int d = 0; d < cluster.compute_count; ++d) {
    int child = -1 - d;
    if (cluster.routes.climbs.size() <= static_cast<size_t>(d)) break;
    for (const Routes::Climb& climb : cluster.routes.climbs[static_cast<size_t>(d)]) {
      Below& below = switches[climb.top];
      const std::array<Speed, 2> mine = {speed_of(cluster, climb.up), speed_of(cluster, climb.down)};
      const auto [known, fresh] = first.try_emplace(climb.top, mine);
      below.alike = below.alike && known->second == mine;
      below.devices.push_back(d);
      below.children.push_back(child);
      child = climb.top;
    }
  }
  return switches;
}

// Adds a forest of pairs, of devices below different children without wires of their own, that joins whatever all such
// pairs join. Devices that are not reached yet are asked for child by child, so that only wires are asked about in
// vain.
template <typename HasWire>
void add_forest(const Below& below, const HasWire& has_wire, std::vector<DevicePair>& pairs) {
  std::map<int, std::vector<int>> left;  // by child
  for (size_t i = 0; i < below.devices.size(); ++i) left[below.children[i]].push_back(below.devices[i]);
  while (!left.empty()) {
    std::vector<std::pair<int, int>> reached = {{left.begin()->second.back(), left.begin()->first}};  // device, child
    left.begin()->second.pop_back();
    for (size_t at = 0; at < reached.size(); ++at) {
      const auto [from, own] = reached[at];
      for (auto& [child, those] : left) {
        if (child == own) continue;
        std::erase_if(those, [&, from = from, child = child](int d) {
          if (has_wire(from, d)) return false;
          pairs.emplace_back(std::minmax(from, d));
          reached.emplace_back(d, child);
          return true;
        });
      }
      std::erase_if(left, [](const auto& entry) { return entry.second.empty(); });
    }
  }
}

// Lists the pairs of compute devices to consider. At every speed, these pairs and faster ones join whatever all pairs
// of that speed join. They are all pairs with a wire of their own, and all that meet at a switch. Below a switch whose
// devices all have links of one speed, a forest of these is enough.
std::vector<DevicePair> pairs_that_join(const Cluster& cluster) {
  const int n = cluster.compute_count;
  std::vector<DevicePair> pairs;
  for (int d = 0; d < n; ++d)
    for (int other : cluster.routes.own_to(DeviceId(size_t(d))))
      if (other < n) pairs.emplace_back(std::minmax(d, other));
  sort_unique(pairs);
  const std::vector<DevicePair> wired = pairs;
  auto has_wire = [&](int a, int b) {
    return std::binary_search(wired.begin(), wired.end(), DevicePair(std::minmax(a, b)));
  };
  for (const auto& [top, below] : devices_below(cluster)) {
    if (below.alike) {
      add_forest(below, has_wire, pairs);
      continue;
    }
    const std::vector<int>& devices = below.devices;
    for (size_t i = 0; i < devices.size(); ++i)
      for (size_t j = i + 1; j < devices.size(); ++j)
        if (cluster.routes.nearest_switch(DeviceId(size_t(devices[i])), DeviceId(size_t(devices[j]))) == top)
          pairs.emplace_back(devices[i], devices[j]);
  }
  sort_unique(pairs);
  return pairs;
}

// ---------------------------------------------------------------- single linkage

struct Pair {
  double bandwidth, latency;  // of the slower direction
  int a, b;
};

bool faster(const Pair& p, const Pair& q) {
  return p.bandwidth != q.bandwidth ? p.bandwidth > q.bandwidth : p.latency < q.latency;
}

std::vector<Pair> fastest_first(const Cluster& cluster) {
  std::vector<Pair> pairs;
  for (const auto& [a, b] : pairs_that_join(cluster)) {
    DeviceId x{size_t(a)}, y{size_t(b)};
    pairs.push_back({std::min(cluster.bandwidth(x, y), cluster.bandwidth(y, x)),
                     std::max(cluster.latency_us(x, y), cluster.latency_us(y, x)), a, b});
  }
  std::stable_sort(pairs.begin(), pairs.end(), faster);
  return pairs;
}

struct Groups {
  std::vector<std::vector<int>> members;  // by the lowest group that was joined; in the order of the list
  std::vector<int> of;                    // by device
};

// Joins all pairs of one speed at once, so that the order does not depend on which pair comes first.
void join_groups(Groups& groups, std::vector<Pair>::const_iterator begin, std::vector<Pair>::const_iterator end) {
  std::vector<std::vector<int>>& members = groups.members;
  std::vector<int> leader(members.size());
  std::iota(leader.begin(), leader.end(), 0);
  auto find = [&](int g) {
    while (leader[g] != g) g = leader[g];
    return g;
  };
  for (; begin != end; ++begin) {
    int a = find(groups.of[begin->a]), b = find(groups.of[begin->b]);
    leader[std::max(a, b)] = std::min(a, b);
  }
  std::map<int, std::vector<int>> joined;
  for (int g = 0; g < static_cast<int>(members.size()); ++g)
    if (!members[g].empty()) joined[find(g)].push_back(g);
  auto goes_first = [&](int x, int y) {
    if (members[x].size() != members[y].size()) return members[x].size() > members[y].size();
    return *std::min_element(members[x].begin(), members[x].end()) <
           *std::min_element(members[y].begin(), members[y].end());
  };
  for (auto& [head, parts] : joined) {
    if (parts.size() == 1) continue;
    std::stable_sort(parts.begin(), parts.end(), goes_first);
    std::vector<int> all;
    for (int g : parts) {
      all.insert(all.end(), members[g].begin(), members[g].end());
      members[g].clear();
    }
    for (int d : all) groups.of[d] = head;
    members[head] = all;
  }
}

}  // namespace

// Groups are joined from the fastest pair of devices to the slowest. Each group is a contiguous run of the list, so
// groups joined last, over the slowest links, are split first. The larger group goes first, then the one with the lower
// device, so that equal parts fall between groups if sizes allow it.
std::vector<DeviceId> slowest_link_first(const Cluster& cluster) {
  const std::vector<Pair> pairs = fastest_first(cluster);
  Groups groups;
  for (int d = 0; d < cluster.compute_count; ++d) groups.members.push_back({d}), groups.of.push_back(d);
  for (auto begin = pairs.begin(); begin != pairs.end();) {
    auto end = begin;
    while (end != pairs.end() && !faster(*begin, *end)) ++end;
    join_groups(groups, begin, end);
    begin = end;
  }
  std::vector<DeviceId> order;
  for (const std::vector<int>& g : groups.members)
    for (int d : g) order.push_back(DeviceId(size_t(d)));
  return order;
}

}  // namespace partita

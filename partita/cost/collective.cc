// Computes the formulas of collectives and transfers (collective.h).
#include "partita/cost/collective.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "partita/cluster/direct.h"
#include "partita/cluster/route.h"
#include "partita/cost/whole_ns.h"
#include "partita/profile/profile.h"
#include "partita/sharding/collective_links.h"

namespace partita {

namespace {

constexpr double kNsPerUs = 1e3, kNsPerS = 1e9;

const LibraryRow kPlainRing{}, kPlainTransfer{CollectiveAlgorithm::kPairwise, "", 0, {}, 0, 1, 1, 0, 2};

// A kind of collective on a group: the figures that all rows share.
struct Setting {
  const Cluster& cluster;
  const GroupLinks& group;
  StepKind kind;
  double n, nodes, k;
  bool straight;  // messages go straight from each device to each: rows of rings do not apply
  bool reduces_all() const { return kind == StepKind::kAllReduce; }
  // Messages that follow one another, in a ring or straight from each to each. An all-reduce sends shards to their
  // owners and sums back; the others do one of the two.
  double hops(double members) const { return (reduces_all() ? 2 : 1) * (members - 1); }
  // The bytes that a participant sends of a buffer of one byte, and the buffer for one byte that it sends.
  double sent() const { return hops(n) / n; }
  double buffer() const { return 1 / sent(); }
  double network_hop_us(const LibraryRow& row) const { return row.network_hop_us + group.between_latency_us; }
};

Duration duration(double us, double s) { return {us * kNsPerUs, s * kNsPerS}; }

Duration ring(const Setting& at, const LibraryRow& row) {
  const double hops = at.hops(at.n), between = at.nodes > 1 ? at.hops(at.nodes) : 0;
  const double us = row.hop_us ? (hops - between) * *row.hop_us + between * at.network_hop_us(row)
                               : hops * std::max(at.group.inside_latency_us, at.group.between_latency_us);
  const double own = at.k > 1 ? row.own_part / hops : 0;
  return duration(row.launch_us + us,
                  busiest_link_seconds(at.cluster, at.group, row.bandwidth / (1 + own), row.network_bandwidth));
}

// Bytes that each node sends to others in a double binary tree, for a buffer of one byte.
double sent_in_tree(const Setting& at) { return at.nodes < 2 ? 0 : at.nodes == 2 ? 1 : 2; }

Duration tree(const Setting& at, const LibraryRow& row) {
  const double hop_us = row.hop_us.value_or(at.group.inside_latency_us);
  const double us = 2 * ((at.k - 1) * hop_us + std::floor(std::log2(at.nodes)) * at.network_hop_us(row));
  return duration(row.launch_us + us,
                  at.buffer() * std::max(2 * at.group.inside_s / row.bandwidth,
                                         sent_in_tree(at) * at.group.between_s / row.network_bandwidth));
}

Duration nvls(const Setting& at, const LibraryRow& row) {
  const double us =
      row.hop_us.value_or(at.group.inside_latency_us) + 2 * std::floor(std::log2(at.nodes)) * at.network_hop_us(row);
  return duration(row.launch_us + us,
                  at.buffer() * std::max(at.group.inside_s / row.bandwidth,
                                         sent_in_tree(at) * at.group.between_s / row.network_bandwidth));
}

Duration hierarchical(const Setting& at, const LibraryRow& row) {
  const double inside = at.hops(at.k), between = at.hops(at.nodes);
  const double us = inside * row.hop_us.value_or(at.group.inside_latency_us) + between * at.network_hop_us(row);
  const double own = at.k > 1 ? row.own_part / inside : 0;
  return duration(row.launch_us + us, at.buffer() * (inside / at.k * (1 + own) * at.group.inside_s / row.bandwidth +
                                                     between / at.nodes * at.group.between_s / row.network_bandwidth));
}

Duration pairwise(const Setting& at, const LibraryRow& row) {
  const double hops = at.hops(at.n), exchanges = at.hops(2);
  const double us = row.hop_us ? hops * *row.hop_us + (at.nodes > 1 ? exchanges * at.network_hop_us(row) : 0)
                               : hops * std::max(at.group.inside_latency_us, at.group.between_latency_us);
  const double own = at.k > 1 ? row.own_part / hops : 0;
  return duration(row.launch_us + us,
                  busiest_link_seconds(at.cluster, at.group, row.bandwidth / (1 + own), row.network_bandwidth));
}

bool has(const Setting& at, const LibraryRow& row) {
  if (at.k > 1 && at.k < row.least_devices) return false;
  switch (row.algorithm) {
    case CollectiveAlgorithm::kRing:
      return !at.straight;
    case CollectiveAlgorithm::kPairwise:
      return at.straight;
    case CollectiveAlgorithm::kHierarchical:
      return !at.straight && at.nodes > 1 && at.k > 1;
    case CollectiveAlgorithm::kNvls:
      return at.reduces_all() && at.k >= row.least_devices;
    case CollectiveAlgorithm::kTree:
      return at.reduces_all();
  }
  return false;
}

Duration time_of(const Setting& at, const LibraryRow& row) {
  switch (row.algorithm) {
    case CollectiveAlgorithm::kRing:
      return ring(at, row);
    case CollectiveAlgorithm::kTree:
      return tree(at, row);
    case CollectiveAlgorithm::kNvls:
      return nvls(at, row);
    case CollectiveAlgorithm::kHierarchical:
      return hierarchical(at, row);
    case CollectiveAlgorithm::kPairwise:
      return pairwise(at, row);
  }
  return {};
}

// The duration of a curve of a profile, for a byte.
Duration along(const Curve& curve) { return duration(curve.latency_us, curve.us_per_byte * 1e-6); }

// Returns the collective of a profile, if it has one. The devices' own processors do it, and no link is taken.
std::optional<Collective> measured(const Cluster& cluster, StepKind kind, const std::vector<DeviceId>& devices) {
  const Profile* profile = cluster.profile_of(devices[0]);
  for (DeviceId d : devices)
    if (cluster.profile_of(d) != profile) return std::nullopt;
  const Curve* curve = profile ? profile->curve(name_of(kind), static_cast<int>(devices.size())) : nullptr;
  if (!curve) return std::nullopt;
  return Collective{{"measured"}, {{along(*curve)}}, {}, {}};
}

// A row of a library, and the time of a call by it.
struct AlgorithmCost {
  CollectiveAlgorithm algorithm;
  std::string protocol, name;
  Duration duration;
};

AlgorithmCost algorithm_cost_of(const LibraryRow& row, const Duration& duration) {
  return {row.algorithm, row.protocol, row.name(), duration};
}

// The libraries of the devices, each once; a null one if a device has no rows.
std::vector<Library> libraries_of(const Cluster& cluster, const std::vector<DeviceId>& devices) {
  std::vector<Library> found;
  for (DeviceId d : devices) {
    const Library& own = cluster.device(d).library;
    auto same = [&](const Library& known) { return known == own || (known && own && *known == *own); };
    if (std::none_of(found.begin(), found.end(), same)) found.push_back(own);
  }
  return found;
}

// The algorithms that both libraries have, each as slow as the slower says. Protocols are only names: if an algorithm
// has none in common, any two of its rows are the same.
std::vector<AlgorithmCost> common(const std::vector<AlgorithmCost>& some, const std::vector<AlgorithmCost>& others) {
  auto all_pairs = [&](const auto& visit) {
    for (const AlgorithmCost& a : some)
      for (const AlgorithmCost& b : others)
        if (a.algorithm == b.algorithm) visit(a, b);
  };
  std::set<CollectiveAlgorithm> agreed;
  all_pairs([&](const AlgorithmCost& a, const AlgorithmCost& b) {
    if (a.protocol == b.protocol) agreed.insert(a.algorithm);
  });
  std::vector<AlgorithmCost> out;
  all_pairs([&](const AlgorithmCost& a, const AlgorithmCost& b) {
    const bool same = a.protocol == b.protocol;
    if (!same && agreed.count(a.algorithm)) return;
    out.push_back(
        {a.algorithm,
         same ? a.protocol : "",
         same ? a.name : std::string(name_of(a.algorithm)),
         {std::max(a.duration.fixed_ns, b.duration.fixed_ns), std::max(a.duration.moving_ns, b.duration.moving_ns)}});
  });
  return out;
}

// The costs of the rows in `has` that the libraries of all devices have, by `time`; `plain` if one has none, or they
// have none in common.
std::vector<AlgorithmCost> algorithm_costs_of(const std::vector<Library>& libraries, const LibraryRow& plain,
                                              const std::function<bool(const LibraryRow&)>& has,
                                              const std::function<Duration(const LibraryRow&)>& time) {
  std::vector<AlgorithmCost> costs;
  for (size_t l = 0; l < libraries.size(); ++l) {
    std::vector<AlgorithmCost> own;
    if (libraries[l])
      for (const LibraryRow& row : *libraries[l])
        if (has(row)) own.push_back(algorithm_cost_of(row, time(row)));
    if (own.empty()) own.push_back(algorithm_cost_of(plain, time(plain)));
    costs = l == 0 ? std::move(own) : common(costs, own);
  }
  if (costs.empty()) costs.push_back(algorithm_cost_of(plain, time(plain)));
  return costs;
}

Collective collective_of(const Cluster& cluster, StepKind kind, const std::vector<DeviceId>& devices) {
  Collective found{{}, {{}}, {}, {}};
  if (devices.size() < 2) return {{""}, {}, {}, {}};
  if (auto known = measured(cluster, kind, devices)) return *std::move(known);
  const bool direct = are_direct(cluster, devices), straight = direct || kind == StepKind::kAllToAll;
  const GroupLinks group = collective_links(cluster, kind, devices);
  const Setting at{cluster,
                   group,
                   kind,
                   static_cast<double>(group.devices),
                   static_cast<double>(group.nodes),
                   static_cast<double>(group.per_node),
                   straight};
  for (const AlgorithmCost& cost : algorithm_costs_of(
           libraries_of(cluster, devices), straight ? kPlainTransfer : kPlainRing,
           [&](const LibraryRow& row) { return has(at, row); },
           [&](const LibraryRow& row) { return time_of(at, row); })) {
    found.names.push_back(!direct ? cost.name : cost.protocol.empty() ? "direct" : "direct " + cost.protocol);
    found.costs.durations.push_back(cost.duration);
  }
  found.occupies = busy_links(cluster, group);
  found.loads = group.loads;
  return found;
}

}  // namespace

double AlgorithmCosts::ns(double bytes) const {
  double least = INFINITY;
  for (const Duration& d : durations) least = std::min(least, d.fixed_ns + bytes * d.moving_ns);
  return least;
}

int64_t AlgorithmCosts::whole_ns(double bytes) const { return partita::whole_ns(ns(bytes), 1); }

size_t AlgorithmCosts::fastest(double bytes) const {
  auto ns_of = [&](const Duration& d) { return d.fixed_ns + bytes * d.moving_ns; };
  return static_cast<size_t>(
      std::min_element(durations.begin(), durations.end(),
                       [&](const Duration& a, const Duration& b) { return ns_of(a) < ns_of(b); }) -
      durations.begin());
}

void AlgorithmCosts::add(const AlgorithmCosts& after) {
  if (durations.size() == 1 && after.durations.size() > 1) durations.resize(after.durations.size(), durations[0]);
  for (size_t w = 0; w < durations.size(); ++w) {
    const Duration& d = after.durations[std::min(w, after.durations.size() - 1)];
    durations[w].fixed_ns += d.fixed_ns;
    durations[w].moving_ns += d.moving_ns;
  }
}

void AlgorithmCosts::repeat(double times) {
  for (Duration& d : durations) d = {times * d.fixed_ns, times * d.moving_ns};
}

const Collective& CollectiveTimes::of(StepKind kind, std::vector<DeviceId> devices) {
  std::sort(devices.begin(), devices.end());
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<const Collective>& known = known_[{kind, devices}];
  if (!known) known = std::make_unique<const Collective>(collective_of(cluster_, kind, devices));
  return *known;
}

AlgorithmCosts transfer_costs(const Cluster& cluster, DeviceId from, DeviceId to, const std::vector<LinkId>& route,
                              double bytes) {
  if (const Profile* profile = cluster.profile_of(to))
    if (const Curve* curve = profile->curve("transfer"))
      return {{duration(curve->latency_us, curve->us_per_byte * bytes * 1e-6)}};
  const RouteFigures figures = route_figures(cluster, route);
  const double latency_us = figures.latency_us, slowest = figures.bytes_per_s;
  auto is_gpu = [&](DeviceId d) { return d.valid() && cluster.device(d).kind == DeviceKind::kGpu; };
  const std::vector<Library> libraries =
      is_gpu(from) && is_gpu(to) ? libraries_of(cluster, {from, to}) : std::vector<Library>{nullptr};
  const bool inside = from.valid() && to.valid() && cluster.device(from).host == cluster.device(to).host;
  const Duration plain = duration(latency_us, bytes / slowest);
  AlgorithmCosts costs{{}};
  for (const AlgorithmCost& cost : algorithm_costs_of(
           libraries, kPlainTransfer,
           [](const LibraryRow& row) { return row.algorithm == CollectiveAlgorithm::kPairwise; },
           [&](const LibraryRow& row) {
             if (row == kPlainTransfer) return plain;
             return duration(row.launch_us + row.hop_us.value_or(inside ? latency_us : 0) +
                                 (inside ? 0 : row.network_hop_us + latency_us),
                             bytes / (slowest * (inside ? row.bandwidth : row.network_bandwidth)));
           }))
    costs.durations.push_back(cost.duration);
  return costs;
}

}  // namespace partita

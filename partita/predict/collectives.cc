// Predicts measured collectives.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/cluster/nodes.h"
#include "partita/cost/collective.h"
#include "partita/predict/kinds.h"

namespace partita {

namespace {

// Compute devices by node, in the cluster's order.
std::vector<std::vector<DeviceId>> nodes_of(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < cluster.compute_count; ++d) devices.emplace_back(size_t(d));
  return group_by_node(cluster, std::move(devices));
}

// The first devices of the first nodes that have so many; left out if the cluster has not so many nodes of them.
std::vector<DeviceId> group_of(const std::vector<std::vector<DeviceId>>& nodes, int devices, int on_nodes) {
  const auto each = static_cast<size_t>(devices / on_nodes);
  std::vector<DeviceId> group;
  for (const std::vector<DeviceId>& node : nodes)
    if (node.size() >= each && group.size() < static_cast<size_t>(devices))
      group.insert(group.end(), node.begin(), node.begin() + static_cast<std::ptrdiff_t>(each));
  if (group.size() == static_cast<size_t>(devices)) return group;
  size_t all = 0, least = nodes[0].size(), most = 0;
  for (const std::vector<DeviceId>& node : nodes) {
    all += node.size();
    least = std::min(least, node.size());
    most = std::max(most, node.size());
  }
  leave_out(fmt::format("{} devices on {} node{} are needed, the cluster has {} on {}{}", devices, on_nodes,
                        on_nodes > 1 ? "s" : "", all, nodes.size(),
                        least < most ? fmt::format(", {} to {} on each", least, most) : ""));
}

// The name without what people put between its words: "all_reduce", "AllReduce" and "all-reduce" are one.
std::string plain(const std::string& name) {
  std::string out;
  for (char c : name)
    if (std::isalpha(static_cast<unsigned char>(c))) out += static_cast<char>(std::tolower(c));
  return out;
}

std::optional<StepKind> collective_named(const std::string& name) {
  for (StepKind kind : {StepKind::kAllReduce, StepKind::kAllGather, StepKind::kReduceScatter, StepKind::kAllToAll})
    if (plain(name) == plain(std::string(name_of(kind)))) return kind;
  return std::nullopt;
}

// Bytes that each device sends of a buffer of one byte; nccl-tests' bus bandwidth counts these (its PERFORMANCE.md).
double sent(StepKind kind, double n) { return (kind == StepKind::kAllReduce ? 2 : 1) * (n - 1) / n; }

std::string size_class(double bytes) {
  if (bytes < 65536) return "below 64 KiB";
  return bytes < 1048576 ? "64 KiB to 1 MiB" : "1 MiB and more";
}

std::optional<double> measured_us(const Table& table, size_t row, double bytes, double bus_factor) {
  if (const auto us = measurement(table, row, "time_us")) return us;
  if (const auto rate = measurement(table, row, "algbw_GBps")) return bytes / (*rate * 1e3);
  if (const auto rate = measurement(table, row, "busbw_GBps")) return bytes * bus_factor / (*rate * 1e3);
  return std::nullopt;
}

struct Group {
  int devices = 0, on_nodes = 1;
  std::vector<DeviceId> members;
};

Group read_group(const Table& table, size_t row, const std::vector<std::vector<DeviceId>>& nodes) {
  const double devices = needed_count(table, row, "gpus"), on_nodes = count_in(table, row, "nodes").value_or(1);
  if (devices < 2) leave_out("a group of one device has nothing to send");
  if (devices > kMostDevices) leave_out(fmt::format("gpus is above {}, the most that a cluster has", kMostDevices));
  if (std::fmod(devices, on_nodes) != 0)
    leave_out(fmt::format("{} devices on {} nodes are not as many on each", devices, on_nodes));
  Group group{static_cast<int>(devices), static_cast<int>(on_nodes), {}};
  group.members = group_of(nodes, group.devices, group.on_nodes);
  return group;
}

Prediction predict_row(const Table& table, size_t row, CollectiveTimes& times, const Cluster& cluster,
                       const std::vector<std::vector<DeviceId>>& nodes) {
  const std::string& name = table.cell(row, "collective");
  const bool transfer = plain(name) == "sendrecv";
  const std::optional<StepKind> kind = collective_named(name);
  if (!kind && !transfer) leave_out(fmt::format("plans have no {}", name.empty() ? "collective without a name" : name));
  const std::optional<double> bytes = bytes_in(table, row);
  if (!bytes) leave_out("the row has no bytes");
  const Group group = read_group(table, row, nodes);
  Prediction p;
  p.kind = fmt::format("{}, {} devices{}", transfer ? "send and receive" : name_of(*kind), group.devices,
                       group.on_nodes > 1 ? fmt::format(" on {} nodes", group.on_nodes) : "");
  p.size = size_class(*bytes);
  if (transfer) {
    const DeviceId from = group.members[0],
                   to = group.members[group.on_nodes > 1 ? static_cast<size_t>(group.devices / group.on_nodes) : 1];
    p.predicted_us = transfer_costs(cluster, from, to, cluster.route(from, to), *bytes).ns(1) / 1e3;
    p.algorithm = name_of(CollectiveAlgorithm::kPairwise);
    p.measured_us = measured_us(table, row, *bytes, 1);
    return p;
  }
  const double bus_factor = sent(*kind, group.devices), own = *bytes * bus_factor;
  const Collective& found = times.of(*kind, group.members);
  p.predicted_us = found.costs.ns(own) / 1e3;
  p.algorithm = found.names[found.costs.fastest(own)];
  p.measured_us = measured_us(table, row, *bytes, bus_factor);
  return p;
}

}  // namespace

std::vector<Prediction> predict_collectives(const Table& table, const Cluster& cluster) {
  CollectiveTimes times(cluster);
  const std::vector<std::vector<DeviceId>> nodes = nodes_of(cluster);
  return by_row(table, [&](size_t row) { return predict_row(table, row, times, cluster, nodes); });
}

}  // namespace partita

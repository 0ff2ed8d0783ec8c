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
  return by_node(cluster, std::move(devices));
}

// The first devices of the first nodes; empty where there are not so many.
std::vector<DeviceId> group_of(const std::vector<std::vector<DeviceId>>& nodes, int devices, int on_nodes) {
  std::vector<DeviceId> group;
  const auto each = static_cast<size_t>(devices / on_nodes);
  if (static_cast<size_t>(on_nodes) > nodes.size()) return {};
  for (int n = 0; n < on_nodes; ++n) {
    if (nodes[n].size() < each) return {};
    group.insert(group.end(), nodes[n].begin(), nodes[n].begin() + static_cast<std::ptrdiff_t>(each));
  }
  return group;
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
  if (const auto us = figure(table, row, "time_us")) return us;
  if (const auto rate = figure(table, row, "algbw_GBps")) return bytes / (*rate * 1e3);
  if (const auto rate = figure(table, row, "busbw_GBps")) return bytes * bus_factor / (*rate * 1e3);
  return std::nullopt;
}

int count_of(const Table& table, size_t row, std::string_view column, int otherwise) {
  const std::optional<double> value = figure(table, row, column);
  if (!value) return otherwise;
  if (*value != std::floor(*value) || *value > kMostDevices)
    fail("{}:{}: {} is {}; it is a whole number", table.origin, table.lines[row], column, table.cell(row, column));
  return static_cast<int>(*value);
}

}  // namespace

std::vector<Prediction> predict_collectives(const Table& table, const Cluster& cluster) {
  CollectiveTimes times(cluster);
  const std::vector<std::vector<DeviceId>> nodes = nodes_of(cluster);
  std::vector<Prediction> out;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const std::string& name = table.cell(r, "collective");
    const bool transfer = plain(name) == "sendrecv";
    const std::optional<StepKind> kind = collective_named(name);
    if (!kind && !transfer) {
      out.push_back(not_predicted(fmt::format("plans have no {}", name.empty() ? "collective without a name" : name)));
      continue;
    }
    const std::optional<double> bytes = figure(table, r, "bytes");
    if (!bytes) {
      out.push_back(not_predicted("the row has no bytes"));
      continue;
    }
    const int devices = count_of(table, r, "gpus", 0), on_nodes = count_of(table, r, "nodes", 1);
    if (devices < 2 || devices % on_nodes != 0)
      fail("{}:{}: gpus is {} on {} nodes; a group has two or more, as many on each node", table.origin, table.lines[r],
           table.cell(r, "gpus"), on_nodes);
    const std::vector<DeviceId> group = group_of(nodes, devices, on_nodes);
    if (group.empty()) {
      out.push_back(not_predicted(fmt::format("{} devices on {} node{} are needed, the cluster has {} on {}", devices,
                                              on_nodes, on_nodes > 1 ? "s" : "", cluster.compute_count, nodes.size())));
      continue;
    }
    Prediction& p = out.emplace_back();
    p.kind = fmt::format("{}, {} devices{}", transfer ? "send and receive" : name_of(*kind), devices,
                         on_nodes > 1 ? fmt::format(" on {} nodes", on_nodes) : "");
    p.size = size_class(*bytes);
    if (transfer) {
      const DeviceId from = group[0], to = group[on_nodes > 1 ? static_cast<size_t>(devices / on_nodes) : 1];
      p.predicted_us = transfer_ways(cluster, from, to, cluster.route(from, to), *bytes).ns(1) / 1e3;
      p.algorithm = name_of(CollectiveAlgorithm::kPairwise);
      p.measured_us = measured_us(table, r, *bytes, 1);
      continue;
    }
    const double bus_factor = sent(*kind, devices), own = *bytes * bus_factor;
    const Collective& found = times.of(*kind, group);
    p.predicted_us = found.ways.ns(own) / 1e3;
    p.algorithm = found.names[found.ways.fastest(own)];
    p.measured_us = measured_us(table, r, *bytes, bus_factor);
  }
  return out;
}

}  // namespace partita

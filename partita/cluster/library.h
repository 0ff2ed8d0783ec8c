// Describes a device's collective library, for the cost of collectives: one row for each algorithm and protocol. The
// rows stand in the cluster file, under the device type (docs/reference/cluster.md), so that a person can correct them
// for a cluster.
//
// Example: {algorithm: ring, protocol: Simple, launch_us: 20, hop_us: 1, bandwidth: 0.8} on links of 450 GB/s. An
// all-gather of 64 MB on 8 devices has 7 hops, and each device sends 56 MB: 20 + 7 x 1 us + 56 MB / 360 GB/s = 183 us.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita {

enum class CollectiveAlgorithm {
  kRing,          // all-reduce, all-gather, reduce-scatter: over all rings that the group's links allow
  kTree,          // all-reduce: a chain in each node, a double binary tree between nodes
  kNvls,          // all-reduce: the switch adds up in each node; a tree between nodes
  kHierarchical,  // all-reduce, all-gather, reduce-scatter: a ring in each node, then one between nodes
  kPairwise,      // all-to-all and transfers: straight to each; in a library without other rows, all collectives
};
std::string_view name_of(CollectiveAlgorithm algorithm);

struct LibraryRow {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  std::string protocol;          // for people, as "LL128"; may be empty
  double launch_us = 0;          // fixed cost of a call of any size
  std::optional<double> hop_us;  // a hop inside a node, its links' latency included; none: that latency alone
  double network_hop_us = 0;     // a hop between nodes costs this beside the latency of its route
  double bandwidth = 1;          // fraction of a link's rate that is reached inside a node
  double network_bandwidth = 1;  // and between nodes
  double own_part = 0;           // a device copies its own shard too; the time in units of one sent shard
  int least_devices = 2;         // in a node; the library uses this algorithm from here on
  std::string name() const;      // "ring LL128"
  bool operator==(const LibraryRow&) const = default;
};

// Null: a ring, and straight transfers, at the full rates of the links.
using Library = std::shared_ptr<const std::vector<LibraryRow>>;

}  // namespace partita

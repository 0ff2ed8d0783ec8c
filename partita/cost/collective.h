// Computes the time of collectives and transfers, by the rows of the devices' library (cluster/library.h) and the links
// of their group (cluster/group.h). The fastest of the library's algorithms for a collective counts, as for NCCL. The
// constants follow the model of nccl's src/graph/tuning.cc, with bandwidths of the cluster's links.
//
// There are n devices on N nodes, with k on the node that has most; S bytes of the whole buffer. l is a row's hop_us, L
// its network_hop_us and the latency of the slowest route between nodes. B and C are the rates inside and between nodes
// (1 / inside_s x bandwidth, 1 / between_s x network_bandwidth):
//   ring          all-reduce h = 2 (n-1) hops, all-gather and reduce-scatter h = n-1, of which g = 2 (N-1) or N-1 are
//                 between nodes (N > 1): (h - g) l + g L + V / the rate of the busiest link, for V = h/n S; and
//                 own_part x S/n more inside a node
//   tree          2 ((k-1) l + floor(log2 N) L) + max(2 S / B, c S / C), c = 1 on two nodes, 2 on more
//   nvls          l + 2 floor(log2 N) L + max(S / B, c S / C)
//   hierarchical  a ring of k for S in each node, and one of N for S/k between the devices of equal place, which run
//                 together
//   pairwise      (n-1) l, and L if N > 1; S (n-1)/n over straight routes, and own_part x S/n. Direct: each of
//                 reduce-scatter and all-gather likewise, all-reduce twice the hops and bytes (cluster/direct.h)
// Each with launch_us before it. A row of rings or pairs without hop_us has the slowest route's latency as its hops.
//
// Example: all-reduce of S = 64 MB on 4 devices of one node, over links of 8 GB/s and 5 us, without a library: 6 x 5 us
// + 96 MB / 8 GB/s = 30 us + 12 ms.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "partita/cluster/group.h"
#include "partita/sharding/step.h"

namespace partita {

// Time as two terms: one that does not depend on the bytes, and one that is proportional to them.
struct Duration {
  double fixed_ns = 0, moving_ns = 0;
  bool operator==(const Duration&) const = default;
};

// The time by each of several algorithms, of which the fastest counts. Work that has no choice of algorithm has one
// entry.
struct AlgorithmCosts {
  std::vector<Duration> durations = {{}};

  double ns(double bytes) const;         // moving_ns counts for one byte
  int64_t whole_ns(double bytes) const;  // rounded; at least 1
  size_t fastest(double bytes) const;
  // Adds work that follows, algorithm by algorithm. If one of both has a single entry, it is added to each of the
  // other.
  void add(const AlgorithmCosts& after);
  void repeat(double times);
  bool operator==(const AlgorithmCosts&) const = default;
};

struct Collective {
  std::vector<std::string> names;  // of the algorithms: "ring LL128"
  AlgorithmCosts costs;            // for every byte that each participant sends
  std::vector<LinkId> occupies;    // the links that it takes for itself
  std::vector<LinkLoad> loads;     // the bytes on each link, for every byte that each participant sends
};

// Computes the collectives of groups, each once. Safe from several threads.
class CollectiveTimes {
 public:
  explicit CollectiveTimes(const Cluster& cluster) : cluster_(cluster) {}
  const Collective& of(StepKind kind, std::vector<DeviceId> devices);  // distinct, in any order

 private:
  const Cluster& cluster_;
  std::mutex mutex_;
  std::map<std::pair<StepKind, std::vector<DeviceId>>, std::unique_ptr<const Collective>> known_;
};

// Returns the costs of a transfer of `bytes` bytes over this route: durations of the whole, not of a byte. `from` may
// be invalid.
AlgorithmCosts transfer_costs(const Cluster& cluster, DeviceId from, DeviceId to, const std::vector<LinkId>& route,
                              double bytes);

}  // namespace partita

// What a task costs in time: the roofline of its device for kernels (Williams et al., CACM 2009), latency and bandwidth
// of its route for transfers, a ring for collectives. All from the cluster's figures.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

class CostModel {
 public:
  explicit CostModel(const Cluster& cluster) : cluster_(cluster) {}

  // A kernel or a local copy: launch + max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency)); a
  // transfer: the route's latency + bytes over its narrowest link. At least 1 ns. Not for collectives.
  int64_t task_ns(const PhysicalGraph& graph, const Task& task) const;
  // All participants together, in rank order. A ring of p sends its bytes in p-1 rounds (all-reduce: 2(p-1)), each of
  // which waits for the slowest hop: rounds x latency + the time of the link that is longest busy. A link carries the
  // bytes of every participant whose hop passes over it.
  int64_t collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const;

  const Cluster& cluster() const { return cluster_; }

 private:
  const Cluster& cluster_;
};

}  // namespace partita

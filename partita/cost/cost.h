// What a task costs in time: the roofline of its device for kernels (Williams et al., CACM 2009), latency and bandwidth
// of its route for transfers, a ring for collectives. All from the cluster's figures.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// What does not depend on the bytes, and what is proportional to them.
struct Duration {
  double fixed_ns = 0, moving_ns = 0;
  int64_t ns() const;  // together, whole; at least 1
};

// One participant of a ring: the route to the next one, and the bytes that it sends on it.
struct Hop {
  const std::vector<LinkId>* route = nullptr;
  double bytes = 0;
};

// The dtype at whose rate a kernel of stages [first, last) computes: that of the operands and results which it
// multiplies as matrices (tdl/products.h), of several the one that they are promoted to. What multiplies no matrices
// has the rate of what it computes in: float64 where it reads or writes any, else float32. `touched`: tensors of the
// formula that it reads and writes; dtype_of is asked for these alone.
DType rate_dtype(const tdl::Bound& bound, int first, int last, const std::vector<int>& touched,
                 const std::function<DType(int)>& dtype_of);

class CostModel {
 public:
  explicit CostModel(const Cluster& cluster) : cluster_(cluster) {}

  // The formulas, of what is not a task yet.
  int64_t kernel_ns(DeviceId device, DType rate, double flops, int64_t bytes) const;
  Duration copy(DeviceId device, double bytes) const;  // of a kernel that computes nothing; bytes: read and written
  Duration transfer(const std::vector<LinkId>& route, double bytes) const;
  Duration ring(StepKind kind, const std::vector<Hop>& hops) const;

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

// What a task takes in time, from the cluster's figures. A kernel: the roofline of its device (Williams et al., CACM
// 2009). A transfer: latency and bandwidth of its route. A collective: a ring.
//
// Example: 8 MB over two links of 5 us and 8 GB/s each take 10 us + 1 ms. In an all-reduce of 64 MB on 4
// devices, each sends 2 (p-1)/p x 64 = 96 MB in 2 (p-1) = 6 rounds. Over one such link a hop it takes 30 us + 12 ms.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "partita/physical/physical.h"

namespace partita {

// Time as two parts: one that does not depend on the bytes, and one that is proportional to them.
struct Duration {
  double fixed_ns = 0, moving_ns = 0;
  int64_t ns() const;  // their sum, rounded; at least 1
};

// One participant of a ring: the route to the next one, and the bytes that it sends on it.
struct Hop {
  const std::vector<LinkId>* route = nullptr;
  double bytes = 0;
};

// The dtype at whose rate a kernel of stages [first, last) computes. It is that of the operands and results that the
// kernel multiplies as matrices (tdl/products.h), promoted to one. A kernel without such a product computes at the rate
// of float64 where it reads or writes any, else of float32. `touched` lists the tensors of the formula that it reads
// and writes; dtype_of is asked for these alone.
DType rate_dtype(const tdl::Bound& bound, int first, int last, const std::vector<int>& touched,
                 const std::function<DType(int)>& dtype_of);

class CostModel {
 public:
  explicit CostModel(const Cluster& cluster) : cluster_(cluster) {}

  // The formulas, for work that is not a task yet.
  int64_t kernel_ns(DeviceId device, DType rate, double flops, int64_t bytes) const;
  Duration copy(DeviceId device, double bytes) const;  // a kernel that computes nothing; bytes read and written
  Duration transfer(const std::vector<LinkId>& route, double bytes) const;
  Duration ring(StepKind kind, const std::vector<Hop>& hops) const;

  // A kernel or a local copy takes launch + max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency)).
  // A transfer takes the route's latency + bytes / bandwidth of its narrowest link. At least 1 ns. Not for collectives.
  // Where some devices alone are lowered, its bytes take as long as those of all that share the link (Elsewhere).
  int64_t task_ns(const PhysicalGraph& graph, const Task& task) const;
  // A collective of these participants, in rank order. A ring of p sends its bytes in p-1 rounds (all-reduce: 2(p-1)).
  // Each round waits for the slowest hop: rounds x latency + the time of the link that is busy longest. A link
  // carries the bytes of every participant whose hop passes over it.
  int64_t collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const;

  const Cluster& cluster() const { return cluster_; }

 private:
  const Cluster& cluster_;
};

}  // namespace partita

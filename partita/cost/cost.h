// What a task takes in time, from the cluster's figures. A kernel: the roofline of its device (Williams et al., CACM
// 2009). A transfer: latency and bandwidth of its route. A collective: collective.h.
//
// Example: 8 MB over two links of 5 us and 8 GB/s each take 10 us + 1 ms.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "partita/cost/collective.h"
#include "partita/physical/physical.h"

namespace partita {

// The dtype at whose rate a kernel of stages [first, last) computes. It is that of the operands and results that the
// kernel multiplies as matrices (tdl/products.h), promoted to one. A kernel without such a product computes at the rate
// of float64 where it reads or writes any, else of float32. `touched` lists the tensors of the formula that it reads
// and writes; dtype_of is asked for these alone.
DType rate_dtype(const tdl::Bound& bound, int first, int last, const std::vector<int>& touched,
                 const std::function<DType(int)>& dtype_of);

class CostModel {
 public:
  explicit CostModel(const Cluster& cluster)
      : cluster_(cluster), collectives_(std::make_shared<CollectiveTimes>(cluster)) {}

  // The formulas, for work that is not a task yet.
  int64_t kernel_ns(DeviceId device, DType rate, double flops, int64_t bytes) const;
  Duration copy(DeviceId device, double bytes) const;  // a kernel that computes nothing; bytes read and written
  Ways transfer(DeviceId from, DeviceId to, const std::vector<LinkId>& route, double bytes) const;
  const Collective& collective(StepKind kind, const std::vector<DeviceId>& devices) const {
    return collectives_->of(kind, devices);
  }

  // A kernel or a local copy takes launch + max(FLOPs / (peak x efficiency), bytes / (memory bandwidth x efficiency)).
  // A transfer takes the route's latency + bytes / bandwidth of its narrowest link, and between two GPUs whose library
  // has rows for transfers the least that these say. At least 1 ns. Not for collectives.
  // Where some devices alone are lowered, its bytes take as long as those of all that share the link (Elsewhere).
  int64_t task_ns(const PhysicalGraph& graph, const Task& task) const;
  // A collective of these participants, in rank order, by the way that is fastest for its bytes.
  int64_t collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const;
  // Of what a collective's participants, or those that its Elsewhere lists, do together.
  const Collective& collective_of(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const;

  const Cluster& cluster() const { return cluster_; }

 private:
  const Cluster& cluster_;
  std::shared_ptr<CollectiveTimes> collectives_;  // a memory; copies of the model share it
};

}  // namespace partita

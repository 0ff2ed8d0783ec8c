// Computes the time of a task from the cluster's figures, for searches and the simulator, which ask nowhere else. A
// kernel: kernel.h, at the clock that the device sustains. A transfer: latency and bandwidth of its route. A
// collective: collective.h.
//
// Example: 8 MB over two links of 5 us and 8 GB/s each take 10 us + 1 ms.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "partita/cost/collective.h"
#include "partita/cost/kernel_form.h"
#include "partita/cost/kernel_id.h"
#include "partita/physical/physical.h"

namespace partita {

// The dtypes at whose rates a kernel of stages [first, last) computes. `rate` is that of the operands and results that
// the kernel multiplies as matrices (tdl/products.h), promoted to one. Without such a product it is `vector`, which is
// float64 if the kernel reads or writes any, else float32. `touched` lists the tensors of the formula that it reads and
// writes; dtype_of is asked only for these.
struct Rates {
  DType rate, vector;  // of a kernel's products, and of other arithmetic
};
Rates rates_of(const tdl::Bound& bound, int first, int last, const std::vector<int>& touched,
               const std::function<DType(int)>& dtype_of);

// The time of a task.
struct TaskTime {
  int64_t ns = 1;          // of a kernel with its operands in the core's cache, if that makes a difference
  int64_t cold_ns = 1;     // and without any of them there
  int64_t far_ns = 1;      // nor in the cache that cores share
  double together = 1;     // times as long when all cores of the devices' machine are busy (profile/profile.h)
  bool estimated = false;  // not measured itself, if there is a profile
};

class CostModel {
 public:
  explicit CostModel(const Cluster& cluster)
      : cluster_(cluster),
        collectives_(std::make_shared<CollectiveTimes>(cluster)),
        forms_(std::make_shared<KernelFormCache>()),
        formula_hashes_(std::make_shared<FormulaHashCache>()) {}

  // The formulas, for work that is not a task yet. At least 1 ns.
  int64_t kernel_ns(DeviceId device, const KernelSize& kernel) const;
  // Stages [first, last) of a formula over these ranges, as a kernel on the device; without rates and bytes.
  KernelSize kernel_size(DeviceId device, const std::shared_ptr<const tdl::Bound>& bound, int first, int last,
                         const std::vector<Interval>& ranges, double flops) const;
  // A task's whole kernel.
  KernelSize kernel_size_of(const PhysicalGraph& graph, const Task& task) const;
  // The same, from a device's profile. Empty if it has none, or nothing to estimate from.
  std::optional<TaskTime> profiled(DeviceId device, const KernelId& id, double flops, double bytes) const;
  const std::string& formula_hash(const std::shared_ptr<const tdl::Bound>& bound) const {
    return formula_hashes_->of(bound);
  }
  Duration copy(DeviceId device, double bytes) const;  // a kernel that computes nothing; bytes read and written
  AlgorithmCosts transfer(DeviceId from, DeviceId to, const std::vector<LinkId>& route, double bytes) const;
  const Collective& collective(StepKind kind, const std::vector<DeviceId>& devices) const {
    return collectives_->of(kind, devices);
  }

  // Returns the time of a task other than a collective, at least 1 ns. kernel.h has that of a kernel or a local copy. A
  // transfer takes the route's latency + bytes / bandwidth of its narrowest link. Between two GPUs whose library has
  // rows for transfers it takes the least of these rows. If only some devices are lowered, its bytes take as long as
  // those of all that share the link (BackgroundLoad).
  int64_t task_ns(const PhysicalGraph& graph, const Task& task) const { return task_time(graph, task).ns; }
  TaskTime task_time(const PhysicalGraph& graph, const Task& task) const;
  // Returns the time of a collective of these participants, in rank order, by the algorithm that is fastest for its
  // bytes.
  int64_t collective_ns(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const;
  // Returns the collective of these participants, or of those that its BackgroundLoad lists.
  const Collective& collective_of(const PhysicalGraph& graph, const std::vector<TaskId>& participants) const;

  const Cluster& cluster() const { return cluster_; }

 private:
  const Cluster& cluster_;
  std::shared_ptr<CollectiveTimes> collectives_;  // caches; copies of the model share them
  std::shared_ptr<KernelFormCache> forms_;
  std::shared_ptr<FormulaHashCache> formula_hashes_;
};

}  // namespace partita

// Internal to task_graph/: remembers times of tasks that are lowered alone: transfers by devices and bytes, others by
// work and device type. Transfers over alike links between alike devices take the same time.
//
// Example: a kernel's eight positions have equal extents, on eight K80: the cost model is asked once.
#pragma once
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/physical/draft.h"

namespace partita {

class TaskTimes {
 public:
  // `graph`: its queues; `bucket_bytes` as LocalTasks says.
  TaskTimes(const CostModel& cost, const PhysicalGraph& graph, int64_t bucket_bytes);
  // Tells whether the times need complete drafts (Draft::complete): those of a profile name registers' extents.
  bool need_complete() const { return cost_.cluster().profile != nullptr; }
  // Returns the time of a task that is no collective (ns).
  int64_t of(const Draft& draft, TaskId id);
  // The time of a collective, and its queues.
  struct Collective {
    int64_t ns = 0;
    std::vector<int> queues;  // ascending
  };
  Collective of_collective(const Draft& draft, std::vector<TaskId> participants);
  // Tells whether kernels take as long on `a` as on `b`, device by device.
  bool same_types(const std::vector<DeviceId>& a, const std::vector<DeviceId>& b) const;
  // Kernels of one op follow each other; forget() parts them from those of the next draft.
  void forget() { last_.clear(); }

 private:
  struct Known {
    int64_t what = 0, bytes = 0;
    double flops = 0;
    bool operator==(const Known&) const = default;
  };
  struct Hash {
    size_t operator()(const Known& known) const;
  };
  // Kernels of the draft at hand.
  struct LastKernel {
    int device_type = 0, first_stage = 0;
    int64_t bytes = 0;
    double flops = 0;
    TaskId task;
    int64_t ns = 0;
  };
  // All that a transfer's time depends on but its bytes.
  struct Way {
    std::vector<double> links;  // bandwidth and latency of each
    int from_type = 0, to_type = 0;
    bool one_host = false;
    auto operator<=>(const Way&) const = default;
  };
  int64_t kernel_ns(const Draft& draft, TaskId id, int device_type);
  int way(DeviceId from, DeviceId to);

  const CostModel& cost_;
  const std::map<LinkId, int> queue_of_;
  const int64_t bucket_bytes_;
  std::vector<int> device_types_;      // by device: equal ones have the same
  std::map<Way, int> ways_;            // numbers
  std::vector<std::vector<int>> way_;  // [from][to]: a number, -1: not known yet; empty: none known from there
  std::unordered_map<Known, int64_t, Hash> known_;
  std::vector<LastKernel> last_;
};

}  // namespace partita

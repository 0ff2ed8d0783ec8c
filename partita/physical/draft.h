// Holds a PhysicalGraph while local lowering makes it, and the small functions that add registers and tasks to it.
//
// Example: new_registers({.name = "h", ..}, layout of h on gpu0 and gpu1) adds the registers "h@gpu0" and "h@gpu1",
// each with its position's box. access(draft, h, 1) is then "all of h@gpu1".
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "partita/graph/micro_batches.h"
#include "partita/physical/physical.h"

namespace partita {

// The groups of a collective over a mesh, and by group how many of them pass over its busiest link.
struct KnownRings {
  bool exchange = false;  // all-to-all: straight transfers
  SharedList<DeviceId> devices;
  std::vector<std::vector<int>> groups;
  std::vector<std::shared_ptr<const BackgroundLoad>> background;  // by group
};

struct Draft {
  const Cluster& cluster;
  DeviceMask device_mask;                                // devices whose tasks are made; null: all
  PhysicalGraph graph;                                   // tasks and registers so far
  std::vector<QueueId> compute_queues;                   // by DeviceId
  std::vector<QueueId> sample_queues, parameter_queues;  // by DeviceId: of collectives (Context::on_sample_queue)
  std::vector<QueueId> link_queues;                      // by LinkId
  int collectives = 0;
  std::deque<std::pair<SharedList<DeviceId>, std::vector<int>>> positions;  // by mesh: what positions_here() has found
  std::vector<int> stages;                                                  // by OpId; empty: one stage
  std::vector<MicroBatchAxis> micro_batch_axes;                             // by register: of its axes
  std::deque<KnownRings> rings;                                             // what rings_of() has found
  // Tasks and registers get names, routes, and the boxes of registers that they access. A simulation that serves tasks
  // as they come needs none of these: keys, queues, devices, bytes and writers are enough.
  bool complete = true;
  std::vector<DeviceId> sources;  // by task, if not complete: of a transfer, else none
};
Draft make_draft(std::string name, const Cluster& cluster, DeviceMask device_mask);  // with every queue

// Registers by mesh position, ascending.
class PositionRegisters {
 public:
  using Entry = std::pair<int, RegisterId>;
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::vector<Entry>::const_iterator find(int position) const {
    const size_t p = static_cast<size_t>(position);
    if (p < entries_.size() && entries_[p].first == position) return entries_.begin() + position;
    const auto at = std::ranges::lower_bound(entries_, position, {}, &Entry::first);
    return at != entries_.end() && at->first == position ? at : entries_.end();
  }
  bool contains(int position) const { return find(position) != end(); }
  RegisterId at(int position) const;        // there is one
  void add(int position, RegisterId reg) {  // behind the last
    entries_.emplace_back(position, reg);
  }
  void reserve(size_t count) { entries_.reserve(count); }
  bool operator==(const PositionRegisters&) const = default;

 private:
  std::vector<Entry> entries_;
};

// A tensor, or a stage of an op, as it lies in registers: one a mesh position, or a box of one. The layout's boxes are
// over the registers' axes.
struct Placed {
  Layout layout;
  PositionRegisters regs;  // those that are lowered
  bool fresh = false;      // the new value of a carried register
};

// The op and tensor to which new tasks and registers belong.
struct Context {
  std::string name;  // prefix of tasks and registers
  OpId op;
  Phase phase = Phase::kForward;
  Task::Turn turn = Task::Turn::kLazy;
  TensorId tensor;  // none: an inner stage
  DType dtype = DType::kFloat32;
  int firings = 1;              // of the tasks in a step, and uses of the registers
  bool on_sample_queue = true;  // or of parameters (graph/sample_tensors.h): on which queue its collectives are
  MicroBatchAxis along = {};    // of the tensor (or stage) as stored: how its micro-batches follow each other
  TaskKey key = {};             // of tasks, without positions
};

// Returns the positions of a mesh whose tasks are made: all, or those of the devices in the mask.
const std::vector<int>& positions_here(Draft& draft, const Mesh& mesh);

// Formats a name; empty if the draft is not complete.
template <typename... Args>
std::string named(const Draft& draft, fmt::format_string<Args...> format, Args&&... args) {
  return draft.complete ? fmt::format(format, std::forward<Args>(args)...) : std::string();
}

RegisterId add_register(Draft& draft, std::string name, const Context& at, DeviceId device,
                        const std::vector<Shape>& radices, Box box);
// The same for a layout's position.
RegisterId add_register(Draft& draft, std::string name, const Context& at, const Layout& layout, int position);
// Adds one register at each position here: NAME SUFFIX @ DEVICE.
Placed new_registers(Draft& draft, const Context& at, Layout layout, const char* suffix = "");
// Makes a task on the device's compute queue, without reads and writes. It is not added yet.
Task new_task(const Draft& draft, std::string name, const Context& at, DeviceId device, Work work);
inline void add_task(Draft& draft, Task task, DeviceId source = {}) {
  if (!draft.complete) draft.sources.push_back(source);
  draft.graph.tasks.push_back(std::move(task));
}

Access access(const Draft& draft, RegisterId reg, const Box& box, bool fresh = false, int tensor = -1);
Access access(const Draft& draft, const Placed& placed, int position, int tensor = -1);
const Box& box_of(const Draft& draft, const Access& access);
int64_t bytes_of(const Draft& draft, const Access& access);
int64_t bytes_at(const Draft& draft, const Placed& placed, int position);
inline const std::string& device_name(const Draft& draft, DeviceId id) { return draft.cluster.device(id).name; }

}  // namespace partita

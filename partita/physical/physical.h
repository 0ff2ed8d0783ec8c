// Defines the PhysicalGraph, which the simulator and the runtime execute: tasks on queues, registers in memory, one
// order, edges. The rules that make it and admit it are in docs/inside/PHYSICAL.md; section numbers in comments are
// that page's.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "partita/base/align.h"
#include "partita/base/box.h"
#include "partita/base/dtype.h"
#include "partita/base/ids.h"
#include "partita/cluster/cluster.h"
#include "partita/graph/graph.h"
#include "partita/sharding/boxing.h"
#include "partita/tdl/tdl.h"

namespace partita {

using QueueId = Id<struct QueueTag>;

enum class QueueKind {
  kCompute,              // a device's kernels: dynamic
  kHost,                 // a host's own work (loading, outputs): dynamic
  kLink,                 // one link's transfers: dynamic
  kCollective,           // a device's collectives of activations: static, runs in `order`, may block (sections 5.3, 7)
  kParameterCollective,  // and its collectives of parameters, likewise
};

struct Queue {
  QueueKind kind = QueueKind::kCompute;
  DeviceId device;   // but for kLink
  LinkId link;       // kLink
  std::string name;  // "gpu0.compute", "gpu0.collective.parameters", "gpu0-gpu1"
  bool is_static() const { return kind == QueueKind::kCollective || kind == QueueKind::kParameterCollective; }
  bool operator==(const Queue&) const = default;
};

constexpr int64_t kAlignBytes = 64;  // of every slot in its device's memory: a cache line

// A piece of memory that holds one box of one tensor, `count` times.
struct Register {
  std::string name;  // unique: "h1@2", "W0>k@3"
  DeviceId device;
  TensorId tensor;  // none for scratch
  DType dtype = DType::kFloat32;
  Shape axes;                // the whole tensor's extents over the register's (factored) axes
  std::vector<Box> boxes;    // the elements that it holds, over these axes; one, or one a use (section 1)
  int64_t bytes = 0;         // of one slot: the largest box
  int64_t offset = -1;       // of slot 0 in the device's memory; slots are contiguous. -1: plan_memory comes later
  int count = 1;             // slots
  int uses = 1;              // U: uses a step
  bool carried = false;      // lives from step to step; its uses are `old` and `new` (section 1)
  bool constant = false;     // written before the first step, never after
  bool accumulated = false;  // a sum over micro-batches: firings add to it
  int term = -1;             // carried or constant, and kept as a sum: which of its terms; -1: the values themselves
  const Box& box(int use) const { return boxes[boxes.size() == 1 ? 0 : static_cast<std::size_t>(use)]; }
  int64_t stride_bytes() const { return align_up(bytes, kAlignBytes); }  // slot to slot
  // Use n of a step lies in slot n mod count; old and new of a carried register in slot 0.
  int slot(int use) const { return carried ? 0 : use % count; }
  int64_t slot_offset(int slot) const { return offset + slot * stride_bytes(); }
  bool operator==(const Register&) const = default;
};

// One read or write of a register by a task.
struct Access {
  RegisterId reg;
  bool fresh = false;      // reads `new` of a carried register, which this step wrote
  std::vector<Box> boxes;  // a box inside the register's, over the same axes: one, or one a firing. Empty: all of it
  int tensor = -1;         // kernels: which tensor of the bound formula
  bool operator==(const Access&) const = default;
};

// Stages [first_stage, last_stage) of a formula over a box of its iteration space. Reads and writes name their tensors.
struct KernelWork {
  std::string definition;  // to find a registered kernel; any stage without one runs on the generic stage kernel
  tdl::Attributes attributes;
  std::shared_ptr<const tdl::Bound> bound;
  int first_stage = 0, last_stage = 0;
  // One, or one a firing: per index of `bound`, global values (TDL.md rule 20).
  std::vector<std::vector<Interval>> ranges;
  uint64_t random_stream = 0;  // of the forward op's name
};
// reads[0]'s box is written over the same elements of writes[0]. Between devices this is a transfer at the reader.
struct CopyWork {};
// writes[0] = the reducer over all reads that cover an element, or its identity if none does. With no reads: a fill.
struct CombineWork {
  tdl::Reducer reducer = tdl::Reducer::kSum;
};
// One participant's share of a collective. It holds reads[i] and gets writes[i], for each i that all participants have.
// Each element is combined over the participants that hold it (partial), or comes from the first that does (not
// partial). Several tensors are a bucket (bundle.h).
struct CollectiveWork {
  StepKind kind = StepKind::kAllReduce;
  CollectiveId collective;
  int rank = 0, size = 1;  // place in the ring
  bool partial = false;
  tdl::Reducer reducer = tdl::Reducer::kSum;
};
struct LoadWork {  // the step's (micro-)batch of an input, into writes[0] on a host
  TensorId input;
};
struct OutputWork {  // reads[0] on a host is given to the caller
  TensorId output;
};
using Work = std::variant<KernelWork, CopyWork, CombineWork, CollectiveWork, LoadWork, OutputWork>;

// The load that devices left out of a graph put on the links of a transfer or of a collective's participant. A graph
// has it if it has the tasks of only some devices.
struct BackgroundLoad {
  std::vector<DeviceId> ring;  // of a collective: all participants, in rank order
  int sharers = 1;             // transfers or rings of the same step that pass over the same link, this one counted
};

// Names a task among those of its op: unique together with Task::op, and independent of the order of creation. If
// several tasks are ready at the same time, a simulator that serves them as they come takes the lowest (op, key) first.
struct TaskKey {
  enum class Of : uint8_t {
    kLoad,     // of the number-th input, by its first reader
    kOperand,  // the conversion of an operand
    kKernel,   // a run of stages
    kInner,    // a stage made whole inside the op
    kHalo,     // and the elements of it that its reader lacks
    kKept,     // a result's conversion into its kept layout
    kOutput,   // of the number-th output
  } of = Of::kKernel;
  int number = 0;    // operand, segment, inner step, result
  int step = 0;      // of a conversion
  int position = 0;  // in the mesh, where it runs
  int source = -1;   // the position that a transfer comes from
  int part = 0;      // of several between the same two positions
  auto operator<=>(const TaskKey&) const = default;
};

struct Task {
  std::string name;  // unique, and made from the same as the key
  OpId op;           // the graph op that it belongs to: its own, or for a conversion the first reader's
  TaskKey key;       // not printed
  Phase phase = Phase::kForward;
  DeviceId device;
  QueueId queue;
  std::vector<LinkId> route;  // transfers and collectives: the links it passes; it is queued on the narrowest
  int rate = 1;               // firings a step: 1, or the number of micro-batches m
  int stage = 0;              // pipeline stage
  // When it stands in `order` (section 2). kEager: as soon as it is ready (updates, outputs, gradient conversions,
  // copies to the host). kLazy: just before its first reader (other conversions, fetches, loads, recomputed clones).
  // kInPlace: in its op's place.
  enum class Turn { kInPlace, kEager, kLazy } turn = Turn::kInPlace;
  Work work;
  std::vector<Access> reads, writes;
  std::vector<RegisterId> scratch;  // used by this task alone: a kernel's workspace
  bool addend = false;  // the last of `scratch` is for what firings after the first compute for accumulated registers
  bool elementwise = false;  // its result may lie on an operand that it is the last to read (section 4)
  double flops = 0;
  int64_t bytes = 0;  // memory traffic of a kernel; payload of a transfer or of a participant
  std::shared_ptr<const BackgroundLoad> background;  // null if the graph has all devices; not printed
};

// One firing of a task. The participants of one firing of a collective are one node, named by the first of them.
struct Node {
  TaskId task;
  int firing = 0;
  auto operator<=>(const Node&) const = default;
};

// An edge never joins a node to itself. The firings of one task run one after another, in one step and from step to
// step, because the task has one counter (section 7).
enum class EdgeKind { kData, kFiring, kQueue, kReuse, kPlan };  // sections 5.1 to 5.5
struct Edge {
  Node from, to;
  bool next = false;  // into the next step
  EdgeKind kind = EdgeKind::kData;
  bool operator==(const Edge&) const = default;
};

struct PhysicalGraph {
  std::string name;
  int micro_batches = 1;
  std::vector<Queue> queues;
  std::vector<Register> registers;
  std::vector<Task> tasks;
  std::vector<Node> order;  // all nodes of a step
  std::vector<Edge> edges;
  std::vector<int64_t> peak_bytes;  // per device of the cluster: the end of the highest byte
  int device_count = 0, compute_count = 0;

  const Task& task(TaskId id) const { return tasks[id.index()]; }
  Task& task(TaskId id) { return tasks[id.index()]; }
  const Register& reg(RegisterId id) const { return registers[id.index()]; }
  Register& reg(RegisterId id) { return registers[id.index()]; }
};

// Counts the bytes of what a firing computes for accumulated registers, before it is added. They lie one behind the
// other, each at a multiple of kAlignBytes. 0: the task writes none, or fires once.
int64_t addend_bytes(const PhysicalGraph& graph, const Task& task);

std::string print(const PhysicalGraph& graph);
PhysicalGraph parse_physical(std::string_view text);  // bad input names the line
// Throws, naming task and rule, unless the graph is whole: each field is in range, boxes lie inside registers, copies
// and collectives cover what they write, kernels access the formula's regions, and every byte that is read is written.
// Admission checks order and edges (refuse(), passes.h).
void verify(const PhysicalGraph& graph);

}  // namespace partita

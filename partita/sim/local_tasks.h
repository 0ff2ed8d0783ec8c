// Makes the fragments of the local task graph (task_graph.h) by lowering one op, or one tensor's conversions, alone,
// with the functions that lower a whole plan (partita/physical/lower_op.h) and the times of the cost model. A fragment
// is made once for all ops and tensors that are alike: those of all time steps of a cell, of all copies of a layer.
//
// Worked example: relu in two configurations, [i] on gpu0 and gpu1, and whole on gpu0. op() makes two tasks for the
// first and one for the second. If what it reads comes as rows on gpu0 and gpu1, the tensor's fragment is empty for the
// first, with an edge from each producer to the kernel on its device; for the second it is one transfer gpu1 -> gpu0.
//
// What it leaves out: order, registers' bytes that are shared, control edges, buckets, and that kernels are slower
// beside collectives.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/graph/graph.h"
#include "partita/plan/resolve.h"
#include "partita/sim/task_graph.h"

namespace partita {

// An op's tasks in one configuration, and what tensors' fragments need to know of it.
struct OpFragment {
  int number = 0;  // ops that are alike have the same in the same configuration
  FragmentPtr tasks;
  ResolvedOp resolved;
  // Which tasks read operand k at a position, and which write result r there.
  std::vector<std::vector<std::vector<int>>> reads, writes;  // [k or r][position]
  std::vector<bool> in_place;  // by result: no inner step makes it anew, so that it may lie on what it replaces
};

// A step in parts (micro-batches) is refused.
class LocalTasks {
 public:
  // With buckets (Plan::bucket_bytes), a small collective of parameters takes its part of what a full bucket takes: in
  // the whole graph it is done together with others. 0: each by itself.
  LocalTasks(const Graph& graph, const CostModel& cost, int64_t bucket_bytes = 0);
  ~LocalTasks();

  // Queues and wires, without fragments. Slot i is op i, slot ops + t tensor t.
  const TaskGraph& wired() const;
  int slot(TensorId t) const;
  // The slots of tensors whose fragments depend on the op's configuration.
  std::vector<int> tensors_of(OpId op) const;

  // Bad input where the op has no such strategies.
  const OpFragment& op(OpId id, const OpChoice& choice);
  // Tensors' placements by number; equal ones have the same.
  int kept(const Placement& placement);
  // Where a tensor that no op makes is kept if its first reader decides: as that reads it, else whole on its mesh.
  int kept_as_read(TensorId t, const std::vector<const OpFragment*>& ops);
  // The conversions of a tensor. `ops`: by OpId, of its parties at least; `kept`: a number, -1: as it is made. Inputs,
  // constants, parameters and states have one; a replacement has that of what it replaces. Where an entry of `ops` is
  // null, the tensor is as if that op did not read it; it must not be its writer's.
  const FragmentPtr& tensor(TensorId t, int kept, const std::vector<const OpFragment*>& ops);

  // Fragments of tensors are made anew when they are asked for again. Those that others hold stay.
  void forget_tensors();

  struct Counters {
    int64_t op_fragments = 0, tensor_fragments = 0;  // made
    int64_t tasks = 0;                               // in them
  };
  const Counters& counters() const;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

// A whole plan's.
TaskGraph local_task_graph(const Graph& graph, const Plan& plan, LocalTasks& tasks);

// TaskKey as a number below 2^kKeyBits. Bad input where it has more positions, or a transfer more parts, than that has
// room for.
uint64_t packed(const TaskKey& key);

}  // namespace partita

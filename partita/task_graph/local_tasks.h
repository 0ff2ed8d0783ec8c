// Makes the fragments of the local task graph (task_graph.h), for searches that simulate many plans. It lowers one op,
// or one tensor's conversions, alone, with the functions that lower a whole plan (partita/physical/lower_op.h) and the
// times of the cost model. Ops and tensors that are alike share a fragment: all time steps of a cell, all copies of a
// layer.
//
// Worked example: relu in two configurations, [i] on gpu0 and gpu1, and whole on gpu0. op() makes two tasks for the
// first and one for the second. If its input comes as rows on gpu0 and gpu1, the tensor's fragment is empty for the
// first. An edge leads from each producer to the kernel on its device. For the second it is one transfer gpu1 -> gpu0.
//
// It leaves out order, registers' bytes that are shared, control edges, buckets, and that kernels are slower beside
// collectives.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partita/cost/cost.h"
#include "partita/graph/graph.h"
#include "partita/plan/resolve.h"
#include "partita/task_graph/task_graph.h"

namespace partita {

// For each operand, or each result, of an op, some of its tasks by mesh position.
class TasksAt {
 public:
  explicit TasksAt(int positions = 0) : positions_(positions) {}
  // Position after position of the first operand, then of the next one.
  void add(std::span<const int> tasks) {
    tasks_.insert(tasks_.end(), tasks.begin(), tasks.end());
    ends_.push_back(static_cast<int>(tasks_.size()));
  }
  std::span<const int> at(size_t which, int position) const {
    const size_t p = which * static_cast<size_t>(positions_) + static_cast<size_t>(position);
    const int from = p == 0 ? 0 : ends_[p - 1];
    return std::span(tasks_).subspan(static_cast<size_t>(from), static_cast<size_t>(ends_[p] - from));
  }
  // The tasks of all positions of an operand or result.
  std::span<const int> of(size_t which) const {
    const size_t first = which * static_cast<size_t>(positions_), last = first + static_cast<size_t>(positions_);
    const int from = first == 0 ? 0 : ends_[first - 1];
    return std::span(tasks_).subspan(static_cast<size_t>(from), static_cast<size_t>(ends_[last - 1] - from));
  }

 private:
  int positions_ = 0;
  std::vector<int> ends_, tasks_;
};

// An op's tasks in one configuration, and the facts that tensors' fragments need of it.
struct OpFragment {
  int number = 0;  // alike ops have the same in the same configuration
  FragmentPtr tasks;
  ResolvedOp resolved;
  TasksAt reads, writes;                 // tasks that read operand k, and that write result r
  std::vector<int> reads_as, leaves_as;  // numbers of the layouts of operands and results
  std::vector<bool> in_place;  // by result: no inner step makes it anew, so that it may lie on the tensor that it
                               // replaces
};

// Makes and remembers fragments. A step in micro-batches is refused.
class LocalTasks {
 public:
  // With buckets (Plan::bucket_bytes), a small collective of parameters takes its share of a full bucket's time, since
  // the whole graph bundles it with others. 0: each by itself.
  LocalTasks(const Graph& graph, const CostModel& cost, int64_t bucket_bytes = 0);
  ~LocalTasks();

  // Queues and wires, without fragments. Slot i is op i, slot ops + t tensor t.
  const TaskGraph& wired() const;
  int slot(TensorId t) const;
  // Returns the slots of tensors whose fragments depend on the op's configuration.
  std::vector<int> tensors_of(OpId op) const;

  // Returns the fragment; it stays until forget_others(). Bad input if the op has no such strategies.
  const OpFragment& op(OpId id, const OpChoice& choice);
  // Returns a placement's number; equal ones have the same.
  int kept(const Placement& placement);
  // Returns the placement of a tensor that no op makes if its first reader decides: the reader's, else whole on its
  // mesh.
  int kept_as_read(TensorId t, const std::vector<const OpFragment*>& ops);
  // Returns the conversions of a tensor. `ops`: by OpId, of its parties at least. `kept`: a placement's number; -1: as
  // it is made. Inputs, constants, parameters and states have one; a replacement has that of the tensor it replaces. If
  // an entry of `ops` is null, the tensor is as if that op did not read it; it must not be its writer's.
  const FragmentPtr& tensor(TensorId t, int kept, const std::vector<const OpFragment*>& ops);

  // Fragments of tensors are made anew at the next request. Those that others hold stay.
  void forget_tensors();
  // Returns about the bytes of all remembered fragments. If that is too much, all can be forgotten but these ops,
  // and all tensors' fragments that nobody else holds.
  int64_t bytes() const;
  void forget_others(const std::vector<const OpFragment*>& ops);

  struct Counters {
    int64_t op_fragments = 0, tensor_fragments = 0;  // made
    int64_t tasks = 0;                               // in them
  };
  const Counters& counters() const;
  DerivationCache& derivations();  // of all ops

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

// Returns the task graph of a whole plan.
TaskGraph local_task_graph(const Graph& graph, const Plan& plan, LocalTasks& tasks);

// Packs a TaskKey into a number below 2^kKeyBits. Bad input if it has more positions, or a transfer more shards, than
// fit.
uint64_t packed(const TaskKey& key);

}  // namespace partita

// Lowering: local (the tasks of an op, the conversions of a tensor: a pure function of the choices on them), then global
// (order, counts, memory, edges, admission; docs/PHYSICAL.md).
#pragma once
#include <optional>
#include <string>

#include "partita/physical/physical.h"
#include "partita/plan/plan.h"

namespace partita {

struct LowerOptions {
  bool share_bytes = true;     // false: no two registers share bytes
  // Tofu section 6: a parameter's update waits for nothing and stands as soon as its gradient is whole; transfers just before
  // their first reader. false: eager transfers, for comparison.
  bool control_edges = true;
};

PhysicalGraph lower(const Graph& graph, const Plan& plan, const Cluster& cluster, const LowerOptions& options = {});

// The passes, in order; each takes what the one before left.
PhysicalGraph lower_local(const Graph& graph, const Plan& plan, const Cluster& cluster);
void make_order(PhysicalGraph& graph, const LowerOptions& options = {});  // section 2: fills `order`
void make_counts(PhysicalGraph& graph);                                   // section 3: `count`
void plan_memory(PhysicalGraph& graph, const LowerOptions& options = {}); // section 4: `offset`, `peak_bytes`
void make_edges(PhysicalGraph& graph);                                    // section 5: `edges`, without implied ones

// Section 6. Empty: admitted. Else the reason, naming the edge and the cycle. Shares no code with make_edges.
std::optional<std::string> refuse(const PhysicalGraph& graph);
// refuse(), and the capacity of each device. Throws bad input, or infeasible with what is missing.
void admit(const PhysicalGraph& graph, const Cluster& cluster);

// ---------------------------------------------------------------- uses (section 1), shared by the passes

struct Use {
  RegisterId reg;
  int number = 0;  // 0 .. uses-1; of a carried register 0 is `old`, 1 is `new`
  std::vector<Node> writers, readers;  // as nodes; a task that uses scratch is writer and reader
};
// Every use of every register: uses[register][number].
std::vector<std::vector<Use>> all_uses(const PhysicalGraph& graph);
// The node of (task, act): its collective's first participant stands for all.
Node node_of(const PhysicalGraph& graph, TaskId task, int act);
// Bytes that a kernel needs beside its operands and results; kernels may use no more (PHYSICAL.md: everything is a register).
int64_t workspace_bytes(const Task& task, const PhysicalGraph& graph);

}  // namespace partita

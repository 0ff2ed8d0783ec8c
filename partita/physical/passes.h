// Declares the global passes of lowering, in order, and admission (docs/inside/PHYSICAL.md sections 2 to 6). Each pass
// continues what the one before left. None changes the tasks, so nodes and uses stay those of lower_local's graph.
//
//     lower_local --> make_order --> make_counts --> plan_memory --> make_edges --> refuse
//                     `order`        `count`         `offset`        `edges`        admitted, or the reason
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "partita/base/watch.h"
#include "partita/physical/held_bytes.h"
#include "partita/physical/uses.h"
#include "partita/plan/schedule.h"

namespace partita {

struct LowerOptions {
  bool share_bytes = true;  // false: no two registers share bytes
  // Tofu section 6: a parameter's update waits for nothing else and stands as soon as its gradient is whole. Transfers
  // stand just before their first reader. false, for comparison: updates after everything else, transfers as soon as
  // they are ready.
  bool control_edges = true;
  Schedule schedule = Schedule::kDefault;  // of micro-batches
  // V: the virtual stages that each device works on. Task.stage is then a virtual stage's number, 0 .. S V - 1. Virtual
  // stage v runs on the devices of pipeline rank v mod S.
  int virtual_stages = 1;
  // By OpId, of a plan that gives the order. Empty: the graph's own, and updates and stages as above. With several
  // micro-batches it is the order of the ops of a stage's forward or backward; the rest stays as above.
  std::vector<int> op_places;
  // By TaskId, of a plan whose schedule is kept (Plan::transfers): where the transfers of each link stand among each
  // other, -1 for other tasks. Each device and link then runs its tasks in the order of the graph, by control edges
  // (section 5.5).
  std::optional<std::vector<int>> transfer_places;
  // By number of the node, from 0: nodes that start earlier stand first (schedule/by_time.h). Empty: by the rules of
  // section 2. With them an operand that is read last hands its bytes on (continued.h).
  std::vector<int> start_places;
  // By TaskId, of gathers of parameters: the place of the op before which it stands, -1 for others
  // (schedule/overlap_budget.h). Empty: just before their readers.
  std::vector<int> gathers_ahead;
  HoldBytes held;               // by the order that make_order() has made; empty: bytes are held for a node's own place
  bool transfer_slack = false;  // one count more for registers on either side of a transfer over a link (section 3)
  int more_in_flight = 0;       // of the schedule (plan/schedule.h)
  // By device, for a plan whose schedule is kept: the bytes that are enough. If placing the largest first needs
  // somewhat more, other orders of registers are tried (section 4). Devices that are not in it have memory enough.
  std::vector<int64_t> enough_bytes;
  Watch watch;  // throws when that ends
};

// Section 2: fills `order`. Kahn's algorithm with a heap on (tick, place of the op, - distance to its reader, name).
// Example: the fetch w>f of a weight is ready at once. Its key is that of its reader f less one, so that it stands just
// before f. If devices have several virtual stages, it adds control edges to `edges` (section 5.5), which make_edges()
// keeps. Bad input if virtual_stages does not divide the stages, or the schedule does not fit (schedule.h).
void make_order(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options = {});

// Section 3: fills `count`, the least with which no use is overwritten before its last reader. Example: 4 micro-batches
// on 2 stages under 1F1B have the order f0 f1 b0 f2 b1 .. Use 2 of the activation is written after use 0 was read last,
// so 2 slots are enough.
void make_counts(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options = {});

// Section 4: fills `offset` and `peak_bytes`. This is the one place where registers come to share bytes; in_place.h
// says which results may lie on their operand. edges.cc makes the edges that sharing needs, and admit.cc proves them.
//
// Whole registers (count contiguous slots) are placed, the largest first. Each is at the lowest offset where none of
// its slots meets a placed slot in bytes and in time. A use lives from the place of its first write to that of its last
// use. Example: a (100 bytes) lives at places [0, 3], b (60) at [1, 2], c (60) at [4, 5]. a lies at 0. b lives while a
// does, and lies at 128, the next multiple of 64. c meets neither, and lies at 0. The peak is 188 bytes.
void plan_memory(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options = {});

// Section 5: fills `edges`, sorted by the places of their nodes. Implied edges are among them: they do no harm, and to
// find them takes longer than to simulate them. Control edges of the plan that are there are kept.
void make_edges(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const Watch& watch = {});
// Leaves out implied edges. Example: w writes r, x reads it, v later writes other values into the same bytes. The edges
// are w -> x (data) and x -> v (reuse); w -> v is implied and left out.
void leave_out_implied(PhysicalGraph& graph, const NodeTable& table, const Watch& watch = {});

// The same, with the nodes and uses found for the one pass. This make_edges() leaves out implied edges.
void make_order(PhysicalGraph& graph, const LowerOptions& options = {});
void make_counts(PhysicalGraph& graph, const LowerOptions& options = {});
void plan_memory(PhysicalGraph& graph, const LowerOptions& options = {});
void make_edges(PhysicalGraph& graph, const Watch& watch = {});

// Section 6: returns the reason to refuse the graph, naming the edge and the cycle; empty: admitted. It shares no code
// with make_edges.
std::optional<std::string> refuse(const PhysicalGraph& graph, const Watch& watch = {});
// Checks the capacity of each device: infeasible, with the memory deficit, if a graph does not fit.
void check_capacity(const PhysicalGraph& graph, const Cluster& cluster);

}  // namespace partita

// The global passes of lowering, in order, and admission (docs/inside/PHYSICAL.md sections 2 to 6). Each pass takes
// what the one before left. None changes the tasks, so that nodes and uses stay those of lower_local's graph.
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
  // Tofu section 6: a parameter's update waits for nothing and stands as soon as its gradient is whole; transfers just
  // before their first reader. false, for comparison: updates after everything else, transfers as soon as they are
  // ready.
  bool control_edges = true;
  Schedule schedule = Schedule::kDefault;  // of micro-batches
  // V: the stages that each device works on. Task.stage is then the number of a chunk, 0 .. S V - 1, and chunk c runs
  // on the devices of pipeline rank c mod S.
  int virtual_stages = 1;
  // By OpId, of a plan that gives the order. Empty: the graph's own, and updates and stages as above. With several
  // micro-batches it is the order of the ops of a stage's forward or backward; the rest stays as above.
  std::vector<int> op_places;
  // By TaskId, of a plan whose schedule is kept (Plan::transfers): where the transfers of each link stand among each
  // other, -1 of other tasks. Each device and link then does its tasks in the order of the graph, by control edges
  // (section 5.5).
  std::optional<std::vector<int>> transfer_places;
  // By number of the node, from 0: nodes that start earlier stand first (schedule/by_time.h). Empty: by the rules of
  // section 2. With them an operand that is read last hands its bytes on (continued.h).
  std::vector<int> start_places;
  // By TaskId, of gathers of parameters: the place of the op before which it stands, -1 of others
  // (schedule/overlap_budget.h). Empty: just before their readers.
  std::vector<int> gathers_ahead;
  HoldBytes held;               // by the order that make_order() has made; empty: bytes are held for a node's own place
  bool transfer_slack = false;  // one count more for registers on either side of a transfer over a link (section 3)
  int more_in_flight = 0;       // of the schedule (plan/schedule.h)
  // Of a plan whose schedule is kept, by device: where the largest first needs somewhat more, other orders of registers
  // are tried (section 4). Devices that are not in it have memory enough.
  std::vector<int64_t> enough_bytes;
  Watch watch;  // throws where that ends
};

// Section 2: fills `order`. Kahn's algorithm with a heap on (tick, place of the op, - distance to its reader, name).
// Example: the fetch w>f of a weight is ready at once; its key is that of its reader f less one, so that it stands just
// before f. Where devices have several virtual stages it adds control edges to `edges` (section 5.5), which
// make_edges() keeps. Bad input where virtual_stages does not divide the stages, or the schedule does not fit
// (schedule.h).
void make_order(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options = {});

// Section 3: fills `count`, the least with which no use is overwritten before its last reader. Example: 4 micro-batches
// on 2 stages under 1F1B, order f0 f1 b0 f2 b1 ..: use 2 of the activation is written after use 0 was read last, so
// that 2 slots do.
void make_counts(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options = {});

// Section 4: fills `offset` and `peak_bytes`. This is the one place where registers come to share bytes; in_place.h
// says which results may lie on their operand. edges.cc makes the edges that sharing needs, and admit.cc proves them.
//
// Whole registers (count contiguous slots) are placed, the largest first, each at the lowest offset where none of its
// slots meets a placed slot in bytes and in time. A use lives from the place of its first write to that of its last
// use. Example: a (100 bytes) lives at places [0, 3], b (60) at [1, 2], c (60) at [4, 5]. a lies at 0. b lives while a
// does, and lies at 128, the next multiple of 64. c meets neither, and lies at 0. The peak is 188 bytes.
void plan_memory(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const LowerOptions& options = {});

// Section 5: fills `edges`, sorted by the places of their nodes, those that a path implies among them: they do no harm,
// and to find them takes longer than to simulate them. Kept are control edges of the plan that are there.
void make_edges(PhysicalGraph& graph, const NodeTable& table, const Uses& uses, const Watch& watch = {});
// Example: w writes r, x reads it, v later writes other values into the same bytes. Edges w -> x (data) and x -> v
// (reuse); w -> v is implied and left out.
void leave_out_implied(PhysicalGraph& graph, const NodeTable& table, const Watch& watch = {});

// The same, with the nodes and uses found for the one pass; make_edges() leaves out what is implied.
void make_order(PhysicalGraph& graph, const LowerOptions& options = {});
void make_counts(PhysicalGraph& graph, const LowerOptions& options = {});
void plan_memory(PhysicalGraph& graph, const LowerOptions& options = {});
void make_edges(PhysicalGraph& graph, const Watch& watch = {});

// Section 6. Empty: admitted. Else the reason, naming the edge and the cycle. Shares no code with make_edges.
std::optional<std::string> refuse(const PhysicalGraph& graph, const Watch& watch = {});
// refuse(), and the capacity of each device. Throws bad input, or infeasible with what is missing.
void admit(const PhysicalGraph& graph, const Cluster& cluster);
// The capacity alone: lower() (schedule/lower.h) has asked refuse() already.
void check_capacity(const PhysicalGraph& graph, const Cluster& cluster);

}  // namespace partita

// The overlap budget of a lowered plan: how much time its communication may take beside kernels without waiting.
//
// A gather of a weight stands ahead of its reader in the order, so that it is under way while the ops between run. A
// collective or transfer stands in the order where it begins; its bytes are given to others behind work that takes as
// long as it and what is queued before it. What is put there then need not wait for it. What a transfer writes is its
// own as long before its place, since it may begin before its reader is next.
//
// Example: ops 0 .. 7 of 1 ms each, and collectives of parameters of 2 ms. The gather for op 5 stands before op 3. The
// bytes of a gradient that op 3 makes, whose reduction stands behind op 3, are free behind op 5; those of one that op 4
// makes, whose reduction begins then, behind op 7.
#pragma once
#include <vector>

#include "partita/cost/peak_times.h"
#include "partita/physical/held_bytes.h"
#include "partita/physical/passes.h"

namespace partita {

// A budget's part beyond the peak times, of the kernels of a micro-batch: links reach less than their peaks, and
// gathers and reductions of one device wait for each other. Without it 8B with ZeRO-3 on 64 H100 takes 2% longer.
constexpr double kSparePart = 1.0 / 64;

struct OverlapBudget {
  double most_s = 0;   // for one collective or transfer; 0: there is none
  double spare_s = 0;  // of it
  PeakTimes times;
  std::vector<int> ahead;  // by TaskId, of gathers of parameters: the place of the op before which it stands; else -1
};

// The budget of each collective or transfer is at most `part` of the kernels of a micro-batch. `places` is the order of
// the ops, by OpId; empty: the graph's own.
OverlapBudget overlap_budget(const PhysicalGraph& graph, const PeakTimes& times, double part,
                             const std::vector<int>& places);

// For how long bytes are held: those of collectives and transfers that run beside kernels, and of what waits for the
// reductions among them. Empty if there is no budget.
Held held_bytes(const PhysicalGraph& graph, const NodeTable& table, const OverlapBudget& budget);

// Makes the passes keep to the budget.
void set_overlap_budget(LowerOptions& options, OverlapBudget budget);

}  // namespace partita

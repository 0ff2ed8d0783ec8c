// Computes the overlap budget of a lowered plan: how much time its communication may overlap kernels without waiting.
//
// A gather of a weight stands ahead of its reader in the order, so that it runs while the ops between run. A collective
// or transfer stands in the order where it begins. Its bytes are reused only behind work that takes as long as it and
// the communication queued before it. Their next user then need not wait. A transfer's result is held as long before
// its place, since the transfer may begin before its reader is next.
//
// Example: ops 0 .. 7 of 1 ms each, and collectives of parameters of 2 ms. The gather for op 5 stands before op 3. Op 3
// makes a gradient whose reduction stands behind op 3; its bytes are free behind op 5. Op 4 makes one whose reduction
// begins then; its bytes are free behind op 7.
#pragma once
#include <vector>

#include "partita/cost/peak_times.h"
#include "partita/physical/held_bytes.h"
#include "partita/physical/passes.h"

namespace partita {

// The spare time of a budget beyond the peak times, as a fraction of the kernels of a micro-batch. Links reach less
// than their peaks, and gathers and reductions of one device wait for each other. Without it 8B with ZeRO-3 on 64 H100
// takes 2% longer.
constexpr double kSpareFraction = 1.0 / 64;

struct OverlapBudget {
  double most_s = 0;   // for one collective or transfer; 0: there is none
  double spare_s = 0;  // of it
  PeakTimes times;
  std::vector<int> ahead;  // by TaskId, of gathers of parameters: the place of the op before which it stands; else -1
};

// Gives each collective or transfer at most `fraction` of the kernels of a micro-batch. `places`: the order of the ops,
// by OpId; empty: the graph's own.
OverlapBudget overlap_budget(const PhysicalGraph& graph, const PeakTimes& times, double fraction,
                             const std::vector<int>& places);

// Says how long bytes are held: those of collectives and transfers that overlap kernels, and those of tasks that wait
// for the reductions among them. Empty if there is no budget.
Held held_bytes(const PhysicalGraph& graph, const NodeTable& table, const OverlapBudget& budget);

// Makes the passes keep to the budget.
void set_overlap_budget(LowerOptions& options, OverlapBudget budget);

}  // namespace partita

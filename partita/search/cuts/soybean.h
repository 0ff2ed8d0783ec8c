// Declares SoyBean's search (Wang, Huang, Li: Unifying Data, Model and Hybrid Parallelism in Deep Learning via Tensor
// Tiling). It has the one-cut tiling program and the k-cuts recursion (section 4, Algorithm 1).
//
// Worked example: 12 devices are cut into 3, 2 and 2, since prime factors go from the largest. Let the cuts move
// delta_3, delta_2 and delta_1 bytes within one group of devices. Then the plan's paper_cost is c_3 = delta_3 + 3
// (delta_2 + 2 delta_1), by the equation c_k = delta_k + p c_(k-1).
#pragma once
#include <string>
#include <vector>

#include "partita/search/cuts/elimination.h"
#include "partita/search/entry.h"

namespace partita {

// Cuts the devices one prime factor at a time, largest first, the slowest links first. Each cut gives every tensor one
// tiling (split on an axis, or replicated) and every op one aligned strategy. The conversions between them cost least.
// The next cut sees each op's own ranges and each tensor's kept tile. A conversion in a cut costs the bytes that it
// moves beyond those of the cuts before. They are counted from the boxes (the ghost area, section 4.2.1).
//
// Options: tilings=paper or all. The first is section 4.5's: all indices of matrix products and element-wise
// operations, batch and channels of convolutions, the batch alone for other ops. The second is every derived strategy.
SearchEntry soybean_search();

// The first cut's problem, for tests: variables are the tensors' tilings, then the ops' strategies; costs are bytes.
struct FirstCut {
  CostNetwork network;
  std::vector<int> level_order;  // breadth-first levels, as in section 4.2.2
};
FirstCut soybean_first_cut(const Graph& graph, const Cluster& cluster, bool all_tilings);

// Tells whether variable elimination solves its first cut with small tables under all options: then it takes seconds at
// most. Otherwise, as with many time steps of a recurrent network, the cut is searched around held variables.
bool soybean_is_quick(const Problem& problem, const Budget& budget);

// Returns the names of the indices along which SoyBean's section 4.5 lets an op be tiled.
std::vector<std::string> paper_indices(const Graph& graph, const Op& op);

}  // namespace partita

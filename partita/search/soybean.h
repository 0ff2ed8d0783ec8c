// SoyBean (Wang, Huang, Li: Unifying Data, Model and Hybrid Parallelism in Deep Learning via Tensor Tiling): the one-cut
// tiling program and the k-cuts recursion (section 4, Algorithm 1).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "partita/search/elimination.h"
#include "partita/search/search.h"

namespace partita {

// Cuts the devices one prime factor at a time, largest first, the slowest links first. Each cut gives every tensor one tiling
// (split on an axis, or replicated) and every op one aligned strategy, so that the conversions between them cost least. The
// next cut sees each op's own ranges and each tensor's kept tile.
//
// Options: tilings=paper (section 4.5: all indices of matrix products and element-wise operations, batch and channels of
// convolutions, the batch alone elsewhere) or all (every derived strategy).
std::unique_ptr<Searcher> make_soybean();

// The one-cut problem of a graph over p groups, from scratch: for tests. Variables are the tensors' tilings, then the ops'
// strategies; costs are p times bytes.
struct OneCut {
  CostNetwork network;
  std::vector<int> level_order;  // breadth-first levels, as in section 4.2.2
  int levels = 0;
};
OneCut one_cut_problem(const Graph& graph, int p, bool all_tilings);

// The index names that SoyBean's section 4.5 lets an op be tiled along.
std::vector<std::string> paper_indices(const Graph& graph, const Op& op);

}  // namespace partita

// Declares Tofu's search (Wang, Huang, Li: Supporting Very Large Models using Automatic Dataflow Graph Partitioning,
// EuroSys 2019). It is the dynamic program over the coarsened graph (section 5.1), step by step over the factors of the
// device count (section 5.2).
//
// Worked example: on 8 devices the extents are {2, 2, 2}. Step 1 splits every tensor along one dimension and every op
// along one index into 2 parts. Steps 2 and 3 do the same within each part, and see the values fetched before. With
// recursion=off one step chooses three dimensions for each tensor at once. EqualChop has the extents {8}.
#pragma once
#include <vector>

#include "partita/search/cuts/coarsen.h"
#include "partita/search/entry.h"

namespace partita {

// Factors k1 >= k2 >= .. of the device count. At each step every tensor is split along one dimension into k_i, and
// every op along one index, a reduced one included (partition-n-reduce). Scalars, and tensors too short for that, are
// whole. Each step has the least total communication, counted from the boxes.
//
// Options: coarsening=on|off; recursion=on, or off: all factors in one step, a tensor split along several dimensions at
// once (the two rows of table 1).
SearchEntry tofu_search();

// Tofu's program over any space, and with any number of the mesh's axes in one step, for the searches of Tofu's
// comparison.
struct TofuProgram {
  CutSpace space;
  std::vector<int> extents;
  bool axes_together = false;
  bool coarse = true;
  CoarseningRules rules;
};
SearchResult run_tofu(const Problem& problem, const Budget& budget, const TofuProgram& program);

// Returns the space of partition-n-reduce: an op is split along one index.
CutSpace tofu_space(std::string search);
// Returns the mesh of one step into all devices.
std::vector<int> one_step(const Cluster& cluster);

}  // namespace partita

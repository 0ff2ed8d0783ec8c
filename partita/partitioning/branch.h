// Bounds the max-load and searches splits, contiguous or not, by branch and bound. Units are put on devices one after
// another, those first that compute and communicate most. Three bounds hold for a partial split:
//   - the present load of a device: its compute, and nets of which one assigned unit is on it and one elsewhere;
//   - a minimum cut for each accelerator: over all ways to give it more of the free units, its compute and its cut
//   nets;
//   - all free compute has to find room below the best known, beside a minimum cut for each accelerator by nets alone.
// Devices that are still empty are the same; one of each kind is tried.
#pragma once
#include <functional>
#include <limits>
#include <optional>

#include "partita/base/watch.h"
#include "partita/partitioning/units.h"

namespace partita::partitioning {

struct BranchOptions {
  bool contiguous = false;
  long long cuts = 0;  // minimum cuts to compute, at most
  double below = std::numeric_limits<double>::infinity();
  std::function<void()> progress;  // now and then
};

struct BranchResult {
  std::optional<std::vector<int>> split;  // better than `below`
  // No split has a smaller max-load than the smaller of this and that of `split` (of `below` without one). Infinite if
  // the tree was searched to its end.
  double bound = 0;
};

BranchResult branch_and_bound(const Units& units, const BranchOptions& options, const Watch& watch);

}  // namespace partita::partitioning

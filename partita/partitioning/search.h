// Searches for a small max-load locally: simulated annealing over moves of one unit to another device and swaps of two.
// The energy is a power mean of the loads, so that the largest counts most and others still count; at the end the
// max-load itself does. Memory and support are kept throughout, contiguity too on request.
#pragma once
#include "partita/base/watch.h"
#include "partita/partitioning/units.h"

namespace partita::partitioning {

struct SearchOptions {
  bool contiguous = false;
  uint64_t seed = 0;
  int moves = 0;                   // to try
  double hot = 0.02, cold = 1e-5;  // temperatures at the start and at the end, as parts of the max-load
};

// Returns the best split met from `device` (of each unit), an allowed one; never worse than it.
std::vector<int> anneal_split(const Units& units, std::vector<int> device, const SearchOptions& options,
                              const Watch& watch);

// Returns an allowed split that ignores communication: heavy units first, each where the load stays least. Nothing if
// that fails.
std::optional<std::vector<int>> heaviest_first(const Units& units, bool contiguous);

}  // namespace partita::partitioning

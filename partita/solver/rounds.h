// Solves one network in rounds. It is reduced without loss, then the dual runs beside local search, with elimination,
// narrowing, steps and cores in between. (portfolio.cc lists a round's stages.)
//
// Example: x, y in {0, 1}, costs_x = (0, 3), costs_y = (0, 0), and a pair that costs 5 if x and y are equal. Reduction
// takes x, which has one neighbour, into y: costs_y = (min(0 + 5, 3 + 0), min(0 + 0, 3 + 5)) = (3, 0). The dual's first
// pass proves 0 for the rest, and y = 1 with x = 0 costs 0: the rounds end with kOptimal.
#pragma once
#include "partita/solver/solver.h"
#include "partita/solver/subset.h"

namespace partita::solver {

// The purpose of a solve: the network itself, a better solution of a network that it is a folding of, or a core. Only
// the first has a bound; the other two give up after some rounds without a better solution.
enum class Purpose { kItself, kFolded, kCore };

Result solve_reduced(const Network& network, const Options& options, Purpose what = Purpose::kItself);

// Solves a network by its narrowed rest, which holds everything that costs less than `cost`, the cost of a known
// solution. The solution is the whole network's. Without a certificate.
Result solve_rest(const Subset& rest, const Options& options, Purpose what, Wide cost);

}  // namespace partita::solver

// Solves one network in rounds: reduced without loss, then the dual beside local search, with elimination, narrowing,
// steps and cores in between (portfolio.cc lists what a round does).
//
// Example: x, y in {0, 1}, costs_x = (0, 3), costs_y = (0, 0), and a pair that costs 5 where x and y are equal.
// Reduction takes x, which has one neighbour, into y: costs_y = (min(0 + 5, 3 + 0), min(0 + 0, 3 + 5)) = (3, 0). The
// dual's first pass proves 0 for what is left, and y = 1 with x = 0 costs 0: the rounds end with kOptimal.
#pragma once
#include "partita/solver/solver.h"
#include "partita/solver/subset.h"

namespace partita::solver {

// What a network is solved for: itself, or a better solution of one that it is a folding of, or the core. Only the
// first has a bound; the other two give up where no better solution is found for some rounds.
enum class For { kItself, kFolded, kCore };

Result solve_reduced(const Network& network, const Options& options, For what = For::kItself);

// Solves a network by what narrowing has left of it, in which there is everything that costs less than `cost`, the cost
// of a known solution. The solution is the whole network's. Without a certificate.
Result solve_rest(const Subset& rest, const Options& options, For what, Wide cost);

}  // namespace partita::solver

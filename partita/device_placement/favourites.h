// Favourite children (Hanen and Munier 1995; Baechi, Jeon et al. 2020, section 3.3): of what reads an operation's
// results one at most, which begins on its device as soon as it ends, while the others wait for a transfer.
//
// The linear program: the end w is minimised, with w >= s_i + p_i, and for each edge s_j >= s_i + p_i + c_ij x_ij,
// 0 <= x_ij <= 1. Of an operation's edges to children, and of those to its parents, all but one are paid: the sum of
// x is at least their number less one. p is the time where an operation is fastest, c that of all values between the
// two on the fastest way. An edge between what no device runs both is paid, and one of a group or of order alone costs
// nothing: neither is counted. j is i's favourite where x_ij < 0.1; since two such of one operation would leave a sum
// that is too small, there is one at most, and j is nobody else's.
//
// Example: a (2 ns), then b (6 ns) and c (2 ns), 3 ns away. With x_ab = 0 and x_ac = 1 the end is 8 ns, and nothing
// else is as short: b is a's favourite.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/base/watch.h"
#include "partita/device_placement/problem.h"

namespace partita {

struct FavouriteChildren {
  std::vector<int> child;  // by operation; -1: none
  double relaxed_ns = 0;   // w
};

// By the solver CBC (cbc.h). Throws where there is none, or where it does not come to an end in so many seconds.
FavouriteChildren favourite_children(const PlacementProblem& problem, double seconds, const Watch& watch);

}  // namespace partita

// Chooses favourite children (Hanen and Munier 1995; Baechi, Jeon et al. 2020, section 3.3) for m-SCT. An operation has
// one at most: a reader that begins on its device as soon as it ends, while others wait for a transfer.
//
// The linear program minimises the end w, with w >= s_i + p_i, and for each edge s_j >= s_i + p_i + c_ij x_ij, 0 <=
// x_ij <= 1. All but one of an operation's edges to children are paid, and all but one of those to its parents: the sum
// of x is at least their number less one. p is the time of an operation on its fastest device, c that of all values
// between the two on the fastest route. An edge whose ends no device can both run is paid, and one of a group or of
// order alone costs nothing: neither is counted. j is i's favourite if x_ij < 0.1. Two such of one operation would
// leave too small a sum, so there is one at most, and j is nobody else's.
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

// Solves it by CBC (cbc.h). Throws if there is no CBC, or if it does not end in `seconds`.
FavouriteChildren favourite_children(const PlacementProblem& problem, double seconds, const Watch& watch);

}  // namespace partita

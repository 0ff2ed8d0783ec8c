// Fuses several assignments into one that is no dearer than any (Lempitsky, Rother, Roth and Blake, Fusion moves for
// Markov random field optimization, 2010). Each variable takes its value from one of them, all at once the best, by
// elimination.
//
// Example: on a chain of ten variables one assignment is best on the first half, another on the second. Fused, each
// variable has at most two values left, tables have at most four entries, and the result takes the better half of each.
#pragma once
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

// Returns the best mixture without the limit. Empty if elimination would take long, or all mixtures are forbidden.
std::optional<Assignment> fuse_assignments(const Network& network, const std::vector<Assignment>& assignments);

}  // namespace partita::solver

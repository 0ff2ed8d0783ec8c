// Several assignments made into one that is no dearer than any (Lempitsky, Rother, Roth and Blake, Fusion moves for
// Markov random field optimization, 2010): each variable takes its value from one of them, all at once the best, by
// elimination.
//
// Example: on a chain of ten variables one assignment is best on the first half, another on the second. Fused, each
// variable has two values left at most, tables have at most four entries, and the result takes the better half of each.
#pragma once
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

// The best without the limit. Empty where elimination would take long, or all that can be made of them is forbidden.
std::optional<Assignment> fused(const Network& network, const std::vector<Assignment>& assignments);

}  // namespace partita::solver

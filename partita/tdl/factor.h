// Factors axes (rule 4).
#pragma once
#include "partita/tdl/tdl.h"

namespace partita::tdl {

// Gives each tensor the axes that the formula sees. An axis becomes its digits if one access of it is a mixed-radix
// number that fills it, and all others split the same way. Every access then reads digits.
void factor_axes(Bound& bound);
// The formula with every tensor's axes as stored, each read at one subscript.
Bound as_stored(const Bound& bound);

}  // namespace partita::tdl

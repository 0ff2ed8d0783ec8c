// Factors axes (rule 4).
#pragma once
#include "partita/tdl/tdl.h"

namespace partita::tdl {

// Gives each tensor the axes that the formula sees. If one access of an axis is a mixed-radix number that fills it and
// all others split the same way, the axis becomes its digits, and every access reads digits.
void factor_axes(Bound& bound);
// The formula with every tensor's axes as stored, each read at one subscript.
Bound as_stored(const Bound& bound);

}  // namespace partita::tdl

// Finds the operands that a kernel without products reads twice. Such a kernel takes statistics over more than a
// multiprocessor holds, and then scales the same values with them. Several statistics of the same values are one pass,
// as means with variances are (Welford, Technometrics 1962).
//
// Example: batch norm of x [n, c, s] takes the mean and variance of each channel over n and s, and then reads x again;
// layer norm keeps its row.
#pragma once
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita {

struct SecondPass {
  int operand = -1;          // a position in Bound::tensors
  std::vector<int> indices;  // of the operand that is read twice: it has an element for each of their values
  std::vector<int> reduced;  // those over which the statistics are: so long are the rows
};
struct SecondPasses {
  std::vector<SecondPass> operands;
  std::vector<std::vector<int>> touched;  // indices of all operands that are read, and of all results
};
SecondPasses second_passes(const tdl::Bound& bound, int first, int last);

// Returns the elements that are read again, as a fraction of all that are read and written.
double part_read_again(const SecondPasses& passes, const std::vector<Interval>& ranges);

}  // namespace partita

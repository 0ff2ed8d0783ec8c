// Which tensors of a formula are multiplied as matrices are.
#pragma once
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

// The tensors that stages [first, last) multiply as matrices, ascending. Two factors under a sum are matrices if they
// share an index which is summed, and each has an index that the other lacks: every value of both is used several
// times. Products, convolutions and both products of attention have them; norms, softmax and dot products of rows do
// not.
std::vector<int> matrix_operands(const Bound& bound, int first, int last);

}  // namespace partita::tdl

// Finds the parts of a formula that are matrix products, for costs and rules.
#pragma once
#include <set>
#include <vector>

#include "partita/tdl/tdl.h"

namespace partita::tdl {

// The tensors that stages [first, last) multiply as matrices, ascending. Two factors under a sum are matrices if they
// share a summed index, and each has an index that the other lacks. So every value of both is used several times.
// Products, convolutions and both products of attention have them; norms, softmax and dot products of rows do not.
std::vector<int> matrix_operands(const Bound& bound, int first, int last);

// A product [batch, m, k] x [batch, k, n], by the indices whose extents multiply to each. batch are the result's
// indices that both factors have or neither, m those that the first alone has, n the second's, k the summed ones. An
// index that data determine has one value for each point and is left out. Example: a convolution x[c, y + r] * w[o, c,
// r] summed over c and r has m = y, n = o and k = c r.
struct MatrixProduct {
  int stage = 0;
  std::vector<int> batch, m, n, k;
  // For either factor and the result: the index along which neighbours are adjacent in memory. It is that of the last
  // axis longer than one. For images, which are read at sums of indices and lie with channels last, it is that of axis
  // 1. A tensor is left out if that axis is at no plain index.
  std::vector<int> innermost;
};
// Lists the products of stages [first, last), in order.
std::vector<MatrixProduct> matrix_products(const Bound& bound, int first, int last);

// The indices of all of a tensor's subscripts.
std::set<int> indices_of(const std::vector<Affine>& subscripts);
// The number of values that these indices have together.
double count_points(const std::vector<int>& indices, const std::vector<Interval>& ranges);

// The points that a stage goes over, guards aside: stage_flops() of some ranges is at most `operations` for each point
// of `indices`.
struct StagePoints {
  double operations = 0;
  std::vector<int> indices;
  double flops(const std::vector<Interval>& ranges) const;
};
StagePoints stage_points(const Stage& stage);
// Indices of a stage whose value data determine: `v` in `if(v == ids[n], ..)`.
std::vector<int> determined_indices(const Stage& stage);

}  // namespace partita::tdl

// Evaluates a bound formula point by point, as it is written (the reference evaluator). It is slow and obvious on
// purpose; kernels, sharded runs and folded constants are compared with it. Real values are float64. int64 and bool are
// exact; larger values saturate.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/tdl/tdl.h"

namespace partita::tdl {

// Dense and row-major. A factored axis is one axis or its radices alike: the elements lie in the same order.
struct Array {
  DType dtype = DType::kFloat64;
  Shape shape;
  std::vector<double> reals;  // of a float dtype
  std::vector<int64_t> ints;  // of int64 and bool
  // Real arrays that were computed with Evaluation::with_terms: per element, the sum of the absolute terms that it was
  // computed from, carried to first order through non-linear functions. Its rounding error is a small multiple of 2^-53
  // times this. Empty: |element|.
  std::vector<double> terms;

  double at(int64_t i) const { return is_float(dtype) ? reals[i] : static_cast<double>(ints[i]); }
  double term(int64_t i) const { return terms.empty() ? (at(i) < 0 ? -at(i) : at(i)) : terms[i]; }
};
Array real_array(Shape shape, std::vector<double> values);
Array int_array(Shape shape, std::vector<int64_t> values);

// A shard of a tensor: a box over its factored axes, and its elements.
struct Piece {
  Box box;
  Array data;  // shape == extents(box)
};
// The part of `whole` (a tensor of this factored shape) in `box`.
Piece piece_of(const Array& whole, const Shape& factored, const Box& box);
// Offset of a point of `box` in its elements.
int64_t offset_in(const Box& box, std::span<const int64_t> point);
// Calls f(point) for each point, the last axis fastest; once, with no coordinates, for a scalar.
void for_each_point(const Box& box, const std::function<void(std::span<const int64_t>)>& f);

// An opaque function: slices in, result out.
using OpaqueFunction = std::function<Array(const std::vector<Array>& slices)>;
using OpaqueRegistry = std::map<std::string, OpaqueFunction>;
// chol(a): the lower Cholesky factor of a symmetric positive definite matrix.
OpaqueRegistry standard_opaques();

struct Evaluation {
  const OpaqueRegistry* opaques = nullptr;
  bool with_terms = false;
  // If given: [tensor][offset in its factored shape], set to true for each value read.
  std::vector<std::vector<bool>>* reads = nullptr;
};

// rng(seed, n), rng(seed, step, n), rng(seed, stream, step, n): base/rng.h's philox_uniform, 0 for an argument that is
// not given.
double rng_value(std::span<const int64_t> arguments);

// Evaluates one stage over ranges (20). `pieces` has one entry a tensor, null if no piece of it is held. Reading
// outside a piece is our bug and throws. A read is out of range, and reads `else`, by the whole tensor's range. The
// result's box is the stage's box that the ranges own, which must be one box; its axes are all empty if they own
// nothing.
Piece evaluate_stage(const Bound& bound, int stage, const std::vector<Interval>& ranges,
                     const std::vector<const Piece*>& pieces, const Evaluation& options = {});

// Evaluates the whole formula: operands in order, results in order, both in their stored shapes. A result has the type
// that its formula gives it: bool of comparisons, int64 of integers, else float64.
std::vector<Array> evaluate(const Bound& bound, const std::vector<Array>& operands, const Evaluation& options = {});

}  // namespace partita::tdl

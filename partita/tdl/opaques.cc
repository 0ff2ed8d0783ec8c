// Computes opaque functions for the reference evaluator.
#include <cmath>

#include "partita/base/error.h"
#include "partita/tdl/evaluate.h"

namespace partita::tdl {
namespace {

Array cholesky(const std::vector<Array>& slices) {
  const Array& a = slices.at(0);
  if (a.shape.size() != 2 || a.shape[0] != a.shape[1]) fail("chol: a square matrix is needed, got shape {}", a.shape);
  int64_t n = a.shape[0];
  Array l = real_array(a.shape, std::vector<double>(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double s = a.at(i * n + j);
      for (int64_t k = 0; k < j; ++k) s -= l.reals[i * n + k] * l.reals[j * n + k];
      l.reals[i * n + j] = i == j ? std::sqrt(s) : s / l.reals[j * n + j];
    }
  return l;
}

}  // namespace

OpaqueRegistry standard_opaques() { return {{"chol", cholesky}}; }

}  // namespace partita::tdl

// The brute-force judge of strategies: runs every position of a derived strategy on nothing but the parts it was
// promised, does the conversions and fetches between stages, puts the results together and compares them with the
// unsharded formula. Shares no code with the derivation. Linked by tests only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "partita/tdl/evaluate.h"

namespace partita::tdl::testing {

// A region that is larger than the hull of what was read from it. Legitimate where data or a guard decide.
struct Loose {
  int position;
  int tensor;
  Box region;
  Box read;  // empty axes: nothing was
};

struct CheckResult {
  std::string wrong;         // empty: the strategy is right
  std::vector<Loose> loose;  // operands' regions
};

// An operand that the strategy takes as partial is decomposed at random (from the seed, with both signs) over its axes;
// copies along the other axes are equal. Results must agree to `tolerance` relative to the sum of absolute terms.
CheckResult check(const Bound& bound, const Derived& derived, const std::vector<Array>& operands, uint64_t seed,
                  double tolerance = 1e-11);

// The first element in which two arrays differ by more than tolerance * (the sum of absolute terms of `expected`), as
// text; empty if there is none. NaN equals NaN.
std::string difference(const Array& got, const Array& expected, double tolerance);

}  // namespace partita::tdl::testing

// Checks strategies by brute force. It runs every position of a derived strategy on nothing but its promised shards,
// with the conversions and fetches between stages. It assembles the results and compares them with the unsharded
// formula. It shares no code with the derivation. Only tests link it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "partita/tdl/evaluate.h"

namespace partita::tdl::testing {

// A region that is larger than the hull of the reads from it. Legitimate if data or a guard decide.
struct Loose {
  int position;
  int tensor;
  Box region;
  Box read;  // empty axes: nothing was read
};

struct CheckResult {
  std::string wrong;         // empty: the strategy is right
  std::vector<Loose> loose;  // operands' regions
};

// Runs stages [first, last) over ranges and returns their pieces of the tensors in `wanted`, in that order. `pieces` as
// for evaluate_stage. There is no inner step between these stages.
using StagesRunner =
    std::function<std::vector<Piece>(int first, int last, const std::vector<Interval>& ranges,
                                     const std::vector<const Piece*>& pieces, const std::vector<int>& wanted)>;

// Checks one strategy. An operand that the strategy takes as partial is decomposed at random (from the seed, with both
// signs) over its axes. Copies along the other axes are equal. Results must agree to `tolerance` relative to the sum of
// absolute terms. A runner, if given, computes the stages in place of the reference evaluator. Its reads are not known,
// so no region is called loose.
CheckResult check(const Bound& bound, const Derived& derived, const std::vector<Array>& operands, uint64_t seed,
                  double tolerance = 1e-11, const StagesRunner& runner = {});

// The first element in which two arrays differ by more than tolerance * (the sum of absolute terms of `expected`), as
// text; empty if there is none. NaN equals NaN.
std::string difference(const Array& got, const Array& expected, double tolerance);

}  // namespace partita::tdl::testing

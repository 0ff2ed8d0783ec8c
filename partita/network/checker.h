// Holds the checker's view of a network, and declares its computations on a certificate, piece by piece. Internal to
// partita/network: others use certificate.h, which has these functions' formulas. The checker shares nothing with the
// solver.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "partita/base/error.h"
#include "partita/network/certificate.h"

namespace partita::solver {

using Allowed = std::vector<std::vector<char>>;  // [variable][value]

// Sums of 128 bits. They throw if they overflow.
[[noreturn]] void fail_too_large();
inline Wide checked_sum(Wide a, Wide b) {
  Wide sum;
  if (__builtin_add_overflow(a, b, &sum)) fail_too_large();
  return sum;
}
inline Wide checked_difference(Wide a, Wide b) {
  Wide difference;
  if (__builtin_sub_overflow(a, b, &difference)) fail_too_large();
  return difference;
}
inline Wide checked_product(Wide a, Wide b) {
  Wide product;
  if (__builtin_mul_overflow(a, b, &product)) fail_too_large();
  return product;
}

// All edges over one set of variables.
struct Factor {
  std::vector<int> variables;  // ascending
  struct Part {
    const Table* table = nullptr;
    std::vector<size_t> strides;  // [place in `variables`]
  };
  std::vector<Part> parts;
  bool is_pair() const { return variables.size() == 2; }
};

// A network as factors, and the values that the steps so far have left.
struct CheckedNetwork {
  // Throws (bad input) as validate() does. `network` must stay.
  explicit CheckedNetwork(const Network& network);

  const Network& network;
  std::vector<Factor> factors;
  std::map<std::vector<int>, size_t> number_of;  // a factor's variables -> which
  std::vector<std::vector<int>> factors_of;      // [variable]
  Wide most = 0;                                 // no solution costs more
  Allowed left;                                  // by steps
  Allowed beaten;                                // values left out because they cost the claimed bound
};

// ------------------------------------------------------------------ checker_network.cc

// A factor's cost; empty if it is forbidden. `values`: of its variables.
inline std::optional<Wide> factor_cost(const Factor& factor, const std::vector<int>& values) {
  Wide cost = 0;
  for (const Factor::Part& part : factor.parts) {
    size_t at = 0;
    for (size_t i = 0; i < values.size(); ++i) at += part.strides[i] * static_cast<size_t>(values[i]);
    if ((*part.table)[at] >= kForbidden) return std::nullopt;
    cost += (*part.table)[at];
  }
  return cost;
}
// Leaves out values that no solution within `allowed` can take; false if a variable is left without a value.
bool narrow_allowed(const CheckedNetwork& checked, Allowed& allowed);

// Calls f(values, cost) for every combination of allowed values of a factor that takes nothing forbidden, until f
// returns false. The variable at `fixed_place` has `fixed_value`; -1: none is fixed.
template <typename F>
void for_each_combination(const Factor& factor, const Allowed& allowed, int fixed_place, int fixed_value, F&& f) {
  const size_t count = factor.variables.size();
  std::vector<int> values(count), next(count, 0);
  auto first = [&](size_t i, int from) {
    const std::vector<char>& row = allowed[factor.variables[i]];
    if (static_cast<int>(i) == fixed_place) return from <= fixed_value && row[fixed_value] ? fixed_value : -1;
    while (from < static_cast<int>(row.size()) && !row[from]) ++from;
    return from < static_cast<int>(row.size()) ? from : -1;
  };
  size_t depth = 0;
  while (true) {
    const int value = first(depth, next[depth]);
    if (value < 0) {
      if (depth-- == 0) return;
      continue;
    }
    values[depth] = value;
    next[depth] = value + 1;
    if (depth + 1 < count) {
      next[++depth] = 0;
      continue;
    }
    if (const auto cost = factor_cost(factor, values); cost && !f(values, *cost)) return;
  }
}

// ------------------------------------------------------------------ checker_messages.cc

// The costs after a leaf's messages and multipliers.
struct Reparametrised {
  std::vector<std::vector<Wide>> unary;               // [variable][value]: scaled, with messages and priced uses
  std::vector<const Certificate::Message*> messages;  // [factor]; null: none
  Wide besides = 0;                                   // less the multipliers times the limit
};
// Whether factors over one variable are added to the unaries, or stay as they are.
enum class Singles { kAdded, kLeft };
Reparametrised reparametrise(const CheckedNetwork& checked, const Certificate::Leaf& leaf, const Allowed& allowed,
                             Singles);

// The least of a factor over two variables or more, less its messages; 0 if nothing is allowed.
Wide least_cost(const Factor& factor, const Allowed& allowed, const Certificate::Message* message, int64_t scale);
// The least of a variable's costs; empty if no value is allowed.
std::optional<Wide> least_cost(const std::vector<Wide>& costs, const std::vector<char>& allowed);

// ------------------------------------------------------------------ checker_steps.cc

// Leaves out a step's values, given the claimed bound.
void apply_step(CheckedNetwork& checked, const Certificate::Step& step, Wide claimed);

// ------------------------------------------------------------------ checker_elimination.cc

// The least sum of all variables' and factors' costs by variable elimination; empty if every assignment takes something
// forbidden. `unary`: with the factors over one variable.
std::optional<Wide> least_by_elimination(const CheckedNetwork& checked, const std::vector<int>& order,
                                         const std::vector<std::vector<Wide>>& unary, const Allowed& allowed,
                                         int64_t scale);

// ------------------------------------------------------------------ checker_parts.cc

// The bound that the parts of a certificate prove, which are themselves proved `depth` parts deep.
Wide bound_of_parts(const CheckedNetwork& checked, const Certificate& certificate, int depth);
// Does check() for a certificate `depth` parts deep.
std::optional<Wide> check_at_depth(const Network& network, const Certificate& certificate, int depth);

}  // namespace partita::solver

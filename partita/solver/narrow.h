// Reduced cost fixing: values that cost too much to be part of anything better are left out, and what is left is a
// network of its own.
//
// Example: a dual proves that nothing costs less than 90, and the best solution costs 100. Dual::least_costs() has 90,
// 104 and 97 for the values of a variable: what takes the second costs 104 at least, so at_most(100, ..) leaves the
// first and the third. left_of() makes a network of such values; a solution that takes others keeps those too.
#pragma once
#include <optional>

#include "partita/solver/model.h"
#include "partita/solver/solver.h"
#include "partita/solver/subset.h"

namespace partita::solver {

// A lower bound of the whole, by what Dual::least_costs() says: every solution takes some value of the first variable.
double bound_of(const Model& model, const std::vector<double>& least_costs);
// The values that cost at most so much by Dual::least_costs().
Alive at_most(double cost, const std::vector<double>& least_costs);
// The network with these values only, and those of the solution, if there is one.
Subset left_of(const Network& network, const Model& model, const Alive& alive,
               const std::optional<Assignment>& solution);
// The same where that leaves little (Tuning::little) of it, which is then told; empty elsewhere.
std::optional<Subset> little_of(const Network& network, const Model& model, const Alive& alive,
                                const Assignment& solution, const Options& options);

// How far a sum of a model's costs, or a bound of its dual, can be from the truth by rounding: as many roundings as
// there are terms, each of all that the terms can come to.
class Rounding {
 public:
  explicit Rounding(const Model& model);
  // For a bound with prices of that sum.
  double at(double prices) const { return factor_ * (costs_ + prices * use_); }

 private:
  double factor_ = 0, costs_ = 0;
  double use_ = 0;  // the most that can be in use at a time, and the limit
};

}  // namespace partita::solver

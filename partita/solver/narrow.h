// Fixes by reduced cost: leaves out values that cost too much to be part of anything better, and makes a network of the
// rest.
//
// Example: a dual proves that nothing costs less than 90, and the best solution costs 100. Dual::least_costs() has 90,
// 104 and 97 for the values of a variable. Solutions with the second cost 104 at least, so values_within_cost(100, ..)
// leaves the first and the third. subset_of_alive() makes a network of such values; a solution that takes others keeps
// those too.
#pragma once
#include <optional>

#include "partita/solver/model.h"
#include "partita/solver/solver.h"
#include "partita/solver/subset.h"

namespace partita::solver {

// A lower bound of the whole from Dual::least_costs(): every solution takes some value of the first variable.
double bound_from_least_costs(const Model& model, const std::vector<double>& least_costs);
// The values that cost at most this by Dual::least_costs().
Alive values_within_cost(double cost, const std::vector<double>& least_costs);
// The network with these values only, and those of the solution, if there is one.
Subset subset_of_alive(const Network& network, const Model& model, const Alive& alive,
                       const std::optional<Assignment>& solution);
// The same if that leaves little (Tuning::little) of it, which is then told; else empty.
std::optional<Subset> small_subset_of_alive(const Network& network, const Model& model, const Alive& alive,
                                            const Assignment& solution, const Options& options);

// Bounds the rounding error of a sum of a model's costs, or of a bound of its dual. There are as many roundings as
// terms, each of the largest total of the terms.
class Rounding {
 public:
  explicit Rounding(const Model& model);
  // The error of a bound with prices of that sum.
  double at(double prices) const { return factor_ * (costs_ + prices * use_); }

 private:
  double factor_ = 0, costs_ = 0;
  double use_ = 0;  // the most use at one time, and the limit
};

}  // namespace partita::solver

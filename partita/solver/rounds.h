// What solve() solves by itself: one network, reduced, in rounds of the dual beside local search, and what is left of
// it when its values are narrowed down.
#pragma once
#include "partita/solver/model.h"
#include "partita/solver/solver.h"
#include "partita/solver/subset.h"

namespace partita::solver {

// What a network is solved for: itself, or a better solution of one that it is a folding of, or the core.
enum class For { kItself, kFolded, kCore };

Result solve_reduced(const Network& network, const Options& options, For what = For::kItself);
// Solves a network by what is left of it: there is everything that costs less than `cost`, which some solution has.
// Without a certificate.
Result solve_rest(const Subset& rest, const Options& options, For what, Wide cost);

// What is left of the time, that much of it.
std::optional<std::chrono::steady_clock::time_point> share_of_time(const Options& options, double share);

// What Dual::least_costs() say of all: some value of the first variable is taken.
double bound_of(const Model& model, const std::vector<double>& least_costs);
// The values that cost at most so much by Dual::least_costs().
Alive at_most(double cost, const std::vector<double>& least_costs);
// A network with these values only, and those of a solution, if there is one.
Subset left_of(const Network& network, const Model& model, const Alive& alive,
               const std::optional<Assignment>& solution);
// The same where that is so little that it is worth a network of its own, which is then told.
inline constexpr double kLittle = 0.5;  // of the table entries
std::optional<Subset> little_of(const Network& network, const Model& model, const Alive& alive,
                                const Assignment& solution, const Options& options);
// How far sums of a model's costs, or what its dual says at prices of that sum, can be from the truth: as many
// roundings as there are terms, each of what all of them can come to.
class Rounding {
 public:
  explicit Rounding(const Model& model);
  double at(double prices) const { return factor_ * (costs_ + prices * use_); }

 private:
  double factor_ = 0, costs_ = 0;
  double use_ = 0;  // all that can be used at a time, and the limit
};

}  // namespace partita::solver

// Finds solutions by restarts of local search: in turn from the dual's beliefs, from its choice, and from the best so
// far. Each makes forest moves under the dual's prices, repairs the limit, then sets blocks within the limit (blocks.h)
// until they bring next to nothing.
//
// Example: advance(1'000'000, ..) on a network of 50,000 table entries. The first start takes the values of least use,
// and gives that to `found` if nothing is forbidden. The second begins with the cheapest values by each variable's own
// messages. It makes 12 forest moves, then up to 60 rounds of prices until the limit holds, then blocks of up to 40
// variables.
#pragma once
#include "partita/solver/blocks.h"

namespace partita::solver {

class Primal {
 public:
  // `model` and `alive` (propagated) must stay.
  Primal(const Model& model, const Alive& alive, uint64_t seed);

  // Sets the starts of restarts: a choice made one variable beside the other, and one made for each variable alone.
  void guide(const Assignment& choice, const Assignment& believed, const std::vector<double>& prices);
  void best(const Assignment& solution) { best_ = solution; }

  // Works for about `work` table entries. `found` gets every feasible state that may be better than the earlier ones.
  void advance(int64_t work, const std::function<void(const Assignment&)>& found, const std::function<bool()>& stop);
  int64_t restarts() const { return restarts_; }

 private:
  enum class Phase { kStart, kDescend, kRepair, kPolish };
  void start();
  Assignment lean() const;
  Assignment reconciled(const Assignment& choice, const std::vector<double>& prices) const;

  const Model& model_;
  const Alive& alive_;
  Blocks blocks_;
  std::vector<int> by_degree_;  // variables with most neighbours first
  Assignment choice_, believed_, best_;
  std::vector<double> prices_;
  Phase phase_ = Phase::kStart;
  int moves_ = 0;         // left in this phase
  double mark_cost_ = 0;  // at the last check of polishing's progress
  int64_t mark_work_ = 0;
  int64_t restarts_ = 0;
};

}  // namespace partita::solver

// Branch and bound on the dual: the part of the space with the least bound is worked on until passes bring next to
// nothing. Then it is split at the variable whose choice is furthest from what the bound reckons with: that value, and
// all others. A part is closed once the judge says that it holds nothing better than the incumbent.
//
// Example: a triangle of variables in {0, 1} whose pairs cost 1 where their two are equal. Passes prove 0, the optimum
// is 1. Split at variable 0, each half has costs of 1 for the others where they take the same value as it, and the edge
// between the two: a tree, where passes prove 1. Both close beside an incumbent of 1.
#pragma once
#include <functional>
#include <list>

#include "partita/solver/dual.h"

namespace partita::solver {

class Branch {
 public:
  // `alive` is what propagate() left of the model. All must stay. The dual begins with `messages`, if there are any.
  Branch(const Model& model, const LeafJudge& judge, const Alive& alive, const Certificate::Leaf* messages = nullptr);

  // Works for about `work` table entries, at least for one pass. `incumbent`: the cost that a solution must be better
  // than. `found` is given what passes choose, and returns the incumbent then.
  void advance(int64_t work, std::optional<Wide> incumbent,
               const std::function<std::optional<Wide>(const Assignment&)>& found, const std::function<bool()>& stop);
  // No part is open any more: the incumbent is the optimum, or there is no solution where there is none.
  bool done() const { return open_.empty(); }
  size_t open_parts() const { return open_.size(); }
  // A lower bound, up to rounding.
  double bound() const;
  // The latest pass's choice, each variable's cheapest value by its own belief then, and the prices.
  const Assignment& rounded() const { return dual_.rounded(); }
  Assignment believed() const;
  const std::vector<double>& prices() const { return dual_.state().prices; }
  // The largest sum of prices that the bound, or the root's messages, reckon with.
  double most_prices() const;
  // A lower bound of the whole before it was split, up to rounding.
  double root_bound() const { return parts_ == 1 && !open_.empty() ? open_.front().bound : root_bound_; }
  // As Dual's, by what the root's messages say.
  std::vector<double> least_costs();
  int64_t parts() const { return parts_; }
  int64_t passes() const { return passes_; }
  int64_t work() const { return work_; }

  // Messages and multipliers of the whole, before it was split.
  Certificate::Leaf root() const { return dual_.leaf(root_state(), root_alive_); }
  // The proof as it stands: leaves of closed parts and of open ones, with the bound that the judge gives it.
  Certificate certificate() const;

 private:
  struct Part : Ascent {
    std::vector<Certificate::Decision> decisions;
    Alive alive;
  };
  using Parts = std::list<Part>;

  const Dual::State& root_state() const { return parts_ == 1 && !open_.empty() ? open_.front().state : root_; }
  void load(Parts::iterator part);
  void one_pass(Part& part, const std::optional<Wide>& incumbent);
  bool stalled(const Part& part) const;
  bool closes(const Part& part, const std::optional<Wide>& incumbent, bool must);
  void close(Parts::iterator part);
  bool split(Parts::iterator part);
  int branching_variable(const Part& part) const;

  const Model& m_;
  const LeafJudge& judge_;
  Dual dual_;
  Parts open_;
  Parts::iterator loaded_;
  std::vector<Certificate::Leaf> closed_;
  std::optional<Wide> closed_bound_;  // the least of theirs
  Alive root_alive_;
  Dual::State root_;  // once it is split, or closed
  double root_bound_ = -kInfinity;
  bool full_ = false;
  int64_t parts_ = 1, passes_ = 0, work_ = 0, stored_ = 0;
};

}  // namespace partita::solver

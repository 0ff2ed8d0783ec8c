// Branches and bounds on the dual. The part of the space with the least bound gets passes until they bring next to
// nothing. Then it is split at the variable whose choice is furthest from the bound's: that value, and all others. A
// part is closed once the checker proves that it holds nothing better than the incumbent.
//
// Example: a triangle of variables in {0, 1} whose pairs cost 1 if their two are equal. Passes prove 0, the optimum is
// 1. Split at variable 0, each half has costs of 1 for the others if they take the same value as it. With the edge
// between the two it is a tree, for which passes prove 1. Both close beside an incumbent of 1.
#pragma once
#include <functional>
#include <list>

#include "partita/solver/dual.h"

namespace partita::solver {

class Branch {
 public:
  // `alive` is the result of propagate() on the model. All arguments must stay. The dual begins with `messages`, if
  // there are any.
  Branch(const Model& model, const LeafChecker& checker, const Alive& alive,
         const Certificate::Leaf* messages = nullptr);

  // Works for about `work` table entries, at least for one pass. A solution must be better than cost `incumbent`.
  // `found` gets the passes' choices, and returns the new incumbent.
  void advance(int64_t work, std::optional<Wide> incumbent,
               const std::function<std::optional<Wide>(const Assignment&)>& found, const std::function<bool()>& stop);
  // No part is open any more: the incumbent is the optimum, or without one there is no solution.
  bool done() const { return open_.empty(); }
  size_t open_parts() const { return open_.size(); }
  // A lower bound, up to rounding.
  double bound() const;
  // The latest pass's choice, each variable's cheapest value by its own belief then, and the prices.
  const Assignment& rounded() const { return dual_.rounded(); }
  Assignment believed() const;
  const std::vector<double>& prices() const { return dual_.state().prices; }
  // The largest sum of prices in the bound, or in the root's messages.
  double most_prices() const;
  // A lower bound of the whole before it was split, up to rounding.
  double root_bound() const { return parts_ == 1 && !open_.empty() ? open_.front().bound : root_bound_; }
  // Dual::least_costs() of the root's messages.
  std::vector<double> least_costs();
  int64_t parts() const { return parts_; }
  int64_t passes() const { return passes_; }
  int64_t work() const { return work_; }

  // Messages and multipliers of the whole, before it was split.
  Certificate::Leaf root() const { return dual_.leaf(root_state(), root_alive_); }
  // The present proof: leaves of closed and of open parts, with the bound that the checker gives it.
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
  const LeafChecker& checker_;
  Dual dual_;
  Parts open_;
  Parts::iterator loaded_;
  std::vector<Certificate::Leaf> closed_;
  std::optional<Wide> closed_bound_;  // the least bound of a closed part
  Alive root_alive_;
  Dual::State root_;  // once it is split, or closed
  double root_bound_ = -kInfinity;
  bool full_ = false;
  int64_t parts_ = 1, passes_ = 0, work_ = 0, stored_ = 0;
};

}  // namespace partita::solver

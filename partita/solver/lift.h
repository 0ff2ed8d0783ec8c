// Lifts the dual of a folded network (fold.h) to the whole one (Mladenov, Ahmadi and Kersting, Lifted linear
// programming, 2012). Each of the edges that were folded into one gets its share of the messages. If all copies have
// the same surroundings, the bound is the same too; otherwise it is a good beginning.
//
// Edges over the same two variables stay apart here, since the edges folded into them may lie over different variables
// in the whole. A variable's outgoing message is shared out among all the edges that are folded into one.
//
// Example: 40 equal layers in a ring, folded into one. A pass reads one layer's tables; the edge to the next layer
// counts 40 times. of_whole() gives each of the 40 edges the same two messages. They prove the folded dual's bound for
// the whole, at a fortieth of the work.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "partita/network/certificate.h"
#include "partita/solver/dual.h"
#include "partita/solver/fold.h"
#include "partita/solver/subset.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

class LiftedDual {
 public:
  // `known`: the whole network's tables, as models have them. If `priced`, the limit counts at one time: the one with
  // most certain use.
  LiftedDual(Folding::Folded folded, PairTables& known, bool priced = true);
  const Folding::Folded& folded() const { return folded_; }
  // Takes the messages of a dual of the same network that is folded more.
  void begin(const LiftedDual& coarser);
  // Makes passes, `most` at most, until a few of them bring next to nothing (of the bound). If there is a limit, prices
  // move too, towards `best`, the cost of a solution. Returns the folded network's lower bound.
  double run(int most, std::optional<Wide> best, const std::function<bool()>& stop,
             double next_to_nothing = kTuning.lift.next_to_nothing);
  // The same over likely values only, then a few passes over all. Likely values cost least if one copy takes them;
  // together they have this share of the table entries. A solution's values (of the whole) are likely too. False, and
  // messages unchanged, if the bound has not risen by that, or if there is a limit.
  bool run_narrowed(double share, int most, const std::optional<Assignment>& solution,
                    const std::function<bool()>& stop);
  double prices() const { return dual_.state().all_prices(); }  // their sum
  const Model& model() const { return model_; }
  // Table entries of half a pass over the whole network.
  double sweep_of_whole() const;
  // Dual::least_costs() of the folded network.
  std::vector<double> least_costs() { return dual_.least_costs(); }
  // At most `most` values of each variable: those that cost least with all that the last pass knew of them.
  Alive likeliest(size_t most) const;
  // Leaves without decisions, for duals to begin with.
  Certificate::Leaf of_folded() const;
  Certificate::Leaf of_whole(const Network& whole) const;
  // A leaf for a network of some of the whole's edges, by their places there, without multipliers.
  Certificate::Leaf of_part(const Network& part, const std::vector<size_t>& whole_edges) const;
  // The message, by value, to the first or second variable of each edge of the whole that is folded into this one. Null
  // if there is none.
  const double* message(int folded_edge, int end) const;
  struct Priced {
    int64_t time = 0;
    double price = 0;
  };
  std::vector<Priced> priced_times() const;
  // The share of the whole network's table entries that may be in a better solution than one of this cost, as far as is
  // known here. Takes two passes.
  double left_of_whole(Wide cost);

 private:
  Certificate::Leaf leaf(const Network& network, const std::function<int(size_t edge)>& folded_edge, bool once) const;
  std::vector<double> least_costs_of_one();

  const Folding::Folded folded_;
  std::vector<int> pair_of_;  // [folded edge]; -1 unless it is over two variables
  const Model model_;
  Dual dual_;
  const Alive alive_;                                 // all
  int messages_first_ = kTuning.lift.messages_first;  // passes before prices move
  Ascent ascent_;
};

}  // namespace partita::solver

// Searches locally by blocks (tree-structured block coordinate descent). A block of variables that the network's pairs
// join to trees is set to its exact minimum while the others stay. If a block would break the limit at some time, uses
// at that time get a price, and it is set again.
//
// Example: a chain of three variables in {0, 1}. The value 0 costs 1 each, a pair costs 2 if its two differ. (0, 0, 0)
// costs 3, and no single change pays: it saves 1 and costs 2 or 4. The three are a tree, so they can be one block,
// whose minimum is (1, 1, 1) at 0.
#pragma once
#include <functional>

#include "partita/base/rng.h"
#include "partita/solver/model.h"
#include "partita/solver/profile.h"

namespace partita::solver {

class Blocks {
 public:
  // Values that are not alive are never taken; every variable has one that is. `model` must stay.
  Blocks(const Model& model, const Alive& alive, uint64_t seed);

  const Assignment& assignment() const { return x_; }
  double cost() const { return cost_; }  // forbidden costs count as a large penalty
  double penalty() const { return penalty_; }
  bool feasible() const { return cost_ < penalty_ / 2 && (!m_.limited || profile_.most() <= m_.limit); }
  int64_t work() const { return work_; }  // table entries read

  void set(const Assignment& x);
  // Prices of a unit of use, per kept time, for moves.
  void set_prices(const std::vector<double>& prices);
  // Sets one random forest that spans as much of the network as it can to its minimum, prices included, the limit not.
  void forest_move();
  // Makes forest moves, while prices rise at times that break the limit and fall at others, from the set prices. Stops
  // at the first feasible state, after `rounds`, or when told to.
  bool find_feasible(int rounds, const std::function<bool()>& stop);
  // Improves a feasible state by blocks of up to `size` variables, until `work` entries have been read. A block may
  // make the cost worse by less than `tolerance`.
  void improve(int size, int64_t work, double tolerance, const std::function<bool()>& stop);

 private:
  struct Member {
    int variable = 0;
    int parent = -1;      // member
    Model::Neighbour up;  // towards the parent
    size_t at = 0;        // of its beliefs
  };
  struct Overlay {
    int time = 0;
    double price = 0;
  };

  double price(int v, int x) const;
  PairView view(const Model::Neighbour& n) const;  // of the softened table
  double pair_cost(const Model::Neighbour& n, int own, int other) const;
  void start_block();
  void join(int v, int parent, const Model::Neighbour& up);
  void grow(int seed, size_t size);
  int companion();
  void fill_base(double price_weight);
  void minimise(const std::vector<Overlay>& overlay);
  template <typename V>
  void minimise_by(const std::vector<Overlay>& overlay);  // vectors.h
  void minimise_wide(const std::vector<Overlay>& overlay);
  void minimise_halved(const std::vector<Overlay>& overlay);
  double change() const;
  void load(int sign);
  bool try_block(double price_weight, double tolerance);

  const Model& m_;
  std::vector<double> unary_;
  std::vector<std::shared_ptr<const PairTable>> tables_;  // forbidden pairs cost a penalty
  double penalty_ = 1;
  Rng rng_;
  Assignment x_;
  double cost_ = 0;
  Profile profile_;
  std::vector<double> prices_, price_sums_;
  int64_t work_ = 0;

  // The current block.
  std::vector<Member> members_;           // parents first
  std::vector<int> member_of_, touched_;  // [variable]: its member or -1; how many members it neighbours
  std::vector<int> touched_list_;
  std::vector<std::pair<int, Model::Neighbour>> frontier_;  // (member, the way from the candidate to it)
  std::vector<double> base_, belief_, scratch_;
  std::vector<int> choice_;  // [member]
};

}  // namespace partita::solver

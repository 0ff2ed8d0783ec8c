// Settles one tensor and one op after another, in one step over all devices, for greedy searches.
//
// Worked example: variables are t (values S(0), S(1)) and op (values i, j). The pair costs 0 if they agree, else 10
// bytes; op's own costs are i: 3, j: 0. settle_best(t) finds S(0) at min(0 + 3, 10 + 0) = 3 and S(1) at 0, and takes
// S(1). settle_best(op) then finds i at 13 and j at 0, and takes j.
#pragma once
#include <functional>

#include "partita/search/cuts/one_cut.h"

namespace partita {

// Variables of a network that are given values one by one.
class Settling {
 public:
  explicit Settling(const CostNetwork& network);
  void settle(int v, int value);  // does nothing if it has a value
  // Settles it at its cheapest value: its own cost, that of its pairs with settled variables, and the least cost of
  // each other neighbour beside all settled variables around that one. The first of equals.
  void settle_best(int v);
  const std::vector<int>& around(int v) const { return around_[v]; }  // ascending
  const std::vector<int>& values() const { return value_; }           // -1: none yet

 private:
  Cost cost(int v, int x) const;  // with the settled variables

  const CostNetwork& network_;
  std::vector<std::vector<const CostNetwork::Pair*>> pairs_;
  std::vector<std::vector<int>> around_;
  std::vector<int> value_;
};

// Searches one cut; `settle` gives every variable of it its value.
SearchResult one_step_greedily(const Problem& problem, const Budget& budget, const CutSpace& space,
                               const std::function<void(const Cuts&, Settling&)>& settle);

}  // namespace partita

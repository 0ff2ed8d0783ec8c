// Orders the elimination of variables, for every search and solver that eliminates. Eliminating a variable makes a
// table over its neighbours, which then are neighbours of each other (fill-in; the elimination game). The order is
// greedy by the smallest next table (min-weight).
//
// Example: a chain 0 - 1 - 2 of domains 2, 8 and 4. Eliminating 0 makes a table of 8 entries, 1 one of 2 x 4 = 8 and
// 2 one of 8: next() is 0. After eliminate(0), variable 1 has the neighbour 2 alone, and its table 4 entries.
#pragma once
#include <set>
#include <utility>
#include <vector>

namespace partita {

class EliminationGame {
 public:
  // Takes the sizes of the variables' domains, and each variable's neighbours (symmetric, none its own).
  EliminationGame(const std::vector<int>& domains, std::vector<std::set<int>> neighbours);

  bool done() const { return queue_.empty(); }
  // The variable whose table is smallest, ties by index.
  int next() const { return queue_.begin()->second; }
  double table_bits(int v) const { return bits_[v]; }  // log2 of the entries of the table that eliminating v makes
  const std::set<int>& neighbours(int v) const { return neighbours_[v]; }
  const std::set<std::pair<double, int>>& left() const { return queue_; }  // (table_bits, variable)

  void eliminate(int v) { take(v, true); }
  void remove(int v) { take(v, false); }  // as if it had one value: its neighbours are not joined

 private:
  void take(int v, bool join);
  std::vector<double> domain_bits_, bits_;
  std::vector<std::set<int>> neighbours_;
  std::set<std::pair<double, int>> queue_;
};

}  // namespace partita

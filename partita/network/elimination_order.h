// The elimination game: eliminating a variable makes a table over its neighbours, which are neighbours of each other
// from then on (fill-in). Played greedily by the smallest next table (min-weight), for every search and solver that
// eliminates.
#pragma once
#include <set>
#include <utility>
#include <vector>

namespace partita {

class EliminationGame {
 public:
  // Sizes of the variables' domains, and who is beside whom (symmetric, nobody beside itself).
  EliminationGame(std::vector<int> domains, std::vector<std::set<int>> neighbours);

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

// Merges variables that others decide into those. If each value of a variable a leaves one value of its neighbour b, b
// is no choice of its own. A chain of such pairs, as of operations that must be laid out like their operands, becomes
// one variable.
//
// Example:
//   given   a, b in {0, 1, 2}, a pair that allows (0, 2), (1, 0) and (2, 1) alone, and a pair of b and c
//   merged  a in {0, 1, 2} with costs_a(x) + costs_b(f(x)) + pair(x, f(x)), where f = (2, 0, 1); a pair of a and c;
//           the uses of a and b
//
// The optimum is the same. Bounds of the merged network hold for the original, but its leaves prove nothing there.
// Pairs that become parallel are summed up, and messages cannot be separated again.
#pragma once
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

class Merging {
 public:
  // Variables of edges over more than two stay. A variable joins another only if that makes no more table entries.
  // `network` must stay.
  explicit Merging(const Network& network);

  int merged() const { return merged_; }           // how many variables went into another one
  bool infeasible() const { return infeasible_; }  // forbidden pairs leave some variable without a value
  Network network() const;                         // of the remaining variables, with the values that have partners
  Assignment lifted(const Assignment& of_merged) const;     // costs and uses the same
  Assignment lowered(const Assignment& of_original) const;  // the roots take its values; any value if that is gone

 private:
  // A variable's value for each value of its parent; -1 if that value is gone.
  struct Link {
    int parent = 0;
    std::vector<int> value;
  };
  void count_entries();
  const Link& root(int v);
  bool look_at(int e);
  bool look_within(int e, int root);
  bool leave_out(int v, const std::vector<int>& values);
  bool join(int below, int above, const std::vector<int>& value);
  bool may_join(int below, int above) const;
  int live(int v) const;
  void number();
  void add_costs(Network& merged) const;
  void add_edges(Network& merged) const;

  const Network& n_;
  std::vector<Link> links_;               // [variable]; a root is its own parent
  std::vector<std::vector<char>> there_;  // [root][value]
  std::vector<double> beside_;            // [root]: values of all neighbours
  std::vector<char> locked_;              // an edge over more than two variables names it
  std::vector<long> changed_, looked_;    // [root], [edge]: when
  long now_ = 1;
  int merged_ = 0;
  bool infeasible_ = false;

  std::vector<int> number_, original_;    // [variable]: of the merged network or -1; and back
  std::vector<std::vector<int>> values_;  // [merged variable]: its root's remaining values
};

}  // namespace partita::solver

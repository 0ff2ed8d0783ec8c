// Folds repeated parts of a network into one, so that a model of many equal layers becomes one of a few. Variables that
// look alike as far as some edges away get one value. A solution of the folded network is one of the whole, at the same
// cost and use. Whether there is anything cheaper, the folded one does not know.
//
// Colour refinement finds variables that are alike (Weisfeiler and Leman, 1968; Mladenov, Ahmadi and Kersting, Lifted
// linear programming, 2012), stopped after some rounds. Copies near the ends of a run differ in their surroundings;
// those in between do not.
//
// Example: a chain of 100 equal variables with equal tables. By their own costs there is one class. Refined once, the
// first and the last are separated from the 98 others (they have one neighbour): 3 classes. Refined twice, the second
// and the last but one too: 5. The folding of 3 classes has 3 variables, and the edge within the class of 98 counts 97
// times.
#pragma once
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

class Folding {
 public:
  // Variables of equal costs and amounts are alike at first. `network` must stay.
  explicit Folding(const Network& network);

  // Separates variables that differ one edge further away. False if there were none.
  bool refine();
  int classes() const { return classes_; }
  const std::vector<int>& class_of() const { return class_of_; }  // [variable]
  // A variable for each class.
  struct Folded {
    std::vector<int> class_of;   // [variable of the whole]
    Network once;                // if an edge stands for several over two variables, its table is one edge's
    std::vector<int> edge_of;    // [edge of the whole]
    std::vector<int64_t> times;  // [edge]: how many that is; 1 for others
    static Folded not_at_all(const Network& network);
    Assignment of_whole(const Assignment& of_once) const;
    // Gives each class the value of its first variable.
    Assignment of_folded(const Assignment& whole) const;
    // The folded network with each edge counted as often as it occurs. The second takes a network with the same edges
    // and fewer values.
    Network network() const { return with_times(once); }
    Network with_times(Network of_once) const;
  };
  // Costs that add up to kForbidden are forbidden.
  Folded folded() const;

 private:
  const Network* n_;
  std::vector<std::vector<int>> edges_of_;  // [variable]: an edge for each place in it, as edge * widest_ + place
  int widest_ = 2;                          // most variables of an edge
  std::vector<int> class_of_;               // [variable]; numbered in order of appearance
  int classes_ = 0;
};

}  // namespace partita::solver

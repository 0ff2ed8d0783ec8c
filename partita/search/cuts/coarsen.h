// Coarsens the network of one cut as Tofu does (section 5.1), for searches by cuts. Variables that choose together
// become one, and classes of one forward op, or of one forward tensor, become a group.
//
// Worked example: y = relu(x) with x, y of [4, 4] on a cut in two. The tilings of x, the strategies of relu and the
// tilings of y are three variables. An element-wise op ties them: one class, members {x, y, relu}, with the values
// (S(0), S(0), i) and (S(1), S(1), j). Its unary costs are the sums of theirs. The backward op of relu is element-wise
// too and reads x, so it joins the class with both gradients.
#pragma once
#include <vector>

#include "partita/search/cuts/one_cut.h"

namespace partita {

// Rules for the variables that choose together. Pinned ones choose alone.
struct CoarseningRules {
  bool elementwise = true;  // an element-wise op, its operands and its results: all split alike
  bool steps = true;        // ops of the same cell at several time steps, and their results
  bool gradients = false;   // a forward tensor and its gradient (ICML18's layers; Tofu lets them differ)
  bool clones = true;       // an op and its recompute clone (graph/recompute), as rules have it
};

struct Coarsened {
  std::vector<std::vector<int>> members;              // [class]: variables of the cut, the lowest first
  std::vector<std::vector<std::vector<int>>> values;  // [class][value]: of each member
  CostNetwork network;                                // of the classes: the costs of their values in the cut's network
  // [class]: forward ops and their backward ops are one group; so are tensors, their gradients, the additions that make
  // them, and classes tied to them. Groups are numbered by their first class.
  std::vector<int> group;
  int groups = 0;
  int merged_elementwise = 0, merged_steps = 0, merged_gradients = 0, merged_clones = 0;  // ties of two classes

  std::vector<int> expand(const std::vector<int>& classes) const;  // values of the cut's variables
};

// Coarsens a cut. A tie that would leave its variables no value is left out.
Coarsened coarsen(const Cuts& cuts, const OneCut& cut, const CoarseningRules& rules);
// Leaves every variable by itself; groups as above.
Coarsened uncoarsened(const Cuts& cuts, const OneCut& cut);

// Orders the elimination of classes. First come the ops that their tensors determine: the brute force inside a group.
// Group by group follows, the one with the smallest table over its neighbours first. On a chain of groups that is the
// dynamic program over the chain. Within a group, too, the smallest table is first.
struct GroupOrder {
  std::vector<int> order;
  int entangled = 0;  // groups that are in no series-parallel part of the coarsened graph
};
GroupOrder group_order(const Coarsened& coarsened, size_t tensors,
                       const Watch& watch = {});  // throws if the watch ends

}  // namespace partita

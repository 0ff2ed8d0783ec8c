// Holds a network during its reduction, and the record for its solutions and messages. Internal to reduce.cc,
// reduce_rules.cc, reduce_network.cc and reduce_messages.cc.
//
// Example: variables 0 - 1 - 2 in a chain. Degree one takes variable 0. Then edge 0 is gone, `unary[1]` has grown, and
// `steps` is {kDegreeOne, variable 0, first = edge 0, own = costs of variable 0}. Undone, variable 0 takes its best
// value beside variable 1's.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partita/solver/reduce.h"

namespace partita::solver {

// Two variables and the joint costs of their values. A step may have made it; it is gone once a step has used it.
struct ReducedEdge {
  int a = 0, b = 0;  // a < b
  std::shared_ptr<const Table> table;
  bool turned = false;  // the table is [b][a]
  bool gone = false;
};

// An edge from one of its variables.
struct Side {
  int edge = 0, own = 0, other = 0;
  const int64_t* table = nullptr;
  size_t own_stride = 0, other_stride = 0;
  int sample = 0;  // a value of the other: the cheapest by its own costs
  int64_t at(int x, int z) const {
    return table[own_stride * static_cast<size_t>(x) + other_stride * static_cast<size_t>(z)];
  }
};

struct ReductionStep {
  enum class Kind { kFixed, kDegreeOne, kDegreeTwo, kDominance };
  Kind kind = Kind::kFixed;
  int variable = 0;
  int first = -1, second = -1, made = -1;            // edges; for dominance, values x and y
  Table own;                                         // costs of `variable` then; for a fixed one its value alone
  std::vector<std::pair<int, int64_t>> differences;  // for dominance: an edge, and its least difference
};

inline constexpr int64_t kLargestCost = int64_t{1} << 57;  // largest cost that is summed up

struct Reducing {
  // Takes the network's edges over two variables, those over the same ones summed up, and its uses that matter.
  // `network` must stay.
  explicit Reducing(const Network& network);

  const Network& n;
  std::vector<Table> unary;                            // costs; forbidden: the value is gone
  std::vector<ReducedEdge> edges;                      // made ones at the end
  size_t original_edges = 0;                           // before them
  std::vector<std::vector<int>> incident;              // [variable]: its present edges
  std::map<std::pair<int, int>, int> at;               // present edges, by their variables
  std::vector<const Network::Edge*> kept;              // edges that are unchanged, with the variables they name
  std::set<std::pair<int, int>> kept_pairs;            // two variables that one of those is over
  std::vector<char> locked;                            // [variable]: it stays
  std::vector<char> eliminated;                        // [variable]: it is gone
  std::vector<std::vector<const Network::Use*>> uses;  // [variable]: those that matter
  std::vector<std::vector<int>> owner;                 // [variable][value]: the value that dominates it, or itself
  std::vector<ReductionStep> steps;
  std::map<std::string, int> counts;  // of the rules
  bool infeasible = false;            // also if nothing was done: the network is its own reduction
  double headroom = 0;                // the most that lifting can add to a message, over the scale
  std::map<const Table*, int64_t> magnitudes;

  bool is_live(int v, int x) const { return unary[v][x] < kForbidden; }
  int live(int v) const;  // the number of present values
  Side side(int edge, int v) const;
  int add(ReducedEdge edge);
  int64_t magnitude_of(const std::shared_ptr<const Table>& table);
  // Undoes everything: the network is its own reduction.
  void forget();
};

// Applies the rules until none does any more (reduce_rules.cc).
void apply_rules(Reducing& r, Reduction::Rules rules);

// The reduced network, with its variables and values in the original.
struct Reduced {
  Network network;
  std::vector<int> number, original;          // [variable]: of the reduced network or -1; and back
  std::vector<std::vector<int>> place;        // [original variable][value]: of the reduced network
  std::vector<std::vector<int>> kept_values;  // [reduced variable][value]: of the original
};
Reduced make_reduced(const Reducing& r);  // reduce_network.cc

struct Reduction::Inside {
  Inside(const Network& network, Rules rules);
  bool is_same() const { return hand.steps.empty(); }  // nothing was done

  Reducing hand;
  Reduced left;
};

}  // namespace partita::solver

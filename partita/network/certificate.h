// Defines a proof of a lower bound on a Network's cost, and its checker, which shares nothing with the search for the
// bound.
//
// Leaves partition the space: each is the rest after its decisions. A leaf has integer messages m and multipliers. Its
// scale s, a positive integer, stands for fractions: all costs count s times. The bound of a leaf is
//
//     ceil( ( sum_v min_x [ s costs_v(x) + sum_f m_fv(x) + sum_u amounts_u(x) p_u ]
//           + sum_f min_x [ s table_f(x) - sum_{v of f} m_fv(x_v) ]  -  limit sum_t multiplier_t ) / s )
//
// with p_u = sum_{lower_u <= t < upper_u} multiplier_t, minima over values that are not forbidden, and multipliers >=
// 0. A factor f is the sum of all edges over one set of variables; over one variable alone it counts among that
// variable's costs. Before that, values go that cannot be part of any solution of the leaf. These are forbidden values
// and values without an allowed partner in some factor. So are values that break the limit at some time even beside the
// least other uses, each taken by itself. A leaf holds no solution if a variable has no value left, or if its bound is
// above the sum of all largest costs. The certificate's bound is the least of its leaves'.
//
// Example: x, y in {0, 1} with costs_x = (0, 4), costs_y = (0, 0) and table(x, y) = ((6, 6), (1, 2)). Without messages
// a leaf proves 0 + 0 + 1 = 1. With m_x = (6, 1) and scale 1 it proves min(0 + 6, 4 + 1) + 0 + min(0, 0, 0, 1) = 5.
// That is the optimum, the cost of x = 1, y = 0.
//
// A leaf with an order is eliminated instead (Bertele and Brioschi, Nonserial Dynamic Programming, 1972). The least of
// the sum of all costs, computed variable by variable, replaces the least costs of variables and factors, each by
// itself.
//
// Steps come before the leaves. They leave values out that no solution below the claimed bound needs, so that the
// leaves partition the rest. A step is a sweep, and then substitutions.
//
// A sweep has messages and multipliers as a leaf has. Every variable in turn, upwards and downwards by number, receives
// a cost for each of its values. It is the certain cost of the pairs on the side that the sweep comes from. Each pair
// on the other side gets an equal share of the variable's total. (This is sequential message passing: Kolmogorov, A new
// look at reweighted message passing, 2015.) Values go that are so proved to cost the claimed bound.
//
// A substitution lets value x go for y, which is still there or went by a sweep. It has two conditions. First, costs(x)
// - costs(y) + sum_f min (table_f(x, ..) - table_f(y, ..)) >= 0, the minima over the remaining values. Second, y uses
// no more than x at any time when the limit can be broken.
//
// In place of all that there may be parts, and every variable is in one copy of a part. (This is dual decomposition:
// Komodakis, Paragios and Tziritas, MRF optimization via dual decomposition, 2007.) The cut has messages, on factors
// over variables of several copies, and multipliers. They make the costs of a part's network, rounded down after the
// scale is taken out. All copies of a part must make the same network. The bound has three terms. It adds the formula's
// least costs of the factors across copies, and the bounds of the parts' own certificates, each as often as there are
// copies. It subtracts the multipliers times the limit. A part may be proved in parts again, a few times deep.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

struct Certificate {
  struct Decision {
    int variable = 0;
    std::vector<int> values;  // the values that stay; ascending
  };
  struct Message {
    std::vector<int> variables;              // of the factor; ascending, each once
    std::vector<std::vector<int64_t>> ends;  // per variable, per value; an empty one is all zeros
  };
  struct Multiplier {
    int64_t time = 0, value = 0;
  };
  struct Leaf {
    int64_t scale = 1;
    std::vector<Decision> decisions;  // the first is on the same variable in all leaves; likewise in each part it makes
    std::vector<Message> messages;    // factors that are not named have none
    std::vector<Multiplier> multipliers;
    std::vector<int> order = {};  // of elimination: each variable once; empty: none is eliminated
  };
  struct Substitution {
    int variable = 0, value = 0, by = 0;
  };
  struct Step {
    Leaf sweep;                           // without decisions and order
    std::vector<Substitution> dominated;  // in turn
  };
  struct Part;
  static constexpr int kDeepest = 8;  // parts in parts, at most
  std::optional<Wide> bound;          // the claim; empty: there is no solution
  std::vector<Step> steps;
  std::vector<Leaf> leaves;
  Leaf cut;                 // between parts
  std::vector<Part> parts;  // with parts there are neither steps nor leaves

  bool empty() const;  // it claims nothing
};

// A set of variables of a network that is cut apart. They are one network by themselves, in several copies.
struct Certificate::Part {
  std::vector<std::vector<int>> copies;  // each in the part's own order
  Certificate proof;                     // of one copy
};

inline bool Certificate::empty() const { return leaves.empty() && parts.empty(); }

struct CheckedNetwork;  // checker.h

// Computes the bound of one leaf after another on one network, which must stay; empty if there is no solution in the
// leaf. Throws as check() does.
class LeafChecker {
 public:
  // `most`, at least the sum of all largest costs: a bound above it proves that there is no solution.
  explicit LeafChecker(const Network& network, std::optional<Wide> most = std::nullopt);
  ~LeafChecker();
  Wide most() const;
  // Leaves out the step's values, given the claimed bound, for all later leaves.
  void take(const Certificate::Step& step, Wide claimed);
  std::optional<Wide> bound(const Certificate::Leaf& leaf) const;

 private:
  std::unique_ptr<CheckedNetwork> checked_;
};

// Checks a certificate. Returns the bound that it proves. It is at least its claim, and exactly that if there are
// steps; it is empty if it proves that there is no solution. Throws (bad input) if it is malformed, leaves a part of
// the space out, or claims more than it proves. It throws too if a sum leaves 128 bits.
std::optional<Wide> check(const Network& network, const Certificate& certificate);

// Prints JSON of the schema docs/reference/certificate.schema.json. Reading throws (bad input), naming the place.
std::string print_certificate(const Certificate& certificate);
Certificate parse_certificate(const std::string& text, const std::string& file);

}  // namespace partita::solver

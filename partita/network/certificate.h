// A proof of a lower bound on a Network's cost, and its checker, which shares nothing with what found the bound.
//
// Leaves partition the space: each is what remains after its decisions. A leaf has integer messages m and multipliers.
// Its scale s, a positive integer, stands for fractions: all costs count s times. The bound of a leaf is
//
//     ceil( ( sum_v min_x [ s costs_v(x) + sum_f m_fv(x) + sum_u amounts_u(x) p_u ]
//           + sum_f min_x [ s table_f(x) - sum_{v of f} m_fv(x_v) ]  -  limit sum_t multiplier_t ) / s )
//
// with p_u = sum_{lower_u <= t < upper_u} multiplier_t, minima over values that are not forbidden, and multipliers >=
// 0. A factor f is the sum of all edges over one set of variables; over one variable alone it counts among that
// variable's costs. Before that, values go that cannot be part of any solution of the leaf: forbidden ones, ones
// without an allowed partner in some factor, and ones that break the limit at some time although every other use, each
// judged by itself, is as little as it can be. A leaf holds no solution where a variable has no value left, or where
// its bound is above the sum of all largest costs. The certificate's bound is the least of its leaves'.
//
// Example: x, y in {0, 1} with costs_x = (0, 4), costs_y = (0, 0) and table(x, y) = ((6, 6), (1, 2)). Without messages
// a leaf proves 0 + 0 + 1 = 1. With m_x = (6, 1) and scale 1 it proves min(0 + 6, 4 + 1) + 0 + min(0, 0, 0, 1) = 5.
// That is the optimum: x = 1, y = 0 costs it.
//
// A leaf with an order is eliminated instead (Bertele and Brioschi, Nonserial Dynamic Programming, 1972). In place of
// the least costs of variables and factors, each by itself, comes the least of their sum, computed variable by
// variable.
//
// Steps come before the leaves. They leave values out that no solution below the claimed bound need take, so that the
// leaves partition what is left. A step is a sweep, and then substitutions.
//
// A sweep has messages and multipliers as a leaf has. Every variable in turn, upwards and downwards by number, is given
// what the pairs on the side that the sweep comes from are certain to cost with each of its values. It hands an equal
// share of what it then has to each pair on the other side (sequential message passing: Kolmogorov, A new look at
// reweighted message passing, 2015). Values go that are so proved to cost the claimed bound.
//
// A substitution lets value x go for y, which is still there or went by a sweep. Two things are asked for. First,
// costs(x) - costs(y) + sum_f min (table_f(x, ..) - table_f(y, ..)) >= 0, the minima over what is left. Second, y uses
// no more than x at any time when the limit can be broken.
//
// In place of all that there may be parts, which every variable is in one copy of (dual decomposition: Komodakis,
// Paragios and Tziritas, MRF optimization via dual decomposition, 2007). The cut has messages, on factors over
// variables of several copies, and multipliers. They make the costs of a part's network, rounded down after the scale
// is taken out; all copies of a part must come to the same network. The bound has three terms: the formula's least
// costs of what lies across, less the multipliers times the limit, and what the parts' own certificates prove, each as
// often as there are copies. A part may be proved in parts again, a few times deep.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

struct Certificate {
  struct Decision {
    int variable = 0;
    std::vector<int> values;  // that stay; ascending
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
  std::optional<Wide> bound;          // what is claimed; empty: that there is no solution
  std::vector<Step> steps;
  std::vector<Leaf> leaves;
  Leaf cut;                 // between parts
  std::vector<Part> parts;  // there are neither steps nor leaves then

  bool empty() const;  // it claims nothing
};

// Variables of a network that is cut apart, which are one network by themselves, as often as it is there.
struct Certificate::Part {
  std::vector<std::vector<int>> copies;  // each in the part's own order
  Certificate proof;                     // of one
};

inline bool Certificate::empty() const { return leaves.empty() && parts.empty(); }

struct Judged;  // judge.h

// The bound of one leaf after another on one network, which must stay; empty: there is no solution in the leaf. Throws
// as check() does.
class LeafJudge {
 public:
  // `most`, at least the sum of all largest costs: a bound above it proves that there is no solution.
  explicit LeafJudge(const Network& network, std::optional<Wide> most = std::nullopt);
  ~LeafJudge();
  Wide most() const;
  // Leaves out what the step does, given the claimed bound, for all leaves that follow.
  void take(const Certificate::Step& step, Wide claimed);
  std::optional<Wide> bound(const Certificate::Leaf& leaf) const;

 private:
  std::unique_ptr<Judged> judged_;
};

// The bound that the certificate proves, at least what it claims, and no more where there are steps; empty: it proves
// that there is no solution. Throws (bad input) if it is malformed, if its leaves leave a part of the space out, if it
// claims more than it proves, or if a sum leaves 128 bits.
std::optional<Wide> check(const Network& network, const Certificate& certificate);

// JSON, of the schema docs/reference/certificate.schema.json. Reading throws (bad input), naming the place.
std::string print_certificate(const Certificate& certificate);
Certificate parse_certificate(const std::string& text, const std::string& file);

}  // namespace partita::solver

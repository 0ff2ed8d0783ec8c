// A proof of a lower bound on a Network's cost, and its checker, which shares nothing with what found the bound.
//
// The leaves partition the space: each is what remains after its decisions. Per leaf, integer messages and multipliers;
// with its scale s (a positive integer that stands for fractions: all costs count s times), the bound of a leaf is
//
//     ceil( ( sum_v min_x [ s costs_v(x) + sum_f m_fv(x) + sum_u amounts_u(x) sum_{t in [lower_u, upper_u)}
//     multiplier_t ]
//           + sum_f min_x [ s table_f(x) - sum_{v of f} m_fv(x_v) ]  -  limit sum_t multiplier_t ) / s )
//
// with minima over values that are not forbidden, and multipliers >= 0. A factor f is the sum of all edges over one set
// of variables; over one variable alone it counts among that variable's costs. Values that cannot be part of any
// solution of the leaf are left out first: those that are forbidden, that have no allowed partner in some factor, or
// that break the limit at some time although all other variables use as little as they can. A leaf with a variable that
// has no value left holds no solution, nor does one whose bound is above the sum of all largest costs. The
// certificate's bound is the least of its leaves'. "As little as they can" is judged use by use.
//
// A leaf with an order is eliminated instead (Bertele and Brioschi, Nonserial Dynamic Programming, 1972): in place of
// its variables' and factors' least costs, each by itself, comes the least of their sum, computed variable by variable.
//
// Steps come before the leaves, and leave values out that no solution below the claimed bound need take, so that the
// leaves partition what is left. Each step is a sweep, and then substitutions:
//   sweep         messages and multipliers as a leaf's; then every variable in turn, upwards and downwards by number,
//   is given what the pairs
//                 on the side that it comes from are certain to cost with each of its values, sum by sum what the
//                 leaf's formula proves of that value, and hands an equal share of what it then has to each pair on the
//                 other side (sequential message passing: Kolmogorov, A new look at reweighted message passing, 2015).
//                 Values that are so proved to cost the claimed bound go.
//   substitution  value x goes for y, which is still there or went by a sweep: costs(x) - costs(y) + sum_f min
//   (table_f(x, ..) - table_f(y, ..))
//                 is not below 0, the minima over what is left, and y uses no more than x at any time when the limit
//                 can be broken.
//
// In place of all that there may be parts, which every variable is in one copy of (dual decomposition: Komodakis,
// Paragios and Tziritas, MRF optimization via dual decomposition, 2007). The messages of the cut, on factors over
// variables of several copies, and its multipliers make the costs of a part's network, rounded down after the scale is
// taken out; all copies of a part must come to the same network. The bound is the formula's least costs of what lies
// across, less the multipliers times the limit, and what the parts' own certificates prove, each as often as there are
// copies. A part may be proved in parts again, a few times deep.
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

// Of a network that is cut apart, variables that are one network by themselves, as often as it is there.
struct Certificate::Part {
  std::vector<std::vector<int>> copies;  // each in the part's own order
  Certificate proof;                     // of one
};

inline bool Certificate::empty() const { return leaves.empty() && parts.empty(); }

// The bound of one leaf after another on one network, which must stay; empty: there is no solution in the leaf. Throws
// as check() does.
class LeafJudge {
 public:
  // `most`, at least the sum of all largest costs: a bound above it proves that there is no solution.
  explicit LeafJudge(const Network& network, std::optional<Wide> most = std::nullopt);
  Wide most() const;
  ~LeafJudge();
  // Leaves out what the step does, given the claimed bound, for all leaves that follow. Throws as check() does.
  void take(const Certificate::Step& step, Wide claimed);
  std::optional<Wide> bound(const Certificate::Leaf& leaf) const;

 private:
  struct Inside;
  friend std::optional<Wide> check(const Network& network, const Certificate& certificate);
  std::unique_ptr<Inside> inside_;
};

// The bound that the certificate proves, at least what it claims, and no more where there are steps; empty: it proves
// that there is no solution. Throws (bad input) if it is malformed, if its leaves leave a part of the space out, if it
// claims more than it proves, or if a sum leaves 128 bits.
std::optional<Wide> check(const Network& network, const Certificate& certificate);

// JSON, of the schema docs/certificate.schema.json. Reading throws (bad input), naming the place.
std::string print_certificate(const Certificate& certificate);
Certificate parse_certificate(const std::string& text, const std::string& file);

}  // namespace partita::solver

// Reduces a network without loss. It makes a smaller network with the same optimum, whose solutions and proofs map to
// the original. Five rules apply until none does any more:
//
//   fixed       a variable with one value gives its edges to its neighbours' own costs
//   degree one  a variable v beside w only:  costs_w(y) += min_x (costs_v(x) + table(x, y))
//   degree two  a variable v between a and b, which no edge joins yet:  it becomes an edge between them, of cost
//               min_x (costs_v(x) + table(a, x) + table(x, b))
//   dominance   value x of v goes if some y is never worse (soft neighbourhood substitution):
//               costs(x) - costs(y) + sum_e min_z (table_e(x, z) - table_e(y, z)) >= 0, and no use of y's is larger
//               than x's
//   parallel    edges over the same two variables are summed up
//
// Variables stay if they use something at a time that matters, or if an edge over three variables names them. So do
// variables whose elimination would make sums near 64 bits.
//
// Example: v in {0, 1} with costs (2, 0) beside w only, table(v, w) = ((0, 5), (1, 9)). Degree one adds
// (min(2 + 0, 0 + 1), min(2 + 5, 0 + 9)) = (1, 7) to w's costs, and v is gone. If the solution of the rest has w = 1,
// lifted() gives v its best beside that, 0.
//
// Each step has its counterpart in messages, so that a leaf that proves a bound for the reduced network becomes one
// that proves the same for the original. Here s is the scale, c(x) are v's own costs when it went, and m(..) the
// messages of the step's result:
//
//   fixed       to w: s table(x, y);  to v: 0
//   degree one  to w: s min_x (c(x) + table(x, y));  to v: -s c(x)
//   degree two  to a and b: m as the new edge's;  to v from either: min over a (or b) of s table - m
//   dominance   to x over e: m_e(y) + s min_z (table_e(x, z) - table_e(y, z))
//
// If an edge between a and b exists already, degree two does nothing. That is a triangle, whose minimum the messages of
// pairs do not reach. Elimination (eliminate.h) takes such variables, without a certificate.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "partita/network/certificate.h"
#include "partita/network/network.h"

namespace partita::solver {

class Reduction {
 public:
  enum class Rules { kAll, kDominance };
  // Dominance reads each table entry a few times (Tuning::Dominance), on average, at most. `network` must stay.
  explicit Reduction(const Network& network, Rules rules = Rules::kAll);
  ~Reduction();

  const Network& reduced() const;
  // Costs the same in the original.
  Assignment lifted(const Assignment& of_reduced) const;
  // Costs no more in the reduced network; it may take forbidden values.
  Assignment lowered(const Assignment& of_original) const;
  // Proves the same, if the messages on every edge exist, and are kNotThere (model.h) for values that the leaf leaves
  // out.
  Certificate::Leaf lifted(const Certificate::Leaf& of_reduced) const;
  // The original's messages in the reduced network: a leaf without decisions, for the dual to begin with.
  Certificate::Leaf lowered(const Certificate::Leaf& of_original) const;
  // How much larger a lifted message can be than those of the leaf, over the scale.
  double headroom() const;
  // The values that dominance left out, in that order.
  std::vector<Certificate::Substitution> dominated() const;
  // How often each rule applied: "fixed", "degree_one", "degree_two", "dominated".
  const std::map<std::string, int>& counts() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace partita::solver

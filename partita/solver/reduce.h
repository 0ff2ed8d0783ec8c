// Reduction without loss: a smaller network with the same optimum, from whose solutions and proofs those of the
// original follow.
//
//   fixed       a variable with one value gives its edges to its neighbours' own costs
//   degree one  a variable v beside w only:   costs_w(y) += min_x (costs_v(x) + table(x, y))
//   degree two  a variable v between a and b, which no edge joins:  a new edge of cost min_x (costs_v(x) + table(a, x)
//   + table(x, b)) dominance   value x of v goes if some y is never worse (soft neighbourhood substitution):
//               costs(x) - costs(y) + sum_e min_z (table_e(x, z) - table_e(y, z)) >= 0, and no use of y's is larger
//               than x's
//   parallel    edges over the same two variables are summed up
//
// Variables that use something at a time that matters, or that an edge over three variables names, stay; so do sums
// near 64 bits.
//
// Each step has its counterpart in messages, so a leaf that proves a bound for the reduced network becomes one that
// proves the same for the original. With scale s, c(x) v's own costs when it went, and m(..) the messages of what came
// of it:
//
//   fixed       to w: s table(x, y);  to v: 0
//   degree one  to w: s min_x (c(x) + table(x, y));  to v: -s c(x)
//   degree two  to a and b: m as the new edge's;  to v from either: min over a (or b) of s table - m
//   dominance   to x over e: m_e(y) + s min_z (table_e(x, z) - table_e(y, z))
//
// An edge that degree two would add to an edge that is there already has none: that is a triangle, whose minimum the
// messages of pairs do not reach. Such variables stay; elimination (eliminate.h) takes them, without a certificate.
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
  // Looks at each table entry some times for dominance, on average, at most. `network` must stay.
  explicit Reduction(const Network& network, Rules rules = Rules::kAll);
  ~Reduction();

  const Network& reduced() const;
  Assignment lifted(const Assignment& of_reduced) const;  // costs the same in the original
  Assignment lowered(
      const Assignment& of_original) const;  // costs no more in the reduced network; what is forbidden may be taken
  // Proves the same, if the messages on every edge are there and are kNotThere (model.h) to values that the leaf does
  // not leave.
  Certificate::Leaf lifted(const Certificate::Leaf& of_reduced) const;
  // What messages in the original come to: a leaf without decisions, for the dual to begin with.
  Certificate::Leaf lowered(const Certificate::Leaf& of_original) const;
  // By how much a lifted message can be larger than those of the leaf, over the scale.
  double headroom() const;
  // What dominance left out, in the order in which it did.
  std::vector<Certificate::Substitution> dominated() const;
  // How often each rule applied: "fixed", "degree_one", "degree_two", "dominated".
  const std::map<std::string, int>& counts() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace partita::solver

// A proof of a lower bound on a Network's cost, and its checker, which shares nothing with what found the bound.
//
// The leaves partition the space: each is what remains after its decisions. Per leaf, integer messages and multipliers; with its
// scale s (a positive integer that stands for fractions: all costs count s times), the bound of a leaf is
//
//     ceil( ( sum_v min_x [ s costs_v(x) + sum_f m_fv(x) + sum_u amounts_u(x) sum_{t in [lower_u, upper_u)} multiplier_t ]
//           + sum_f min_x [ s table_f(x) - sum_{v of f} m_fv(x_v) ]  -  limit sum_t multiplier_t ) / s )
//
// with minima over values that are not forbidden, and multipliers >= 0. A factor f is the sum of all edges over one set of variables;
// over one variable alone it counts among that variable's costs.
// Values that cannot be part of any solution of the leaf are left out first: those that are forbidden, that have no allowed partner in
// some factor, or that break the limit at some time although all other variables use as little as they can. A leaf with a variable
// that has no value left holds no solution, nor does one whose bound is above the sum of all largest costs. The certificate's bound is the
// least of its leaves'. "As little as they can" is judged use by use.
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
    std::vector<int> variables;             // of the factor; ascending, each once
    std::vector<std::vector<int64_t>> ends; // per variable, per value; an empty one is all zeros
  };
  struct Multiplier {
    int64_t time = 0, value = 0;
  };
  struct Leaf {
    int64_t scale = 1;
    std::vector<Decision> decisions;  // the first is on the same variable in all leaves; likewise in each part it makes
    std::vector<Message> messages;    // factors that are not named have none
    std::vector<Multiplier> multipliers;
  };
  std::optional<Wide> bound;  // what is claimed; empty: that there is no solution
  std::vector<Leaf> leaves;
};

// The bound of one leaf after another on one network, which must stay; empty: there is no solution in the leaf. Throws as check() does.
class LeafJudge {
 public:
  // `most`, at least the sum of all largest costs: a bound above it proves that there is no solution.
  explicit LeafJudge(const Network& network, std::optional<Wide> most = std::nullopt);
  Wide most() const;
  ~LeafJudge();
  std::optional<Wide> bound(const Certificate::Leaf& leaf) const;

 private:
  struct Inside;
  std::unique_ptr<const Inside> inside_;
};

// The bound that the certificate proves, at least what it claims; empty: it proves that there is no solution.
// Throws (bad input) if it is malformed, if its leaves leave a part of the space out, if it claims more than it proves, or if a sum
// leaves 128 bits.
std::optional<Wide> check(const Network& network, const Certificate& certificate);

// JSON, of the schema docs/certificate.schema.json. Reading throws (bad input), naming the place.
std::string print_certificate(const Certificate& certificate);
Certificate parse_certificate(const std::string& text, const std::string& file);

}  // namespace partita::solver

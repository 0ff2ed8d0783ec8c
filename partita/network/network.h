// Defines a cost network. It has variables with finite domains, costs on values and on pairs of values, and a limit on
// the values' use at any one time. It knows nothing of graphs, operations or plans.
//
//   minimise    sum_v costs[v][x_v] + sum_e table_e[x of e's variables]
//   subject to  for every integer t: sum over uses u with lower <= t < upper of amounts_u[x of u's variable] <= limit
//
// A cost of kForbidden or more is forbidden: an assignment that takes one is no solution. Sums are of 128 bits.
//
// Example: costs = {{0, 3}, {1, 0}}, one edge over variables {0, 1} with table {5, 0, 0, 5}, no uses. The assignment
// (0, 1) costs 0 + 0 + 0 = 0: the table's entry of (x_0, x_1) is at 2 x_0 + x_1 = 1.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partita::solver {

__extension__ typedef __int128 Wide;

inline constexpr int64_t kForbidden = 1'000'000'000'000'000'000;

using Table = std::vector<int64_t>;
using Assignment = std::vector<int>;  // a value for each variable

struct Network {
  struct Edge {
    std::vector<int> variables;          // two as a rule, any number will do; edges over the same variables add up
    std::shared_ptr<const Table> table;  // row-major, the last variable fastest; edges with equal tables share one
    bool over_two() const { return variables.size() == 2 && variables[0] != variables[1]; }
  };
  struct Use {
    int variable = 0;
    int64_t lower = 0, upper = 0;  // half-open; lower >= upper uses nothing
    std::vector<int64_t> amounts;  // per value, not negative
  };
  std::vector<Table> costs;  // per variable, per value: its size is the domain's
  std::vector<Edge> edges;
  std::vector<Use> uses;  // any number per variable
  std::optional<int64_t> limit;

  int variables() const { return static_cast<int>(costs.size()); }
  int domain(int v) const { return static_cast<int>(costs[v].size()); }
};

// Validates a network. Throws (bad input), naming the place, if sizes, variables, or the signs of amounts are wrong.
void validate(const Network& network);

struct Evaluation {
  Wide cost = 0;             // forbidden costs left out
  int forbidden = 0;         // number of forbidden costs taken
  std::optional<Wide> peak;  // the largest use at any one time; empty without uses
  bool feasible = false;     // nothing forbidden, and the peak within the limit
};
// Evaluates an assignment. Throws (bad input) if its length or a value is out of range.
Evaluation evaluate(const Network& network, const Assignment& assignment);

struct BruteForce {
  std::optional<Assignment> solution;  // the first of least cost in lexicographic order
  Wide cost = 0;
};
// Tries every assignment; the slow obvious version, for tests.
BruteForce brute_force(const Network& network);

std::string to_string(Wide value);
std::optional<Wide> parse_wide(std::string_view text);  // decimal; empty if it is none or does not fit

}  // namespace partita::solver

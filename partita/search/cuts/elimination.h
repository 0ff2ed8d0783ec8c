// Eliminates variables of the network of one cut, for every search whose choices interact locally. It finds the exact
// minimum of a sum of unary and pairwise costs (Bertele and Brioschi, Nonserial Dynamic Programming, 1972).
//
// Worked example: variables a and b of two values have unary costs a: {1, 0}, b: {0, 0}. A pair costs 2 if they differ.
// In the order {b, a}, b goes first: min over b of pair + unary(b) is a table over a, {0, 0}. Then a is 1 at value 0
// and 0 at value 1. Traced back: a = 1, then b = 1; the cost is 0.
//
// Ties decide which of many equal plans SoyBean, Tofu and the searches beside them return. They are broken only here:
// 1. The bytes moved, then the bytes stored: the order of Cost. Among two choices that move as much, the one that
//    leaves less on all devices wins. Only tensors' unary costs store anything (one_cut.h).
// 2. Among equal costs the lowest value, variable after variable, from the last eliminated to the first. So the
//    elimination order decides: breadth-first levels for SoyBean (soybean.cc), group_order() for Tofu (coarsen.h), else
//    small_table_order(). A variable's values are in the order of OneCut: tilings along the first axis first, whole
//    last; strategies as tdl::strategies() has them. A class of variables has its values in lexicographic order.
// 3. Elimination::solutions has further solutions of equal cost in that order; SoyBean follows four of them.
//
// The eliminator itself is network/buckets.h, shared with the solver (partita/solver/eliminate.h). The differences
// here:
// - A cost is two numbers of up to 10^13 bytes, which packed into one need more than 64 bits. The solver's costs are
//   single integers that saturate at 2^61, summed and minimised by vector instructions.
// - Several solutions of equal cost are needed, each once, in the order above.
// - The caller orders the variables, and every single table has a limit of entries, after which another order or
//   eliminate_around() is tried. The solver has an order of its own within bytes for all tables together.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "partita/base/watch.h"

namespace partita {

// Compared first by bytes moved, then by bytes stored.
struct Cost {
  int64_t moved = 0, stored = 0;
  auto operator<=>(const Cost&) const = default;
  Cost operator+(const Cost& o) const { return {moved + o.moved, stored + o.stored}; }
};

struct CostNetwork {
  struct Pair {
    int a = 0, b = 0;
    std::vector<Cost> cost;  // [value of a][value of b], row-major
  };
  std::vector<std::vector<Cost>> unary;  // per variable, per value: its size is the domain's
  std::vector<Pair> pairs;               // several on the same two variables add up

  int variables() const { return static_cast<int>(unary.size()); }
  int domain(int v) const { return static_cast<int>(unary[v].size()); }
  Cost evaluate(const std::vector<int>& values) const;
};

struct Elimination {
  Cost cost;
  std::vector<std::vector<int>> solutions;  // of minimal cost, all different
  int64_t largest_table = 0;                // entries
  int width = 0;                            // most variables that one table is over
};

// Entries of the tables of one elimination together. All are kept until the choices are traced back.
constexpr int64_t kTablesTogether = int64_t{1} << 27;  // 2 GiB

// All of these throw if the watch ends. Eliminates in this order. Empty if a table would have more than max_table
// entries, or all together more than kTablesTogether: that is known before any is made.
std::optional<Elimination> eliminate(const CostNetwork& network, const std::vector<int>& order, int max_solutions = 1,
                                     int64_t max_table = int64_t{1} << 24, const Watch& watch = {});
// If no order's tables fit: a good assignment, not proved minimal (cutset conditioning, Dechter 1990). A few variables
// are held at their values so far, and all others are eliminated exactly. Other variables are held in each round, until
// several rounds in a row have changed nothing. Deterministic; `rounds` bounds the number of rounds.
struct Conditioned {
  Cost cost;
  std::vector<int> solution;
  int rounds = 0;
  int held = 0;  // variables held in the first round; 0: the solution is a minimum
};
Conditioned eliminate_around(const CostNetwork& network, const Watch& watch = {}, int64_t max_table = int64_t{1} << 16,
                             int rounds = 100);
// Returns the greedy order by smallest next table, ties by index.
std::vector<int> small_table_order(const CostNetwork& network, const Watch& watch = {});
// Tells whether every table of that order has at most max_table entries.
bool fits_elimination(const CostNetwork& network, int64_t max_table, const Watch& watch = {});
// Tries every assignment: the slow reference, for tests.
Elimination brute_force(const CostNetwork& network, int max_solutions = 1);

}  // namespace partita

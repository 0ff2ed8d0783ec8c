// Variable elimination over a cost network: the exact minimum of a sum of unary and pairwise costs (Bertele and
// Brioschi, Nonserial Dynamic Programming, 1972). Written once, for every search whose choices interact locally.
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

// All of these throw where the watch ends.
// Eliminates in this order. Empty if a table would have more than max_table entries.
std::optional<Elimination> eliminate(const CostNetwork& network, const std::vector<int>& order, int max_solutions = 1,
                                     int64_t max_table = int64_t{1} << 24, const Watch& watch = {});
// Where no order's tables fit: a good assignment, not proved minimal. All but a few variables are eliminated exactly
// while those few are held at their values so far (cutset conditioning, Dechter 1990); others are held in each round,
// until several rounds in a row have changed nothing. Deterministic; `rounds` bounds the number of rounds.
struct Conditioned {
  Cost cost;
  std::vector<int> solution;
  int rounds = 0;
  int held = 0;  // variables held in the first round; 0: the solution is a minimum
};
Conditioned eliminate_around(const CostNetwork& network, const Watch& watch = {}, int64_t max_table = int64_t{1} << 16,
                             int rounds = 100);
// Greedy order by smallest next table, ties by index.
std::vector<int> small_table_order(const CostNetwork& network, const Watch& watch = {});
// Whether no table of that order has more entries.
bool fits_elimination(const CostNetwork& network, int64_t max_table, const Watch& watch = {});
// Tries every assignment; the slow obvious version, for tests.
Elimination brute_force(const CostNetwork& network, int max_solutions = 1);

}  // namespace partita

// Holds the table of a pair of variables. Values that cost the same beside everything are one kind. A tensor may be
// brought into many sets of layouts, but each of its readers distinguishes few of them.
//
// Example: rows {0, 1, 2, 3} with costs (5, 0), (0, 7), (5, 0), (5, 0). There are two kinds of rows, of = {0, 1, 0, 0},
// and `by_row` has 4 entries in place of 8: {5, 0, 0, 7}. (Tables as small as this one stay as they are.)
#pragma once
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "partita/network/network.h"

namespace partita::solver {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The cost; infinite if forbidden.
inline double as_double(int64_t cost) { return cost >= kForbidden ? kInfinity : static_cast<double>(cost); }

// The values of one of two variables. If few are alike, each is a kind of its own, and the lists are empty.
struct ValueKinds {
  int count = 0;
  std::vector<int> of;       // [value]
  std::vector<int> by_kind;  // values, those of a kind side by side
  std::vector<int> first;    // [kind]: in by_kind; one more at the end

  bool all_differ() const { return of.empty(); }
  int operator()(int value) const { return of.empty() ? value : of[value]; }
};

struct PairTable {
  ValueKinds rows, columns;
  std::vector<double> by_row;     // [kind of row][kind of column]
  std::vector<double> by_column;  // [kind of column][kind of row]
  double largest = 0;             // absolute, of costs that are not forbidden
  bool forbids = false;           // whether any cost is forbidden

  // `costs`: [row][column]; those that forbid are infinite.
  PairTable(int rows, int columns, const std::vector<double>& costs);
  PairTable(int rows, int columns, const Table& costs);
  PairTable turned() const;  // rows for columns
  double at(int row, int column) const {
    return by_row[static_cast<size_t>(rows(row)) * columns.count + columns(column)];
  }

 private:
  template <typename Cost>
  void make(int rows, int columns, const std::vector<Cost>& costs);
};

// A table from one variable's end: `own` values, and the `other`'s. vectors.h computes with it.
struct PairView {
  const ValueKinds* own = nullptr;
  const ValueKinds* other = nullptr;
  const double* by_own = nullptr;    // [own kind][other kind]
  const double* by_other = nullptr;  // [other kind][own kind]

  double at(int own_value, int other_value) const {
    return by_own[static_cast<size_t>((*own)(own_value)) * other->count + (*other)(other_value)];
  }
  int kinds() const { return own->count + other->count; }
};

inline PairView by_row(const PairTable& t) { return {&t.rows, &t.columns, t.by_row.data(), t.by_column.data()}; }
inline PairView by_column(const PairTable& t) { return {&t.columns, &t.rows, t.by_column.data(), t.by_row.data()}; }

}  // namespace partita::solver

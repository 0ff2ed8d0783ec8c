// Tests tables in kinds of values, and messages on them, against plain ones.
#include "partita/solver/pair_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "partita/base/rng.h"
#include "partita/solver/vectors.h"

namespace partita::solver {
namespace {

// Rows and columns drawn from a few, so that many are equal; some costs forbid.
Table with_equal(int rows, int columns, int row_kinds, int column_kinds, Rng& rng) {
  std::vector<int> of_row(rows), of_column(columns);
  for (int& k : of_row) k = static_cast<int>(rng.below(row_kinds));
  for (int& k : of_column) k = static_cast<int>(rng.below(column_kinds));
  std::vector<int64_t> costs(static_cast<size_t>(row_kinds) * column_kinds);
  for (int64_t& c : costs)
    c = rng.below(6) == 0 ? kForbidden + static_cast<int64_t>(rng.below(3)) : rng.between(-20, 20);
  Table table;
  for (int r : of_row)
    for (int c : of_column) table.push_back(costs[static_cast<size_t>(r) * column_kinds + c]);
  return table;
}

std::vector<double> as_doubles(const Table& costs) {
  std::vector<double> out;
  for (int64_t c : costs) out.push_back(as_double(c));
  return out;
}

TEST(PairTable, InKindsItSaysWhatThePlainOneSays) {
  constexpr uint64_t kSeed = 5;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  int in_kinds = 0;
  for (int i = 0; i < 300; ++i) {
    const int rows = static_cast<int>(rng.between(1, 90)), columns = static_cast<int>(rng.between(1, 90));
    const int row_kinds = static_cast<int>(rng.between(1, rows)),
              column_kinds = static_cast<int>(rng.between(1, columns));
    const std::vector<double> plain = as_doubles(with_equal(rows, columns, row_kinds, column_kinds, rng));
    const PairTable table(rows, columns, plain);
    in_kinds += !table.rows.all_differ() || !table.columns.all_differ();
    auto at = [&](int r, int c) { return plain[static_cast<size_t>(r) * columns + c]; };
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) ASSERT_EQ(table.at(r, c), at(r, c)) << i;
    for (const bool of_rows : {true, false}) {  // messages to rows, or to columns
      const PairView view = of_rows ? by_row(table) : by_column(table);
      const int own = of_rows ? rows : columns, other = of_rows ? columns : rows;
      std::vector<double> minus, out(own), scratch(view.kinds()), sums(own, 1);
      for (int y = 0; y < other; ++y)
        minus.push_back(rng.below(9) == 0 ? -kInfinity : static_cast<double>(rng.between(-9, 9)));
      if (rng.below(2) == 0) min_minus<Eight>(view, minus.data(), own, scratch.data(), out.data());
      else min_minus<Halves>(view, minus.data(), own, scratch.data(), out.data());
      const int beside = static_cast<int>(rng.below(other));
      add_beside(view, beside, 3, own, sums.data());
      for (int x = 0; x < own; ++x) {
        double least = kInfinity;
        for (int y = 0; y < other; ++y) least = std::min(least, (of_rows ? at(x, y) : at(y, x)) - minus[y]);
        ASSERT_EQ(out[x], least) << i;
        ASSERT_EQ(sums[x], 1 + 3 * (of_rows ? at(x, beside) : at(beside, x))) << i;
      }
    }
  }
  EXPECT_GT(in_kinds, 30);
}

// Tests a table of any size, large ones row by row too, by either kind of vectors.
template <typename V>
void expect_minima_of_all_widths() {
  Rng rng(6);
  for (int columns = 1; columns <= 140; ++columns)
    for (const int rows : {1, 2, 3, 4, 5, 9, 600}) {
      std::vector<double> table(static_cast<size_t>(rows) * columns), minus(rows), out(columns);
      for (double& cost : table) cost = static_cast<double>(rng.between(-1000, 1000));
      for (double& m : minus) m = static_cast<double>(rng.between(-1000, 1000));
      min_minus<V>(table.data(), minus.data(), rows, columns, out.data());
      for (int c = 0; c < columns; ++c) {
        double least = kInfinity;
        for (int r = 0; r < rows; ++r) least = std::min(least, table[static_cast<size_t>(r) * columns + c] - minus[r]);
        ASSERT_EQ(out[c], least) << rows << "x" << columns;
      }
      ASSERT_EQ(least_of<V>(out.data(), columns), std::min_element(out.begin(), out.end()) - out.begin());
    }
}
TEST(PairTable, MinimaOfAllWidths) {
  expect_minima_of_all_widths<Eight>();
  expect_minima_of_all_widths<Halves>();
}

TEST(PairTable, HasEveryCostWhateverItTakesForEqual) {
  const uint64_t seed = 20261125;
  RecordProperty("seed", std::to_string(seed));
  Rng rng(seed);
  int merged = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    const int rows = 1 + static_cast<int>(rng.below(120)), columns = 1 + static_cast<int>(rng.below(120)),
              kinds = 1 + static_cast<int>(rng.below(200));
    const Table costs = with_equal(rows, columns, kinds, kinds, rng);
    const PairTable table(rows, columns, costs), turned = table.turned();
    const std::vector<double> plain = as_doubles(costs);
    const PairTable of_doubles(rows, columns, plain);
    double largest = 0;
    bool forbids = false;
    std::set<std::vector<double>> different;
    for (int r = 0; r < rows; ++r) {
      different.insert({plain.begin() + r * columns, plain.begin() + (r + 1) * columns});
      for (int c = 0; c < columns; ++c) {
        const double cost = plain[static_cast<size_t>(r) * columns + c];
        ASSERT_EQ(table.at(r, c), cost) << r << ", " << c;
        ASSERT_EQ(of_doubles.at(r, c), cost) << r << ", " << c;
        ASSERT_EQ(turned.at(c, r), cost) << r << ", " << c;
        ASSERT_EQ(by_row(table).by_other[static_cast<size_t>(table.columns(c)) * table.rows.count + table.rows(r)],
                  cost)
            << r << ", " << c;
        if (cost < kInfinity) largest = std::max(largest, std::abs(cost));
        else forbids = true;
      }
    }
    EXPECT_EQ(table.largest, largest);
    EXPECT_EQ(table.forbids, forbids);
    EXPECT_EQ(table.by_row.size(), static_cast<size_t>(table.rows.count) * table.columns.count);
    EXPECT_EQ(table.by_column.size(), table.by_row.size());
    if (!table.rows.all_differ()) {
      EXPECT_EQ(static_cast<size_t>(table.rows.count), different.size());
      ++merged;
    }
    for (const ValueKinds* kinds_of : {&table.rows, &table.columns}) {
      if (kinds_of->all_differ()) continue;
      for (int k = 0; k < kinds_of->count; ++k)
        for (int i = kinds_of->first[k]; i < kinds_of->first[k + 1]; ++i)
          EXPECT_EQ((*kinds_of)(kinds_of->by_kind[i]), k);
    }
  }
  EXPECT_GT(merged, 50);
  EXPECT_LT(merged, 280);
}

}  // namespace
}  // namespace partita::solver

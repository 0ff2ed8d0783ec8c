#include "partita/solver/pair_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "partita/base/rng.h"

namespace partita::solver {
namespace {

// Rows and columns drawn from a few, so that many are equal; some costs forbid.
Table with_equal(int rows, int columns, int kinds, Rng& rng) {
  std::vector<int> of_row(rows), of_column(columns);
  for (int& k : of_row) k = static_cast<int>(rng.below(kinds));
  for (int& k : of_column) k = static_cast<int>(rng.below(kinds));
  std::vector<int64_t> costs(static_cast<size_t>(kinds) * kinds);
  for (int64_t& c : costs)
    c = rng.below(8) == 0 ? kForbidden + static_cast<int64_t>(rng.below(3))
                          : static_cast<int64_t>(rng.below(1'000'000)) - 1000;
  Table table;
  for (int r : of_row)
    for (int c : of_column) table.push_back(costs[static_cast<size_t>(r) * kinds + c]);
  return table;
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
    const Table costs = with_equal(rows, columns, kinds, rng);
    const PairTable table(rows, columns, costs), turned = table.turned();
    std::vector<double> as_doubles;
    for (int64_t c : costs) as_doubles.push_back(as_double(c));
    const PairTable of_doubles(rows, columns, as_doubles);
    double largest = 0;
    bool forbids = false;
    std::set<std::vector<double>> different;
    for (int r = 0; r < rows; ++r) {
      different.insert({as_doubles.begin() + r * columns, as_doubles.begin() + (r + 1) * columns});
      for (int c = 0; c < columns; ++c) {
        const double cost = as_doubles[static_cast<size_t>(r) * columns + c];
        ASSERT_EQ(table.at(r, c), cost) << r << ", " << c;
        ASSERT_EQ(of_doubles.at(r, c), cost) << r << ", " << c;
        ASSERT_EQ(turned.at(c, r), cost) << r << ", " << c;
        ASSERT_EQ(by_row(table).by_other[static_cast<size_t>(table.columns(c)) * table.rows.count + table.rows(r)],
                  cost)
            << r << ", " << c;
        if (cost < kInfinity)
          largest = std::max(largest, std::abs(cost));
        else
          forbids = true;
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
    for (const Kinds* kinds_of : {&table.rows, &table.columns}) {
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

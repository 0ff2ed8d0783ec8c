#include "partita/solver/pair_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace partita::solver {

namespace {

// Which rows are equal; of those only the first stays in the table. Left as they are where few are equal, or the whole is looked at sooner
// than told apart.
Kinds merge_rows(int rows, size_t columns, std::vector<double>& table) {
  constexpr double kFew = 0.75;
  constexpr size_t kSmall = 2048;  // entries
  Kinds kinds;
  kinds.count = rows;
  if (table.size() < kSmall) return kinds;
  std::vector<int> of(static_cast<size_t>(rows)), representative;
  std::unordered_map<uint64_t, std::vector<int>> known;  // kinds by hash
  for (int r = 0; r < rows; ++r) {
    const double* row = &table[static_cast<size_t>(r) * columns];
    uint64_t hash = 0;
    for (size_t c = 0; c < columns; ++c) {
      uint64_t bits;
      std::memcpy(&bits, row + c, sizeof bits);
      hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    }
    std::vector<int>& like = known[hash];
    const auto same = std::find_if(like.begin(), like.end(), [&](int k) { return std::equal(row, row + columns, &table[static_cast<size_t>(representative[k]) * columns]); });
    if (same != like.end()) {
      of[r] = *same;
      continue;
    }
    of[r] = static_cast<int>(representative.size());
    like.push_back(of[r]);
    representative.push_back(r);
  }
  if (static_cast<double>(representative.size()) > kFew * rows) return kinds;
  kinds.count = static_cast<int>(representative.size());
  kinds.of = std::move(of);
  for (int k = 0; k < kinds.count; ++k) std::copy_n(&table[static_cast<size_t>(representative[k]) * columns], columns, &table[static_cast<size_t>(k) * columns]);  // k <= representative[k]
  table.resize(static_cast<size_t>(kinds.count) * columns);
  kinds.first.assign(static_cast<size_t>(kinds.count) + 1, 0);
  for (int k : kinds.of) ++kinds.first[k + 1];
  for (int k = 0; k < kinds.count; ++k) kinds.first[k + 1] += kinds.first[k];
  std::vector<int> next = kinds.first;
  kinds.by_kind.resize(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) kinds.by_kind[next[kinds.of[r]]++] = r;
  return kinds;
}

// Square by square, so that both stay in the cache.
std::vector<double> transposed(const std::vector<double>& table, size_t rows, size_t columns) {
  constexpr size_t kSquare = 32;
  std::vector<double> out(table.size());
  for (size_t top = 0; top < rows; top += kSquare)
    for (size_t left = 0; left < columns; left += kSquare)
      for (size_t r = top; r < std::min(rows, top + kSquare); ++r)
        for (size_t c = left; c < std::min(columns, left + kSquare); ++c) out[c * rows + r] = table[r * columns + c];
  return out;
}

}  // namespace

PairTable::PairTable(int row_count, int column_count, std::vector<double> costs) {
  rows = merge_rows(row_count, static_cast<size_t>(column_count), costs);
  by_column = transposed(costs, static_cast<size_t>(rows.count), static_cast<size_t>(column_count));
  columns = merge_rows(column_count, static_cast<size_t>(rows.count), by_column);
  by_row = transposed(by_column, static_cast<size_t>(columns.count), static_cast<size_t>(rows.count));
  for (double c : by_row)
    if (c < kInfinity) largest = std::max(largest, std::abs(c));
    else forbids = true;
}

PairTable PairTable::turned() const {
  PairTable out = *this;
  std::swap(out.rows, out.columns);
  std::swap(out.by_row, out.by_column);
  return out;
}

}  // namespace partita::solver

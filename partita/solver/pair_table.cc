// Makes pair tables: finds equal rows and columns, and keeps one of each.
#include "partita/solver/pair_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace partita::solver {

namespace {

double as_cost(double cost) { return cost; }
double as_cost(int64_t cost) { return as_double(cost); }

uint64_t bits_of(double cost) {
  uint64_t bits;
  std::memcpy(&bits, &cost, sizeof bits);
  return bits;
}

// Computes several sums side by side, which need not wait for each other.
template <typename Cost>
uint64_t hash_of(const Cost* row, size_t columns) {
  constexpr size_t kSums = 4;
  uint64_t sums[kSums] = {1, 2, 3, 4};
  auto take = [](uint64_t sum, double cost) {
    sum = (sum ^ bits_of(cost)) * 0x9E3779B97F4A7C15u;
    return sum ^ sum >> 29;
  };
  size_t c = 0;
  for (; c + kSums <= columns; c += kSums)
    for (size_t s = 0; s < kSums; ++s) sums[s] = take(sums[s], as_cost(row[c + s]));
  for (; c < columns; ++c) sums[0] = take(sums[0], as_cost(row[c]));
  return ((sums[0] * 3 ^ sums[1]) * 5 ^ sums[2]) * 7 ^ sums[3];
}

struct Rows {
  ValueKinds kinds;
  std::vector<int> first;  // [kind]: its first row; empty if each row is a kind of its own
};

// Finds equal rows. Skipped if there are few, or if reading the whole is faster.
template <typename Cost>
Rows equal_rows(int rows, size_t columns, const std::vector<Cost>& table) {
  constexpr double kFew = 0.75;
  constexpr size_t kSmall = 2048;  // entries
  Rows out;
  ValueKinds& kinds = out.kinds;
  kinds.count = rows;
  if (table.size() < kSmall) return out;
  std::vector<int> of(static_cast<size_t>(rows)), first;
  std::unordered_map<uint64_t, std::vector<int>> known;  // kinds by hash
  for (int r = 0; r < rows; ++r) {
    const Cost* row = &table[static_cast<size_t>(r) * columns];
    std::vector<int>& like = known[hash_of(row, columns)];
    const auto same = std::find_if(like.begin(), like.end(), [&](int k) {
      return std::equal(row, row + columns, &table[static_cast<size_t>(first[k]) * columns],
                        [](Cost a, Cost b) { return as_cost(a) == as_cost(b); });
    });
    if (same != like.end()) {
      of[r] = *same;
      continue;
    }
    of[r] = static_cast<int>(first.size());
    like.push_back(of[r]);
    first.push_back(r);
  }
  if (static_cast<double>(first.size()) > kFew * rows) return out;
  kinds.count = static_cast<int>(first.size());
  kinds.of = std::move(of);
  kinds.first.assign(static_cast<size_t>(kinds.count) + 1, 0);
  for (int k : kinds.of) ++kinds.first[k + 1];
  for (int k = 0; k < kinds.count; ++k) kinds.first[k + 1] += kinds.first[k];
  std::vector<int> next = kinds.first;
  kinds.by_kind.resize(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) kinds.by_kind[next[kinds.of[r]]++] = r;
  out.first = std::move(first);
  return out;
}

// A row for each kind.
template <typename Cost>
std::vector<double> kept(const Rows& rows, size_t columns, const std::vector<Cost>& table) {
  std::vector<double> out;
  out.reserve(static_cast<size_t>(rows.kinds.count) * columns);
  for (int k = 0; k < rows.kinds.count; ++k) {
    const Cost* row = &table[static_cast<size_t>(rows.first.empty() ? k : rows.first[k]) * columns];
    out.resize(out.size() + columns);
    std::transform(row, row + columns, out.end() - static_cast<std::ptrdiff_t>(columns),
                   [](Cost cost) { return as_cost(cost); });
  }
  return out;
}

// Transposes square by square, so that both stay in the cache.
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

PairTable::PairTable(int row_count, int column_count, const std::vector<double>& costs) {
  make(row_count, column_count, costs);
}
PairTable::PairTable(int row_count, int column_count, const Table& costs) { make(row_count, column_count, costs); }

template <typename Cost>
void PairTable::make(int row_count, int column_count, const std::vector<Cost>& costs) {
  const auto width = static_cast<size_t>(column_count);
  Rows merged = equal_rows(row_count, width, costs);
  by_row = kept(merged, width, costs);
  rows = std::move(merged.kinds);
  const auto height = static_cast<size_t>(rows.count);
  by_column = transposed(by_row, height, width);
  if (merged = equal_rows(column_count, height, by_column); !merged.first.empty()) {
    by_column = kept(merged, height, by_column);
    by_row = transposed(by_column, static_cast<size_t>(merged.kinds.count), height);
  }
  columns = std::move(merged.kinds);
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

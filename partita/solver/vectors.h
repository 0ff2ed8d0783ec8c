// The inner loops of message passing. They are inlined into functions that are compiled for several kinds of vectors (PARTITA_VECTORISED) and
// choose as the program starts.
#pragma once
#include <algorithm>
#include <cstddef>

#include "partita/solver/pair_table.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PARTITA_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#else
#define PARTITA_VECTORISED
#endif
#define PARTITA_INLINE inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"  // of functions that take vectors: they are inlined

namespace partita::solver {

using Eight = double __attribute__((vector_size(64)));
using EightAnywhere = double __attribute__((vector_size(64), aligned(8), may_alias));

inline constexpr int kLanes = 8;

PARTITA_INLINE Eight load(const double* from) { return *reinterpret_cast<const EightAnywhere*>(from); }
PARTITA_INLINE void store(const Eight& x, double* to) { *reinterpret_cast<EightAnywhere*>(to) = x; }
PARTITA_INLINE Eight lesser(const Eight& x, const Eight& y) { return x < y ? x : y; }

// Of as many columns as stay in registers: `kVectors` x 8, the last eight from `last` on, beside or over the others; `kRows` rows at a time,
// where few columns would wait for each other.
template <int kVectors, int kRows>
PARTITA_INLINE void min_minus_of(const double* table, const double* minus, int rows, size_t width, int last, double* out) {
  Eight least[kRows][kVectors];
  for (auto& of_row : least)
    for (Eight& x : of_row) x = Eight{} + kInfinity;
  auto at = [last](int v) { return v == kVectors - 1 ? last : kLanes * v; };
  int i = 0;
  for (; i + kRows <= rows; i += kRows)
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) least[r][v] = lesser(load(table + (i + r) * width + at(v)) - minus[i + r], least[r][v]);
  for (; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) least[0][v] = lesser(load(table + i * width + at(v)) - minus[i], least[0][v]);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int r = 1; r < kRows; ++r) least[0][v] = lesser(least[r][v], least[0][v]);
    store(least[0][v], out + at(v));
  }
}

// Of fewer columns than a vector has.
template <int kColumns>
PARTITA_INLINE void min_minus_of_few(const double* table, const double* minus, int rows, double* out) {
  double least[kColumns];
  for (double& x : least) x = kInfinity;
  for (int i = 0; i < rows; ++i, table += kColumns)
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const double cost = table[j] - minus[i];
      least[j] = cost < least[j] ? cost : least[j];
    }
  for (int j = 0; j < kColumns; ++j) out[j] = least[j];
}

PARTITA_INLINE void min_minus_row(const double* __restrict row, double minus, int columns, double* __restrict out) {
  for (int j = 0; j < columns; ++j) {
    const double cost = row[j] - minus;
    out[j] = cost < out[j] ? cost : out[j];
  }
}

// out[j] = min_i (table[i][j] - minus[i]); table is row-major, with a row at least. A table that is too large for the cache near by is read
// row by row.
PARTITA_INLINE void min_minus(const double* table, const double* minus, int rows, int columns, double* out) {
  constexpr size_t kNear = 1 << 16;  // entries
  const auto width = static_cast<size_t>(columns);
  switch (columns) {
    case 1: return min_minus_of_few<1>(table, minus, rows, out);
    case 2: return min_minus_of_few<2>(table, minus, rows, out);
    case 3: return min_minus_of_few<3>(table, minus, rows, out);
    case 4: return min_minus_of_few<4>(table, minus, rows, out);
    case 5: return min_minus_of_few<5>(table, minus, rows, out);
    case 6: return min_minus_of_few<6>(table, minus, rows, out);
    case 7: return min_minus_of_few<7>(table, minus, rows, out);
    default: break;
  }
  if (rows * width <= kNear) {
    int j = 0;
    for (; columns - j > 4 * kLanes; j += 4 * kLanes) min_minus_of<4, 1>(table + j, minus, rows, width, 3 * kLanes, out + j);
    j = std::min(j, columns - kLanes);
    const int last = columns - j - kLanes;
    switch ((last + kLanes - 1) / kLanes) {
      case 0: return min_minus_of<1, 4>(table + j, minus, rows, width, last, out + j);
      case 1: return min_minus_of<2, 2>(table + j, minus, rows, width, last, out + j);
      case 2: return min_minus_of<3, 1>(table + j, minus, rows, width, last, out + j);
      default: return min_minus_of<4, 1>(table + j, minus, rows, width, last, out + j);
    }
  }
  for (int j = 0; j < columns; ++j) out[j] = table[j] - minus[0];
  int i = 1;
  for (; i + 4 <= rows; i += 4) {
    const double *a = table + i * width, *b = a + width, *c = b + width, *d = c + width;
    for (int j = 0; j < columns; j += kLanes) {
      const int at = std::min(j, columns - kLanes);
      const Eight ab = lesser(load(a + at) - minus[i], load(b + at) - minus[i + 1]), cd = lesser(load(c + at) - minus[i + 2], load(d + at) - minus[i + 3]);
      store(lesser(lesser(ab, cd), load(out + at)), out + at);
    }
  }
  for (; i < rows; ++i) min_minus_row(table + i * width, minus[i], columns, out);
}

// The first of the smallest; 0 where there are none.
PARTITA_INLINE int least_of(const double* values, int count) {
  double least = kInfinity;
  int i = 0;
  if (count >= kLanes) {
    Eight lanes = load(values);
    for (i = kLanes; i + kLanes <= count; i += kLanes) lanes = lesser(load(values + i), lanes);
    for (int l = 0; l < kLanes; ++l) least = lanes[l] < least ? lanes[l] : least;
  }
  for (; i < count; ++i) least = values[i] < least ? values[i] : least;
  int first = 0;
  while (first < count && values[first] != least) ++first;
  return first < count ? first : 0;
}

// sums[own value] += so many times the cost beside that value of the other.
PARTITA_INLINE void add_beside(const View& view, int other_value, double times, int own_values, double* __restrict sums) {
  const double* __restrict costs = view.by_other + static_cast<size_t>((*view.other)(other_value)) * view.own->count;
  if (view.own->all_differ()) {
    for (int x = 0; x < own_values; ++x) sums[x] += times * costs[x];
  } else {
    const int* of = view.own->of.data();
    for (int x = 0; x < own_values; ++x) sums[x] += times * costs[of[x]];
  }
}

// out[own value] = min over the other's values of cost - minus[other value]. `scratch` takes a number for each kind of both.
PARTITA_INLINE void min_minus(const View& view, const double* __restrict minus, int own_values, double* __restrict scratch, double* __restrict out) {
  const Kinds &other = *view.other, &own = *view.own;
  if (!other.all_differ()) {
    const int *first = other.first.data(), *by_kind = other.by_kind.data();
    for (int k = 0; k < other.count; ++k) {
      double most = minus[by_kind[first[k]]];
      for (int i = first[k] + 1; i < first[k + 1]; ++i) most = minus[by_kind[i]] > most ? minus[by_kind[i]] : most;
      scratch[k] = most;
    }
    minus = scratch;
    scratch += other.count;
  }
  if (own.all_differ()) return min_minus(view.by_other, minus, other.count, own_values, out);
  min_minus(view.by_other, minus, other.count, own.count, scratch);
  const int* of = own.of.data();
  for (int x = 0; x < own_values; ++x) out[x] = scratch[of[x]];
}

}  // namespace partita::solver

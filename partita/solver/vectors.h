// Computes the inner loops of message passing. They are inlined into functions that are compiled for several kinds of
// vectors (PARTITA_VECTORISED); the program chooses one of these as it starts.
//
// Example: table = {{3, 1}, {0, 5}}, minus = {1, 0}: min_minus() gives out = {min(3 - 1, 0 - 0), min(1 - 1, 5 - 0)} =
// {0, 0}.
#pragma once
#include <algorithm>
#include <cstddef>

#include "partita/solver/pair_table.h"

// No fused operations, which only some processors have: answers are the same on all.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PARTITA_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#define PARTITA_WIDE __attribute__((target("arch=x86-64-v4"), optimize("O3", "fp-contract=off")))
#define PARTITA_HALVED __attribute__((target_clones("avx2", "default"), optimize("O3")))
#define PARTITA_HAS_WIDE __builtin_cpu_supports("x86-64-v4")
#else
#define PARTITA_VECTORISED
#define PARTITA_WIDE
#define PARTITA_HALVED
#define PARTITA_HAS_WIDE false
#endif
#define PARTITA_INLINE inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wpsabi"  // warns of functions that take vectors; these are inlined

namespace partita::solver {

// Eight numbers. If registers hold four, the compiler would compare a vector of eight one by one. So functions come
// twice, as PARTITA_WIDE of Eight and as PARTITA_HALVED of Halves, and wide_vectors() says which runs.
using Eight = double __attribute__((vector_size(64)));
using EightAnywhere = double __attribute__((vector_size(64), aligned(8), may_alias));
using Four = double __attribute__((vector_size(32)));
using FourAnywhere = double __attribute__((vector_size(32), aligned(8), may_alias));
struct Halves {
  Four low, high;
};

inline bool wide_vectors() {
  static const bool wide = PARTITA_HAS_WIDE;
  return wide;
}

inline constexpr int kLanes = 8;

PARTITA_INLINE void load(const double* from, Eight& x) { x = *reinterpret_cast<const EightAnywhere*>(from); }
PARTITA_INLINE void store(const Eight& x, double* to) { *reinterpret_cast<EightAnywhere*>(to) = x; }
PARTITA_INLINE Eight lesser(const Eight& x, const Eight& y) { return x < y ? x : y; }
PARTITA_INLINE void fill(double value, Eight& x) { x = Eight{} + value; }

PARTITA_INLINE void load(const double* from, Halves& x) {
  x.low = *reinterpret_cast<const FourAnywhere*>(from);
  x.high = *reinterpret_cast<const FourAnywhere*>(from + 4);
}
PARTITA_INLINE void store(const Halves& x, double* to) {
  *reinterpret_cast<FourAnywhere*>(to) = x.low;
  *reinterpret_cast<FourAnywhere*>(to + 4) = x.high;
}
PARTITA_INLINE Halves lesser(const Halves& x, const Halves& y) {
  return {x.low < y.low ? x.low : y.low, x.high < y.high ? x.high : y.high};
}
PARTITA_INLINE Halves operator-(const Halves& x, double y) { return {x.low - y, x.high - y}; }
PARTITA_INLINE void fill(double value, Halves& x) { x = {Four{} + value, Four{} + value}; }

template <typename V>
PARTITA_INLINE V load(const double* from) {
  V x;
  load(from, x);
  return x;
}

// The least over rows of table - minus, for as many columns as stay in registers. They are `kVectors` x 8, the last 8
// from `last` on, beside or over others. It takes `kRows` rows at a time, as few columns would wait for each other.
template <typename V, int kVectors, int kRows>
PARTITA_INLINE void min_minus_of(const double* table, const double* minus, int rows, size_t width, int last,
                                 double* out) {
  V least[kRows][kVectors];
  for (auto& of_row : least)
    for (V& x : of_row) fill(kInfinity, x);
  auto at = [last](int v) { return v == kVectors - 1 ? last : kLanes * v; };
  int i = 0;
  for (; i + kRows <= rows; i += kRows)
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        least[r][v] = lesser(load<V>(table + (i + r) * width + at(v)) - minus[i + r], least[r][v]);
  for (; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) least[0][v] = lesser(load<V>(table + i * width + at(v)) - minus[i], least[0][v]);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int r = 1; r < kRows; ++r) least[0][v] = lesser(least[r][v], least[0][v]);
    store(least[0][v], out + at(v));
  }
}

// The same for fewer columns than a vector has.
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

// out[j] = min_i (table[i][j] - minus[i]); table is row-major, with a row at least. A table that is too large for the
// cache near by is read row by row.
template <typename V>
PARTITA_INLINE void min_minus(const double* table, const double* minus, int rows, int columns, double* out) {
  constexpr size_t kNear = 1 << 16;  // entries
  const auto width = static_cast<size_t>(columns);
  switch (columns) {
    case 1:
      return min_minus_of_few<1>(table, minus, rows, out);
    case 2:
      return min_minus_of_few<2>(table, minus, rows, out);
    case 3:
      return min_minus_of_few<3>(table, minus, rows, out);
    case 4:
      return min_minus_of_few<4>(table, minus, rows, out);
    case 5:
      return min_minus_of_few<5>(table, minus, rows, out);
    case 6:
      return min_minus_of_few<6>(table, minus, rows, out);
    case 7:
      return min_minus_of_few<7>(table, minus, rows, out);
    default:
      break;
  }
  if (rows * width <= kNear) {
    int j = 0;
    for (; columns - j > 4 * kLanes; j += 4 * kLanes)
      min_minus_of<V, 4, 1>(table + j, minus, rows, width, 3 * kLanes, out + j);
    j = std::min(j, columns - kLanes);
    const int last = columns - j - kLanes;
    switch ((last + kLanes - 1) / kLanes) {
      case 0:
        return min_minus_of<V, 1, 4>(table + j, minus, rows, width, last, out + j);
      case 1:
        return min_minus_of<V, 2, 2>(table + j, minus, rows, width, last, out + j);
      case 2:
        return min_minus_of<V, 3, 1>(table + j, minus, rows, width, last, out + j);
      default:
        return min_minus_of<V, 4, 1>(table + j, minus, rows, width, last, out + j);
    }
  }
  for (int j = 0; j < columns; ++j) out[j] = table[j] - minus[0];
  int i = 1;
  for (; i + 4 <= rows; i += 4) {
    const double *a = table + i * width, *b = a + width, *c = b + width, *d = c + width;
    for (int j = 0; j < columns; j += kLanes) {
      const int at = std::min(j, columns - kLanes);
      const V ab = lesser(load<V>(a + at) - minus[i], load<V>(b + at) - minus[i + 1]),
              cd = lesser(load<V>(c + at) - minus[i + 2], load<V>(d + at) - minus[i + 3]);
      store(lesser(lesser(ab, cd), load<V>(out + at)), out + at);
    }
  }
  for (; i < rows; ++i) min_minus_row(table + i * width, minus[i], columns, out);
}

// The first of the smallest; 0 if there are none.
template <typename V>
PARTITA_INLINE int least_of(const double* values, int count) {
  double least = kInfinity;
  int i = 0;
  if (count >= kLanes) {
    V lanes = load<V>(values);
    for (i = kLanes; i + kLanes <= count; i += kLanes) lanes = lesser(load<V>(values + i), lanes);
    double of_lanes[kLanes];
    store(lanes, of_lanes);
    for (double of_lane : of_lanes) least = of_lane < least ? of_lane : least;
  }
  for (; i < count; ++i) least = values[i] < least ? values[i] : least;
  int first = 0;
  while (first < count && values[first] != least) ++first;
  return first < count ? first : 0;
}

// sums[own value] += `times` x the cost beside that value of the other.
PARTITA_INLINE void add_beside(const PairView& view, int other_value, double times, int own_values,
                               double* __restrict sums) {
  const double* __restrict costs = view.by_other + static_cast<size_t>((*view.other)(other_value)) * view.own->count;
  if (view.own->all_differ()) {
    for (int x = 0; x < own_values; ++x) sums[x] += times * costs[x];
  } else {
    const int* of = view.own->of.data();
    for (int x = 0; x < own_values; ++x) sums[x] += times * costs[of[x]];
  }
}

// out[own value] = min over the other's values of cost - minus[other value]. `scratch` takes a number for each kind of
// both.
template <typename V>
PARTITA_INLINE void min_minus(const PairView& view, const double* __restrict minus, int own_values,
                              double* __restrict scratch, double* __restrict out) {
  const ValueKinds &other = *view.other, &own = *view.own;
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
  if (own.all_differ()) return min_minus<V>(view.by_other, minus, other.count, own_values, out);
  min_minus<V>(view.by_other, minus, other.count, own.count, scratch);
  const int* of = own.of.data();
  for (int x = 0; x < own_values; ++x) out[x] = scratch[of[x]];
}

}  // namespace partita::solver

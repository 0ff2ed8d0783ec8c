// The inner loop of message passing, for functions that are compiled for several kinds of vectors and choose as the program starts.
#pragma once
#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PARTITA_VECTORISED __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define PARTITA_VECTORISED
#endif

namespace partita::solver {

// out[j] = min_i (table[i][j] - minus[i]); table is row-major.
inline __attribute__((always_inline)) void min_minus(const double* __restrict table, const double* __restrict minus, int rows, int columns, double* __restrict out) {
  const double first = minus[0];
  for (int j = 0; j < columns; ++j) out[j] = table[j] - first;
  for (int i = 1; i < rows; ++i) {
    const double* row = table + static_cast<size_t>(i) * columns;
    const double m = minus[i];
    for (int j = 0; j < columns; ++j) {
      const double cost = row[j] - m;
      out[j] = cost < out[j] ? cost : out[j];
    }
  }
}

}  // namespace partita::solver

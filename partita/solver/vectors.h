// The inner loops of message passing, compiled for several kinds of vectors; the one for the machine is chosen as the program starts.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PARTITA_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "avx2", "default"), optimize("O3")))
#else
#define PARTITA_VECTORISED
#endif

namespace partita::solver {

// out[j] = min_i (table[i][j] - minus[i]); table is row-major, with a row at least.
void min_minus(const double* table, const double* minus, int rows, int columns, double* out);

// The first of the smallest; 0 where there are none.
int least_of(const double* values, int count);

}  // namespace partita::solver

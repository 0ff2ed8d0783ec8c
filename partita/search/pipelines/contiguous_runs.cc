// Cuts costs into runs by a dynamic program.
#include "partita/search/pipelines/contiguous_runs.h"

#include <algorithm>
#include <limits>

namespace partita {

std::vector<int> contiguous_runs(const std::vector<double>& costs, int runs) {
  const size_t n = costs.size();
  runs = std::min(runs, std::max(1, static_cast<int>(n)));
  std::vector<double> sum(n + 1, 0);
  for (size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + costs[i];
  // best[k][i]: the largest run of the first i > k in k + 1 runs; from[k][i]: the begin of the last of them.
  std::vector<std::vector<double>> best(runs, std::vector<double>(n + 1, 0));
  std::vector<std::vector<size_t>> from(runs, std::vector<size_t>(n + 1, 0));
  for (size_t i = 0; i <= n; ++i) best[0][i] = sum[i];
  for (int k = 1; k < runs; ++k)
    for (size_t i = static_cast<size_t>(k) + 1; i <= n; ++i) {
      best[k][i] = std::numeric_limits<double>::infinity();
      for (size_t j = static_cast<size_t>(k); j < i; ++j) {
        const double largest = std::max(best[k - 1][j], sum[i] - sum[j]);
        if (largest < best[k][i]) best[k][i] = largest, from[k][i] = j;
      }
    }
  std::vector<int> run(n, 0);
  size_t end = n;
  for (int k = runs - 1; k > 0; --k) {
    for (size_t i = from[k][end]; i < end; ++i) run[i] = k;
    end = from[k][end];
  }
  return run;
}

}  // namespace partita

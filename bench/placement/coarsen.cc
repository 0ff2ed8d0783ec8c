// Times coarsening: an unrolled training step of 30,000 operations to 200 vertices, and through levels to 50.
#include "partita/device_placement/coarsen.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "partita/device_placement/testing/unrolled_problem.h"

using namespace partita;

namespace {

constexpr uint64_t kSeed = 1;

// All time by that of the longest path, transfers not counted.
double parallelism(const PlacementProblem& p) {
  std::vector<int64_t> end(p.ops.size(), 0);
  int64_t all = 0;
  for (size_t o = 0; o < p.ops.size(); ++o) {
    const int64_t ns = *std::max_element(p.ops[o].ns.begin(), p.ops[o].ns.end());
    for (int v : p.ops[o].reads)
      end[o] = std::max(end[o], end[static_cast<size_t>(p.values[static_cast<size_t>(v)].producer)]);
    end[o] += ns;
    all += ns;
  }
  return static_cast<double>(all) / static_cast<double>(*std::max_element(end.begin(), end.end()));
}

template <typename F>
void time(const char* what, const F& run) {
  std::vector<double> ms;
  PlacementProblem coarse;
  for (int i = 0; i < 11; ++i) {
    const auto from = std::chrono::steady_clock::now();
    coarse = run();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count());
  }
  std::sort(ms.begin(), ms.end());
  fmt::print("{:<28}{:>6} vertices {:>7} values, parallelism {:.2f} {:>8.1f} ms (median of {}; {:.1f} to {:.1f})\n",
             what, coarse.ops.size(), coarse.values.size(), parallelism(coarse), ms[ms.size() / 2], ms.size(),
             ms.front(), ms.back());
}

}  // namespace

int main() {
  const PlacementProblem fine = unrolled_problem(2, 563, kSeed);
  validate(fine);
  size_t reads = 0;
  for (const PlacedOp& op : fine.ops) reads += op.reads.size();
  fmt::print("2 layers, 563 steps, seed {}: {} operations, {} values, read {} times, parallelism {:.2f}\n", kSeed,
             fine.ops.size(), fine.values.size(), reads, parallelism(fine));
  const CoarsenOptions options;
  fmt::print("a vertex or group has at most {:.0f}% of all time and {:.0f}% of all bytes\n", 100 * options.time_share,
             100 * options.memory_share);
  time("to 200", [&] { return coarsen(fine, 200, options).problem; });
  time("to 200, values joined", [&] { return coarsen(fine, 200, {.join_values = true}).problem; });
  time("to 200, as the paper prints",
       [&] { return coarsen(fine, 200, {.time_share = 1, .memory_share = 1, .edges_alone = true}).problem; });
  time("to 200, kept parallel", [&] { return coarsen(fine, 200, {.keep_parallel = true}).problem; });
  time("levels, kept parallel", [&] {
    return coarsen_levels(fine, {4000, 1000, 200, 50}, {.keep_parallel = true}).back().problem;
  });
}

// How long coarsening takes: an unrolled training step of 30,000 operations to 200 vertices, and through levels to 50.
#include "partita/placement/coarsen.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "partita/placement/testing/unrolled_problem.h"

using namespace partita;

namespace {

constexpr uint64_t kSeed = 1;

template <typename F>
void time(const char* what, const F& run) {
  std::vector<double> ms;
  size_t vertices = 0, values = 0;
  for (int i = 0; i < 11; ++i) {
    const auto from = std::chrono::steady_clock::now();
    const PlacementProblem coarse = run();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count());
    vertices = coarse.ops.size();
    values = coarse.values.size();
  }
  std::sort(ms.begin(), ms.end());
  fmt::print("{:<28}{:>6} vertices {:>7} values {:>8.1f} ms (median of {}; {:.1f} to {:.1f})\n", what, vertices, values,
             ms[ms.size() / 2], ms.size(), ms.front(), ms.back());
}

}  // namespace

int main() {
  const PlacementProblem fine = unrolled_problem(2, 563, kSeed);
  verify(fine);
  size_t reads = 0;
  for (const PlacedOp& op : fine.ops) reads += op.reads.size();
  fmt::print("2 layers, 563 steps, seed {}: {} operations, {} values, read {} times\n", kSeed, fine.ops.size(),
             fine.values.size(), reads);
  const CoarsenOptions options;
  fmt::print("a vertex or group has at most {:.0f}% of all time and {:.0f}% of all bytes\n", 100 * options.time_share,
             100 * options.memory_share);
  time("to 200", [&] { return coarsen(fine, 200, options).problem; });
  time("to 200, values joined", [&] { return coarsen(fine, 200, {.join_values = true}).problem; });
  time("to 200, kept parallel", [&] { return coarsen(fine, 200, {.keep_parallel = true}).problem; });
  time("levels, kept parallel", [&] {
    return coarsen_levels(fine, {4000, 1000, 200, 50}, {.keep_parallel = true}).back().problem;
  });
}

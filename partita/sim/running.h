// Internal to sim/: what runs now, and when it ends. Where all devices share a machine's cores (Machine, profile.h),
// how fast something runs depends on what else runs.
//
// With `busy` threads on `cores` cores, a node takes times as long as alone
//     (1 + (together - 1) (min(busy, cores) - 1) / (cores - 1)) max(1, busy / cores),
// over the same for its own threads. `together` was measured with all cores busy: caches and memory are shared.
//
// Example: two cores, three kernels that are bound by arithmetic (together = 1): each takes 1.5 times as long.
#pragma once
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "partita/sim/nodes.h"

namespace partita {

// Bad input where it is more than three years: a step that long follows from figures that are wrong.
void expect_short(double step_ns);

class Running {
 public:
  explicit Running(int cores) : cores_(cores) {}
  void start(int64_t run, const SimNode& node, int64_t now);
  // When the first of them ends, as far as is known; there is one.
  int64_t next_end() const;
  bool empty() const { return ends_.empty() && sharing_.empty(); }
  // Moves on to a time, at most next_end(). What ends then, by number.
  std::vector<int64_t> ended(int64_t now);

 private:
  struct Sharing {
    int64_t run = 0;
    double left_ns = 0;  // alone
    int threads = 1;
    double together = 1;
  };
  double slowdown(const Sharing& s, int busy) const;
  int busy() const;

  int cores_;  // 0: each device has its own processor, and nothing depends on anything else
  using End = std::pair<int64_t, int64_t>;  // time and run
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::vector<Sharing> sharing_;
  int64_t now_ = 0;
};

}  // namespace partita

// Rounds the times of formulas to whole nanoseconds.
#pragma once
#include <cmath>
#include <cstdint>

namespace partita {

// The most that a task takes: 115 days. A time that is longer, or no number, counts as so long, and a simulation of it
// is refused.
constexpr int64_t kMostNs = 10'000'000'000'000'000;

inline int64_t whole_ns(double ns, int64_t least) {
  if (!(ns < static_cast<double>(kMostNs))) return kMostNs;
  const int64_t whole = std::llround(ns);
  return whole < least ? least : whole;
}

}  // namespace partita

// Shares out a search's remaining time.
//
// Example: with a deadline in 10 s, share_of_time(options, 0.3) is 3 s from now; asked again 2 s later, it is 2.4 s
// from then. Without a deadline there is none.
#pragma once
#include "partita/solver/solver.h"

namespace partita::solver {

// The end of that share of the remaining time.
inline std::optional<std::chrono::steady_clock::time_point> share_of_time(const Options& options, double share) {
  using Clock = std::chrono::steady_clock;
  if (!options.deadline) return std::nullopt;
  return Clock::now() + std::chrono::duration_cast<Clock::duration>((*options.deadline - Clock::now()) * share);
}

inline bool is_stopped(const Options& options) { return options.stop && *options.stop; }

// Tells whether it was stopped, or the deadline is over, or would be in that time.
inline bool is_out_of_time(const Options& options, std::chrono::steady_clock::duration later = {}) {
  return is_stopped(options) || (options.deadline && std::chrono::steady_clock::now() + later > *options.deadline);
}

}  // namespace partita::solver

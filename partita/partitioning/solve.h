// Solves placement instances for `partita place`: starts, the dynamic program over ideals, annealing, branch and bound,
// in this order, each from the best so far. cost.h checks the result.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "partita/base/watch.h"
#include "partita/partitioning/cost.h"

namespace partita::partitioning {

struct Options {
  bool contiguous = false;  // max-load
  int subgraphs = 1;        // latency: of each accelerator
  uint64_t seed = 0;
  std::optional<int64_t> steps;  // rounds of annealing; without them see Rounds
  double gap = 0;                // stop once (value - bound) <= gap * value
  Watch watch;
  std::function<void(const std::string& doing, double best, double bound)> progress;  // best may be infinite
};

// The result of either objective: `place` is Devices or Subgraphs.
struct Result {
  std::optional<std::vector<int>> place;
  double value = 0;
  double bound = 0;  // no allowed assignment has a smaller value; infinite: there is none
  bool proved = false;
  long long ideals = 0;  // of the dynamic program; 0 if it did not run to its end
};

// Bound and value are equal if they differ by less than this part.
constexpr double kSame = 1e-9;

// Ends annealing: after `steps` rounds; without them after half of the time that is left, or without a deadline after
// kStale rounds without a better value.
struct Rounds {
  static constexpr int64_t kStale = 16;
  explicit Rounds(const Options& options);
  bool more(double value);  // before each round, with the best value so far
  Watch watch;

 private:
  std::optional<int64_t> steps_;
  int64_t done_ = 0, better_ = 0;  // rounds; the last one that found a better value
  double value_;
};

Result solve_max_load(const Instance& instance, const Options& options);
Result solve_latency(const Instance& instance, const Options& options);

}  // namespace partita::partitioning

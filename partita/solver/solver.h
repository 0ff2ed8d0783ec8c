// Solves a cost network: repeated parts folded for a first solution, reduction without loss, variable elimination where
// its tables fit, message passing on the dual with multipliers for the limit, local search by exact moves of blocks,
// branch and bound. Anytime: it can be stopped at any moment and keeps the best (docs/solve.md).
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "partita/network/certificate.h"
#include "partita/network/network.h"

namespace partita::solver {

struct Progress {
  std::optional<Wide> cost;   // of the best solution so far
  std::optional<Wide> bound;  // proved so far
  double seconds = 0;
};

struct Options {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::optional<int64_t> max_steps;  // rounds of work; with it and without a deadline the answer is the same everywhere
  uint64_t seed = 0;
  int patience =
      2;  // rounds without a better solution, after which most of them are the dual's alone as long as it gets on
  int threads = 2;                  // at most; their number changes no answer
  std::optional<Assignment> start;  // a solution to begin with; it need not be feasible
  std::shared_ptr<const Certificate::Leaf> messages =
      nullptr;          // and multipliers, to begin the dual with; any prove something
  double gap = 0;       // relative: stop when (cost - bound) <= gap * |cost|
  bool certify = true;  // go on until the certificate proves the optimum, though it has been computed
  int64_t elimination_bytes = int64_t{1} << 30;  // of its tables; 0: none
  int64_t at_once = 1 << 20;  // looks at table entries, about 2 ns each: where elimination takes no more, it is all
                              // that is done; 0: never
  int64_t large =
      1'000'000;  // table entries of a pass: from there on likely values stand for all of a folding, and parts come
                  // first, where there are many, or narrowing; from a thousand times as many on, parts do
  std::function<void(const std::string&)> tell;  // what was reduced and eliminated, in words
  std::function<void(const Progress&)> progress;
  std::function<void(const Assignment&)>
      proving;  // the best solution so far, which one thread goes on to prove: most often it is the answer
  const std::atomic<bool>* stop = nullptr;
};

enum class Status {
  kOptimal,     // the solution's cost is the bound (within the gap that was asked for)
  kFeasible,    // a solution; stopped before the proof was done
  kInfeasible,  // proved: there is no solution
  kUnknown,     // stopped before any solution
};

struct Result {
  Status status = Status::kUnknown;
  std::optional<Assignment> solution;  // judged by evaluate()
  Wide cost = 0;                       // of the solution
  std::optional<Wide>
      bound;  // proved by the certificate, or computed by elimination, narrowing, parts or the dual; empty: none yet
  Certificate certificate;  // check() accepts it; no leaves: none. Its bound may be below `bound`
  std::map<std::string, double> counters;
};

Result solve(const Network& network, const Options& options);

// cost - bound <= gap * |cost|, as Options::gap has it.
bool is_within(double gap, Wide cost, Wide bound);

std::string_view name_of(Status status);

}  // namespace partita::solver

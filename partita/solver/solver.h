// Solves a cost network by a portfolio of stages (portfolio.cc). Repeated parts are folded for a first solution. After
// a reduction without loss, the rest is eliminated if the tables fit. Otherwise message passing on the dual, with
// multipliers for the limit, runs beside local search by exact moves of blocks, and branches. Anytime: it can be
// stopped at any moment and keeps the best (docs/reference/solve.md).
//
// Example: costs = {{0, 3}, {1, 0}} and an edge over both, with table {5, 0, 0, 5}. solve(network, {}) gives status
// kOptimal, solution (0, 1), cost and bound 0, and a certificate of one leaf that is eliminated in order.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "partita/base/threads.h"
#include "partita/network/certificate.h"
#include "partita/network/network.h"

namespace partita::solver {

struct Progress {
  std::optional<Wide> cost;   // of the best solution so far
  std::optional<Wide> bound;  // proved so far
  double seconds = 0;
};

struct Options {
  // Limits.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::optional<int64_t> max_steps;  // rounds; with it and without a deadline the answer is the same everywhere
  const std::atomic<bool>* stop = nullptr;
  double gap = 0;       // relative: stop when (cost - bound) <= gap * |cost|
  bool certify = true;  // go on until the certificate proves the optimum, even if it has been computed

  // Start.
  uint64_t seed = 0;
  std::optional<Assignment> start;                              // a solution; it need not be feasible
  std::shared_ptr<const Certificate::Leaf> messages = nullptr;  // and multipliers, for the dual; any are valid

  // Effort.
  int threads = kFewThreads;  // at most; the number does not affect the answer
  // Rounds without a better solution, after which most are the dual's alone as long as it advances.
  int patience = 2;
  int64_t elimination_bytes = int64_t{1} << 30;  // of elimination's tables; 0 turns elimination off
  // Reads of table entries, about 2 ns each: if elimination takes no more, it is all that is done. 0: never.
  int64_t at_once = 1 << 20;
  // A network is large from this many table entries of a pass on: likely values then stand for all of a folding. Parts
  // come first if there are many. Tuning::very_large times as many are very large.
  int64_t large = 1'000'000;

  // Reports.
  std::function<void(const std::string&)> tell;    // what was reduced and eliminated, in words
  std::function<void(const Progress&)> progress;   // about once a second
  std::function<void(const Assignment&)> proving;  // the best solution so far, which one thread goes on to prove: most
                                                   // often it is the answer
};

enum class Status {
  kOptimal,     // the solution's cost is the bound (within the gap that was asked for)
  kFeasible,    // a solution; stopped before the proof was done
  kInfeasible,  // proved: there is no solution
  kUnknown,     // stopped before any solution
};

struct Result {
  Status status = Status::kUnknown;
  std::optional<Assignment> solution;  // checked by evaluate()
  Wide cost = 0;                       // of the solution
  // Proved by the certificate, or computed by elimination, narrowing, parts or the dual; empty if there is none yet.
  std::optional<Wide> bound;
  Certificate certificate;  // check() accepts it; no leaves: none. Its bound may be below `bound`
  std::map<std::string, double> counters;
};

Result solve(const Network& network, const Options& options);

// Tells whether cost - bound <= gap * |cost|, as Options::gap has it.
bool is_within(double gap, Wide cost, Wide bound);

std::string_view name_of(Status status);

}  // namespace partita::solver

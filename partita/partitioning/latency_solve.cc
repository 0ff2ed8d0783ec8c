// Runs the stages of the latency solver.
#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/partitioning/latency.h"
#include "partita/partitioning/solve.h"

namespace partita::partitioning {

namespace {

constexpr uint64_t kOrders = 32;
constexpr int kMovesOfNode = 1000, kMostMoves = 1'000'000;  // in a round of annealing
constexpr int64_t kFirstTries = 20'000, kTries = 300'000;   // of branch and bound, before and after annealing

class Latencies {
 public:
  Latencies(const Instance& instance, const Options& options)
      : instance_(instance), options_(options), q_(options.subgraphs) {}

  Result solve() {
    result_.value = std::numeric_limits<double>::infinity();
    take(Subgraphs(instance_.nodes.size(), kCpu));
    for (uint64_t draw = 0; draw < kOrders && !done(); ++draw) {
      say("intervals of an order");
      take(greedy_subgraphs(instance_, q_, options_.seed + draw));
      take(best_intervals(instance_, q_, false, options_.seed + draw, options_.watch));
      if (q_ > 1) take(best_intervals(instance_, q_, true, options_.seed + draw, options_.watch));
    }
    say("bounds of paths");
    if (!done()) result_.bound = std::min(result_.value, path_bound(instance_, q_, options_.watch));
    branch(kFirstTries);
    anneal();
    branch(options_.steps ? std::min(kTries, kFirstTries * std::min<int64_t>(kTries, *options_.steps)) : kTries);
    result_.proved = near(kSame);
    if (result_.proved) result_.bound = result_.value;
    const auto wrong = wrong_subgraphs(instance_, *result_.place, q_);
    ensure(!wrong, "the placement is not allowed: {}", wrong.value_or(""));
    return result_;
  }

 private:
  bool near(double gap) const { return result_.value - result_.bound <= gap * result_.value; }
  bool done() const { return options_.watch.ended() || near(std::max(options_.gap, kSame)); }
  void say(const char* doing) const {
    if (options_.progress) options_.progress(doing, result_.value, result_.bound);
  }
  void take(const Subgraphs& place) {
    if (wrong_subgraphs(instance_, place, q_)) return;
    const double value = latency_of(instance_, place, q_)->total;
    if (!(value < result_.value)) return;
    result_.value = value;
    result_.place = place;
  }

  void anneal() {
    constexpr double kHot[] = {0.02, 0.001, 0.1, 0.01};  // temperatures at the start, in turn
    const int n = static_cast<int>(instance_.nodes.size());
    Rounds rounds(options_);
    for (int64_t round = 0; rounds.more(result_.value) && !done(); ++round) {
      say("annealing");
      LatencySearch search;
      search.subgraphs = q_;
      search.seed = options_.seed + round;
      search.moves = std::min(kMostMoves, kMovesOfNode * n);
      search.hot = kHot[round % std::size(kHot)];
      take(annealed_latency(instance_, *result_.place, search, rounds.watch));
    }
  }

  void branch(long long tries) {
    if (done()) return;
    say("branch and bound");
    const LatencyBranch found = branch_latency(instance_, q_, result_.value, tries, options_.watch);
    if (found.place) take(*found.place);
    if (found.complete) result_.bound = result_.value;
  }

  const Instance& instance_;
  const Options& options_;
  int q_;
  Result result_;
};

}  // namespace

Result solve_latency(const Instance& instance, const Options& options) { return Latencies(instance, options).solve(); }

}  // namespace partita::partitioning

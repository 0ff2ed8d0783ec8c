// Runs the stages of the max-load solver.
#include "partita/partitioning/solve.h"

#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/partitioning/branch.h"
#include "partita/partitioning/ideals.h"
#include "partita/partitioning/search.h"

namespace partita::partitioning {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint64_t kOrders = 32;
constexpr long long kMostIdeals = 20'000'000;           // times numbers of devices: 12 bytes each
constexpr int kMovesOfUnit = 4000;                      // in a round of annealing
constexpr int kMostMoves = 4'000'000;                   // in a round
constexpr int64_t kFirstCuts = 4'000, kCuts = 400'000;  // of branch and bound, before and after annealing
constexpr int64_t kCutsOfRound = 5'000;  // if the rounds of annealing are given, at most so many for each

class MaxLoad {
 public:
  MaxLoad(const Instance& instance, const Options& options)
      : instance_(instance), options_(options), units_(color_units(instance, options.contiguous)) {}

  Result solve() {
    result_.value = kInfinity;
    result_.bound = balance_bound(units_);
    if (result_.bound < kInfinity) {
      for (int d = 0; d < instance_.accelerators + instance_.cpus; d += std::max(1, instance_.accelerators))
        take(Devices(instance_.nodes.size(), d));  // all on the first of a kind
      if (auto split = heaviest_first(units_, options_.contiguous)) take(devices_of(units_, *split));
      orders();
      branch(kFirstCuts);
      if (options_.contiguous && !done()) ideals();
      if (!done()) anneal();
      branch(std::min(kCuts, kCutsOfRound * std::min<int64_t>(kCuts, options_.steps.value_or(kCuts))));
    }
    result_.proved = result_.bound == kInfinity || (result_.place && near(kSame));
    if (result_.proved && result_.place) result_.bound = result_.value;
    if (result_.place) {
      const auto wrong = wrong_devices(instance_, *result_.place, options_.contiguous);
      ensure(!wrong, "the placement is not allowed: {}", wrong.value_or(""));
    }
    return result_;
  }

 private:
  bool near(double gap) const { return result_.value - result_.bound <= gap * result_.value; }
  bool done() const {
    return options_.watch.ended() || result_.bound == kInfinity ||
           (result_.place && near(std::max(options_.gap, kSame)));
  }
  void say(const char* doing) const {
    if (options_.progress) options_.progress(doing, result_.value, result_.bound);
  }
  void take(const Devices& devices) {
    const double value = max_load(instance_, devices);
    if (!(value < result_.value) || wrong_devices(instance_, devices, options_.contiguous)) return;
    result_.value = value;
    result_.place = devices;
  }

  void orders() {
    for (uint64_t draw = 0; draw < kOrders && !done(); ++draw) {
      say("intervals of an order");
      if (const auto devices = best_of_order(instance_, result_.value, options_.seed + draw, options_.watch))
        take(*devices);
    }
  }

  void ideals() {
    say("dynamic program over ideals");
    const IdealsResult found = best_of_ideals(instance_, result_.value, options_.watch, kMostIdeals);
    if (found.devices) take(*found.devices);
    if (!found.complete) return;
    result_.ideals = found.ideals;
    if (found.enough) result_.bound = result_.value;
  }

  void anneal() {
    if (!result_.place) return;
    const int n = static_cast<int>(units_.units.size());
    // Rounds go on from the best, in turn colder and hotter.
    constexpr double kHot[] = {0.02, 0.005, 0.1, 0.3};
    Rounds rounds(options_);
    for (int64_t round = 0; rounds.more(result_.value) && !done(); ++round) {
      say("annealing");
      SearchOptions search;
      search.contiguous = options_.contiguous;
      search.seed = options_.seed + round;
      search.moves = std::min(kMostMoves, kMovesOfUnit * n);
      search.hot = kHot[round % std::size(kHot)];
      take(devices_of(units_, anneal_split(units_, devices_of_units(units_, *result_.place), search, rounds.watch)));
    }
  }

  void branch(long long cuts) {
    if (done()) return;
    BranchOptions branching;
    branching.contiguous = options_.contiguous;
    branching.cuts = cuts;
    branching.below = result_.value;
    branching.progress = [this] { say("branch and bound"); };
    const BranchResult found = branch_and_bound(units_, branching, options_.watch);
    if (found.split) take(devices_of(units_, *found.split));
    result_.bound = std::max(result_.bound, std::min(found.bound, result_.value));
  }

  const Instance& instance_;
  const Options& options_;
  const Units units_;
  Result result_;
};

}  // namespace

Rounds::Rounds(const Options& options)
    : watch(options.steps ? options.watch : options.watch.share(0.5)),
      steps_(options.steps),
      value_(std::numeric_limits<double>::infinity()) {}

bool Rounds::more(double value) {
  if (value < value_) better_ = done_;
  value_ = value;
  if (watch.ended()) return false;
  if (steps_ ? done_ >= *steps_ : !watch.deadline && done_ - better_ >= kStale) return false;
  ++done_;
  return true;
}

Result solve_max_load(const Instance& instance, const Options& options) { return MaxLoad(instance, options).solve(); }

}  // namespace partita::partitioning

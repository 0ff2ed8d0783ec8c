#include "partita/solver/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partita/base/error.h"
#include "partita/solver/dual.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/fusion.h"
#include "partita/solver/reduce.h"
#include "partita/solver/rounds.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

class Steps {
 public:
  Steps(const Network& network, const Assignment& solution, const Certificate::Leaf& messages, const Options& options,
        const PairTables* made)
      : n_(network), o_(options), made_(made), messages_(messages), kept_(all_values(network)), rest_(network, kept_) {
    result_.solution = solution;
    result_.cost = evaluate(n_, solution).cost;
  }

  // `known`: a bound.
  Result run(std::optional<Wide> known) {
    constexpr int kMost = 60;
    for (int step = 0; step < kMost && !stop(); ++step) {
      const auto plan = plan_to_prove(rest_.network(), o_.elimination_bytes);
      const bool sweeps_first = !plan || !is_quick(*plan);
      bool less = sweeps_first && sweep();
      if (!less) {
        if (plan) eliminate_rest(*plan);
        aimed_too_low_ = result_.bound && std::isfinite(aim_) && static_cast<double>(*result_.bound) >= aim_;
        if (is_closed(result_, o_.gap) || aimed_too_low_) break;
        less = (!sweeps_first && sweep()) || (aim_lower(known) && sweep());
      }
      if (!less) break;
      dominate();
    }
    if (result_.certificate.leaves.empty()) result_.certificate = {};
    result_.status = result_.bound == result_.cost ? Status::kOptimal : Status::kFeasible;
    return std::move(result_);
  }

  // Nothing costs less than what was aimed at.
  bool aimed_too_low() const { return aimed_too_low_; }

 private:
  static std::vector<std::vector<int>> all_values(const Network& network) {
    std::vector<std::vector<int>> all;
    for (int v = 0; v < network.variables(); ++v) {
      all.emplace_back(network.domain(v));
      std::iota(all.back().begin(), all.back().end(), 0);
    }
    return all;
  }

  // `stays`(variable, place of a value among those kept); of each variable one does.
  void keep(const std::function<bool(int v, size_t place)>& stays) {
    for (int v = 0; v < n_.variables(); ++v) {
      std::vector<int> values;
      for (size_t x = 0; x < kept_[v].size(); ++x)
        if (stays(v, x)) values.push_back(kept_[v][x]);
      if (values.empty()) values.push_back(kept_[v][0]);
      kept_[v] = std::move(values);
    }
    rest_ = Subset(n_, kept_);
  }

  // Of the last step.
  const Certificate::Leaf& latest() const {
    return result_.certificate.steps.empty() ? messages_ : result_.certificate.steps.back().sweep;
  }

  bool stop() const { return (o_.stop && *o_.stop) || (o_.deadline && Clock::now() > *o_.deadline); }

  // What a value must cost to be left out: it is not asked for less than that, or nothing less is aimed at.
  double enough() const {
    const double asked =
        std::min(aim_, static_cast<double>(result_.cost) - o_.gap * std::abs(static_cast<double>(result_.cost)));
    return result_.bound ? std::max(asked, static_cast<double>(*result_.bound)) : asked;  // which is claimed already
  }

  // The solution that there is may be far above the optimum, so that what costs as much is too little: where little is
  // left already, it is guessed that the optimum lies in the lower half of what there is between the bound and what is
  // enough. If so, elimination will find it; if not, it will prove that nothing costs less than the guess.
  bool aim_lower(const std::optional<Wide>& known) {
    constexpr double kLittleLeft = 0.25, kNear = 0.1, kVeryNear = 1e-4;  // of the table entries; of the cost
    double least = bound_;
    for (const std::optional<Wide>& proved : {known, result_.bound})
      if (proved) least = std::max(least, static_cast<double>(*proved));
    const double now = enough(), gap = now - least;
    if (static_cast<double>(left_) > kLittleLeft * static_cast<double>(whole_) || !(gap < kNear * std::abs(now)) ||
        gap < kVeryNear * std::abs(now))
      return false;
    aim_ = least + gap / 2;
    if (o_.tell) o_.tell(fmt::format("the optimum may be less than {:.0f}", aim_));
    return true;
  }

  // Passes until half of the table entries, or as many as will be, cost enough, and leaves them out. False if that is
  // next to nothing.
  bool sweep() {
    constexpr int kWindows = 50, kPasses = 2;  // passes a window, besides the two that tell what is left
    constexpr double kNextToNothing = 0.95, kGettingOn = 1e-3;  // of the entries; of the gap, a window
    constexpr double kHopeful = 3;  // windows over the whole, or as much work, by which something must cost enough
    constexpr double kFar = 0.03, kFast = 0.1;  // or else the gap be small, or that much of it go away by a window
    constexpr int kMessagesFirst = 4, kLeastWindows = 8;  // passes, before prices move; where they do
    const Model m = compile(rest_.network(), made_);
    if (m.sweep == 0) return false;
    Dual dual(m);
    dual.begin(rest_.lowered(latest()));
    const Alive all(m.unary.size(), 1);
    const Rounding rounding(m);
    if (whole_ == 0) whole_ = m.sweep;
    left_ = m.sweep;
    Ascent ascent;
    Alive left;
    Dual::State state;
    double share = 1;
    bool fuses = true;
    bool priced = m.limited && !latest().multipliers.empty();  // or where passes alone do not get on
    int priced_from = 0;                                       // window
    bound_ = -kInfinity;
    for (int window = 0; window < kWindows && share > kLittle && !(window > 0 && stop()); ++window) {
      for (int pass = 0; pass < kPasses; ++pass)
        if (priced) ascent.pass(dual, all, static_cast<double>(result_.cost), kMessagesFirst);
        else dual.pass();
      if (priced) dual.set(ascent.state, all);
      const double before = std::exchange(bound_, dual.pass());
      state = dual.state();
      if (fuses) fuses = improve(dual.rounded());
      left = at_most(enough() + 1 + rounding.at(state.all_prices()), dual.least_costs(bound_));
      share = static_cast<double>(sweep_of(m, left)) / static_cast<double>(m.sweep);
      report(bound_ - rounding.at(state.all_prices()));
      const bool gets_on = bound_ - before >= kGettingOn * (enough() - bound_);
      if (m.limited && !priced && !gets_on && bound_ < enough()) {
        priced = true;
        priced_from = window + 1;
        continue;
      }
      if (m.limited == priced && window * static_cast<double>(m.sweep) >= kHopeful * static_cast<double>(whole_) &&
          share > kNextToNothing && enough() - bound_ > kFar * std::abs(enough()) &&
          bound_ - before < kFast * (enough() - bound_))
        return false;
      if (bound_ >= enough() || (!gets_on && (!priced || window >= priced_from + kLeastWindows))) break;
    }
    if (share > kNextToNothing) return false;
    Certificate::Leaf messages = rest_.lifted(dual.leaf(state, all), n_);
    if (o_.tell)
      o_.tell(fmt::format("left out: {:.0f}% of {} table entries, with a bound of {:.0f}", 100 * (1 - share), m.sweep,
                          bound_));
    keep([&](int v, size_t x) {
      return left[m.offset[v] + static_cast<int>(x)] || kept_[v][x] == (*result_.solution)[v];
    });
    least_left_out_ = std::min(least_left_out_, enough());
    result_.certificate.steps.push_back({std::move(messages), {}});
    return true;
  }

  // Whether the best that the solution and the dual's choice make is better.
  bool improve(Assignment choice) {
    choice.resize(static_cast<size_t>(n_.variables()));
    const auto made = fused(rest_.network(), {rest_.lowered(*result_.solution), std::move(choice)});
    if (!made) return false;
    Assignment x = rest_.whole(*made);
    const Evaluation e = evaluate(n_, x);
    if (!e.feasible || e.cost >= result_.cost) return false;
    result_.solution = std::move(x);
    result_.cost = e.cost;
    return true;
  }

  // What is left costs as much, and what was left out enough.
  void report(double bound) {
    if (!o_.progress || Clock::now() - reported_ < std::chrono::seconds(1) || !std::isfinite(bound)) return;
    reported_ = Clock::now();
    o_.progress({result_.cost, static_cast<Wide>(std::floor(std::min(bound, enough()))),
                 std::chrono::duration<double>(reported_ - began_).count()});
  }

  // Where little enough is left for it to come through.
  void dominate() {
    constexpr double kMost = 6e6;  // table entries
    if (entries_of(rest_.network()) > kMost) return;
    std::vector<std::vector<char>> gone;
    for (const std::vector<int>& values : kept_) gone.emplace_back(values.size(), 0);
    for (const auto& [v, x, y] : Reduction(rest_.network(), Reduction::Rules::kDominance).dominated()) {
      gone[v][x] = 1;
      result_.certificate.steps.back().dominated.push_back({v, kept_[v][x], kept_[v][y]});
    }
    keep([&](int v, size_t x) { return !gone[v][x]; });
  }

  // Elimination takes no longer than a step that leaves more out first.
  bool is_quick(const EliminationPlan& plan) const {
    constexpr double kLooks = 20;  // at each table entry
    const double entries = entries_of(rest_.network());
    return entries == 0 || static_cast<double>(plan.work) <= kLooks * entries;
  }

  // It proves no more than before where the limit is what it lacks, unless prices are better now.
  void eliminate_rest(const EliminationPlan& plan) {
    auto least = eliminate(rest_.network(), plan, [&] { return stop(); });
    if (!least) return;
    Certificate::Leaf leaf;
    leaf.order = plan.order;
    Wide bound = result_.cost;
    if (least_left_out_ < static_cast<double>(bound)) bound = static_cast<Wide>(std::ceil(least_left_out_));
    if (least->solution) {
      const Assignment x = rest_.whole(*least->solution);
      if (const Evaluation e = evaluate(n_, x); e.feasible && e.cost < result_.cost) {
        result_.solution = x;
        result_.cost = e.cost;
      } else if (!e.feasible && least->cost < bound && !latest().multipliers.empty()) {
        const auto priced = eliminated_at_prices(rest_.network(), plan);
        if (priced && *priced > least->cost)
          leaf.multipliers = latest().multipliers, leaf.scale = latest().scale, least->cost = *priced;
      }
      bound = std::min(bound, least->cost);
    }
    bound = std::min(bound, result_.cost);
    if (result_.bound && bound <= *result_.bound) return;
    result_.bound = result_.certificate.bound = bound;
    result_.certificate.leaves = {std::move(leaf)};
    if (o_.tell)
      o_.tell(fmt::format("eliminated: width {}, largest table {} entries; no solution costs less than {}", plan.width,
                          plan.largest_table, to_string(*result_.bound)));
  }

  // The least with uses at the multipliers' prices, less these times the limit, rounded down.
  std::optional<Wide> eliminated_at_prices(Network rest, const EliminationPlan& plan) {
    const Certificate::Leaf& messages = latest();
    Wide besides = 0;
    for (const auto& [time, multiplier] : messages.multipliers) {
      besides -= Wide{multiplier} * *n_.limit;
      for (const Network::Use& u : rest.uses)
        if (u.lower <= time && time < u.upper)
          for (size_t x = 0; x < u.amounts.size(); ++x) {
            int64_t& cost = rest.costs[u.variable][x];
            if (cost < kForbidden)
              cost = static_cast<int64_t>(
                  std::min<Wide>(cost + Wide{multiplier} * u.amounts[x] / messages.scale, kForbidden - 1));
          }
    }
    const auto least = eliminate(rest, plan, [&] { return stop(); });
    if (!least || !least->solution) return std::nullopt;
    return least->cost + (besides - messages.scale + 1) / messages.scale;
  }

  const Network& n_;
  const Options& o_;
  const PairTables* const made_;
  const Certificate::Leaf& messages_;   // to begin with
  std::vector<std::vector<int>> kept_;  // [variable]: values that are left
  Subset rest_;                         // those
  const Clock::time_point began_ = Clock::now();
  Clock::time_point reported_ = began_;
  double aim_ = kInfinity;
  bool aimed_too_low_ = false;
  double least_left_out_ = kInfinity;  // what was left out costs so much
  double bound_ = -kInfinity;          // of what is left, by the last pass
  int64_t left_ = 0;                   // table entries of a pass over it
  int64_t whole_ = 0;                  // table entries of the network's own passes
  Result result_;
};

}  // namespace

Result solve_in_steps(const Network& network, const Assignment& solution, const Certificate::Leaf& messages,
                      const Options& options, const PairTables* made) {
  constexpr int kGuesses = 3;
  Result best;
  best.solution = solution;
  for (int guess = 0; guess < kGuesses; ++guess) {
    Steps steps(network, *best.solution, messages, options, made);
    Result r = steps.run(best.bound);
    const bool better = !best.bound || (r.bound && *r.bound > *best.bound);
    if (better) best = std::move(r);
    else if (r.cost < best.cost) best.solution = std::move(r.solution), best.cost = r.cost;
    if (!better || !steps.aimed_too_low()) break;
  }
  return best;
}

bool is_closed(const Result& r, double gap) {
  if (r.certificate.leaves.empty() || !r.solution || !r.certificate.bound) return false;
  return is_within(gap, r.cost, *r.certificate.bound);
}

}  // namespace partita::solver

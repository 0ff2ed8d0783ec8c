// Proves in steps: sweeps, dominance and elimination of the rest, each written down for a checker.
#include "partita/solver/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partita/base/error.h"
#include "partita/solver/budget.h"
#include "partita/solver/dual.h"
#include "partita/solver/eliminate.h"
#include "partita/solver/fusion.h"
#include "partita/solver/narrow.h"
#include "partita/solver/reduce.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const Tuning::Steps& kSteps = kTuning.steps;

// The proof so far.
struct Proof {
  Proof(const Network& of, const Assignment& solution, const Certificate::Leaf& begin, const Options& with,
        const PairTables* of_tables);

  const Network& network;
  const Options& options;
  const PairTables* const made;
  const Certificate::Leaf& messages;   // the start
  std::vector<std::vector<int>> kept;  // [variable]: remaining values
  Subset rest;                         // the network of those
  double aim = kInfinity;              // values of this cost are not looked for
  bool aimed_too_low = false;          // nothing costs less than the aim
  double left_out = kInfinity;         // every value left out costs at least this
  double bound = -kInfinity;           // of the rest, by the last pass
  int64_t left = 0, whole = 0;         // table entries of a pass over the rest, over the network
  Result result;                       // the solution, its cost, and the certificate
  const Clock::time_point began = Clock::now();
  Clock::time_point reported = began;

  bool stop() const { return is_out_of_time(options); }
  // The last step's messages.
  const Certificate::Leaf& latest() const {
    return result.certificate.steps.empty() ? messages : result.certificate.steps.back().sweep;
  }
  // The cost from which on a value is left out: the aim, or the solution's cost less the gap that is asked for. It is
  // no less than the bound, which is claimed already.
  double enough() const {
    const double cost = static_cast<double>(result.cost), asked = std::min(aim, cost - options.gap * std::abs(cost));
    return result.bound ? std::max(asked, static_cast<double>(*result.bound)) : asked;
  }
  // Keeps values for which `stays`(variable, place of a value among those kept). Each variable keeps one value at
  // least.
  template <typename Stays>
  void keep(const Stays& stays);
};

std::vector<std::vector<int>> all_values(const Network& network) {
  std::vector<std::vector<int>> all;
  for (int v = 0; v < network.variables(); ++v) {
    all.emplace_back(network.domain(v));
    std::iota(all.back().begin(), all.back().end(), 0);
  }
  return all;
}

Proof::Proof(const Network& of, const Assignment& solution, const Certificate::Leaf& begin, const Options& with,
             const PairTables* of_tables)
    : network(of), options(with), made(of_tables), messages(begin), kept(all_values(of)), rest(of, kept) {
  result.solution = solution;
  result.cost = evaluate(network, solution).cost;
}

template <typename Stays>
void Proof::keep(const Stays& stays) {
  for (int v = 0; v < network.variables(); ++v) {
    std::vector<int> values;
    for (size_t x = 0; x < kept[v].size(); ++x)
      if (stays(v, x)) values.push_back(kept[v][x]);
    if (values.empty()) values.push_back(kept[v][0]);
    kept[v] = std::move(values);
  }
  rest = Subset(network, kept);
}

// Takes the best mixture of the solution and the dual's choice, if that is better.
bool improve_solution(Proof& p, Assignment choice) {
  choice.resize(static_cast<size_t>(p.network.variables()));
  const auto made = fuse_assignments(p.rest.network(), {p.rest.lowered(*p.result.solution), std::move(choice)});
  if (!made) return false;
  Assignment x = p.rest.whole(*made);
  const Evaluation e = evaluate(p.network, x);
  if (!e.feasible || e.cost >= p.result.cost) return false;
  p.result.solution = std::move(x);
  p.result.cost = e.cost;
  return true;
}

// Everything that is left costs `bound`, and everything that was left out costs enough.
void report_bound(Proof& p, double bound) {
  if (!p.options.progress || Clock::now() - p.reported < std::chrono::seconds(1) || !std::isfinite(bound)) return;
  p.reported = Clock::now();
  p.options.progress({p.result.cost, static_cast<Wide>(std::floor(std::min(bound, p.enough()))),
                      std::chrono::duration<double>(p.reported - p.began).count()});
}

// ------------------------------------------------------------------ a sweep

// Passes over the rest, until enough of it costs enough.
struct Sweep {
  explicit Sweep(const Proof& p)
      : model(compile(p.rest.network(), p.made)), dual(model), rounding(model), all(model.unary.size(), 1) {
    dual.begin(p.rest.lowered(p.latest()));
    priced = model.limited && !p.latest().multipliers.empty();
  }

  const Model model;
  Dual dual;
  const Rounding rounding;
  const Alive all;
  Ascent ascent;
  Dual::State state;    // of the last pass
  Alive left;           // values that cost less than enough
  double share = 1;     // theirs of the table entries
  bool fuses = true;    // the dual's choices have made the solution better so far
  bool priced = false;  // prices move: they did in the step before, or passes alone do not advance
  int priced_from = 0;  // window
  double rise = 0;      // of the bound, by the last window
};

void make_window(Proof& p, Sweep& s) {
  for (int pass = 0; pass < kSteps.passes; ++pass)
    if (s.priced) s.ascent.pass(s.dual, s.all, static_cast<double>(p.result.cost), kSteps.messages_first);
    else s.dual.pass();
  if (s.priced) s.dual.set(s.ascent.state, s.all);
  const double before = std::exchange(p.bound, s.dual.pass());
  s.rise = p.bound - before;
  s.state = s.dual.state();
  if (s.fuses) s.fuses = improve_solution(p, s.dual.rounded());
  const double margin = s.rounding.at(s.state.all_prices());
  s.left = values_within_cost(p.enough() + 1 + margin, s.dual.least_costs(p.bound));
  s.share = static_cast<double>(sweep_entries(s.model, s.left)) / static_cast<double>(s.model.sweep);
  report_bound(p, p.bound - margin);
}

// Tells whether nothing costs enough after this many windows over the whole, or as much work: the gap is not small, and
// does not close fast.
bool is_hopeless(const Proof& p, const Sweep& s, int window) {
  const double gap = p.enough() - p.bound;
  return s.model.limited == s.priced &&
         window * static_cast<double>(s.model.sweep) >= kSteps.hopeful * static_cast<double>(p.whole) &&
         s.share > kSteps.next_to_nothing && gap > kSteps.far * std::abs(p.enough()) && s.rise < kSteps.fast * gap;
}

// Makes the windows. False if they bring nothing.
bool make_windows(Proof& p, Sweep& s) {
  p.bound = -kInfinity;
  for (int window = 0; window < kSteps.windows && s.share > kTuning.little && !(window > 0 && p.stop()); ++window) {
    make_window(p, s);
    const bool gets_on = s.rise >= kSteps.getting_on * (p.enough() - p.bound);
    if (s.model.limited && !s.priced && !gets_on && p.bound < p.enough()) {
      s.priced = true;
      s.priced_from = window + 1;
      continue;
    }
    if (is_hopeless(p, s, window)) return false;
    const bool prices_had_time = !s.priced || window >= s.priced_from + kSteps.least_windows_priced;
    if (p.bound >= p.enough() || (!gets_on && prices_had_time)) break;
  }
  return s.share <= kSteps.next_to_nothing;
}

// Makes passes until half of the table entries, or as many as ever will, cost enough, and leaves them out. False if
// that is next to nothing.
bool take_sweep(Proof& p) {
  Sweep s(p);
  if (s.model.sweep == 0) return false;
  if (p.whole == 0) p.whole = s.model.sweep;
  p.left = s.model.sweep;
  if (!make_windows(p, s)) return false;
  Certificate::Leaf messages = p.rest.lifted(s.dual.leaf(s.state, s.all), p.network);
  if (p.options.tell)
    p.options.tell(fmt::format("left out: {:.0f}% of {} table entries, with a bound of {:.0f}", 100 * (1 - s.share),
                               s.model.sweep, p.bound));
  p.keep([&](int v, size_t x) {
    return s.left[s.model.offset[v] + static_cast<int>(x)] || p.kept[v][x] == (*p.result.solution)[v];
  });
  p.left_out = std::min(p.left_out, p.enough());
  p.result.certificate.steps.push_back({std::move(messages), {}});
  return true;
}

// ------------------------------------------------------------------ after a sweep

// Applies dominance, if little enough is left for it to finish.
void take_dominance(Proof& p) {
  if (count_table_entries(p.rest.network()) > kSteps.dominance_entries) return;
  std::vector<std::vector<char>> gone;
  for (const std::vector<int>& values : p.kept) gone.emplace_back(values.size(), 0);
  for (const auto& [v, x, y] : Reduction(p.rest.network(), Reduction::Rules::kDominance).dominated()) {
    gone[v][x] = 1;
    p.result.certificate.steps.back().dominated.push_back({v, p.kept[v][x], p.kept[v][y]});
  }
  p.keep([&](int v, size_t x) { return !gone[v][x]; });
}

// The solution may be far above the optimum, so that too little costs as much. If little is left already, it guesses
// that the optimum lies in the lower half between the bound and the cost that is enough. If so, elimination will find
// it; if not, it will prove that nothing costs less than the guess. `known`: a bound.
bool aim_lower(Proof& p, const std::optional<Wide>& known) {
  double least = p.bound;
  for (const std::optional<Wide>& proved : {known, p.result.bound})
    if (proved) least = std::max(least, static_cast<double>(*proved));
  const double now = p.enough(), gap = now - least;
  if (static_cast<double>(p.left) > kSteps.little_left * static_cast<double>(p.whole) ||
      !(gap < kSteps.near * std::abs(now)) || gap < kSteps.very_near * std::abs(now))
    return false;
  p.aim = least + gap / 2;
  if (p.options.tell) p.options.tell(fmt::format("the optimum may be less than {:.0f}", p.aim));
  return true;
}

// ------------------------------------------------------------------ elimination of the rest

// Tells whether it takes no longer than another sweep.
bool is_quick(const Proof& p, const EliminationPlan& plan) {
  const double entries = count_table_entries(p.rest.network());
  return entries == 0 || static_cast<double>(plan.work) <= kSteps.quick_looks * entries;
}

// The least cost with uses at the multipliers' prices, less these times the limit, rounded down.
std::optional<Wide> eliminated_at_prices(const Proof& p, const EliminationPlan& plan) {
  const Certificate::Leaf& messages = p.latest();
  Network rest = p.rest.network();
  Wide besides = 0;
  for (const auto& [time, multiplier] : messages.multipliers) {
    besides -= Wide{multiplier} * *p.network.limit;
    for (const Network::Use& u : rest.uses)
      if (u.lower <= time && time < u.upper)
        for (size_t x = 0; x < u.amounts.size(); ++x) {
          int64_t& cost = rest.costs[u.variable][x];
          if (cost < kForbidden)
            cost = static_cast<int64_t>(
                std::min<Wide>(cost + Wide{multiplier} * u.amounts[x] / messages.scale, kForbidden - 1));
        }
  }
  const auto least = eliminate(rest, plan, [&] { return p.stop(); });
  if (!least || !least->solution) return std::nullopt;
  return least->cost + (besides - messages.scale + 1) / messages.scale;
}

// Takes the solution that elimination found, if it keeps the limit and is better. If it breaks the limit and there are
// prices, elimination at these prices may prove more: then the leaf has them. Returns a lower bound of all the rest.
Wide take_least(Proof& p, const EliminationPlan& plan, const Eliminated& least, Wide bound, Certificate::Leaf& leaf) {
  const Assignment x = p.rest.whole(*least.solution);
  const Evaluation e = evaluate(p.network, x);
  if (e.feasible && e.cost < p.result.cost) {
    p.result.solution = x;
    p.result.cost = e.cost;
  } else if (!e.feasible && least.cost < bound && !p.latest().multipliers.empty()) {
    const auto priced = eliminated_at_prices(p, plan);
    if (priced && *priced > least.cost) {
      leaf.multipliers = p.latest().multipliers, leaf.scale = p.latest().scale;
      return *priced;
    }
  }
  return least.cost;
}

void eliminate_rest(Proof& p, const EliminationPlan& plan) {
  const auto least = eliminate(p.rest.network(), plan, [&] { return p.stop(); });
  if (!least) return;
  Certificate::Leaf leaf;
  leaf.order = plan.order;
  Wide bound = p.result.cost;
  if (p.left_out < static_cast<double>(bound)) bound = static_cast<Wide>(std::ceil(p.left_out));
  if (least->solution) bound = std::min(bound, take_least(p, plan, *least, bound, leaf));
  bound = std::min(bound, p.result.cost);
  if (p.result.bound && bound <= *p.result.bound) return;  // it lacks only the limit
  p.result.bound = p.result.certificate.bound = bound;
  p.result.certificate.leaves = {std::move(leaf)};
  if (p.options.tell)
    p.options.tell(fmt::format("eliminated: width {}, largest table {} entries; no solution costs less than {}",
                               plan.width, plan.largest_table, to_string(*p.result.bound)));
}

// Takes steps until elimination has closed the gap, or nothing more goes. `known`: a bound.
void take_steps(Proof& p, const std::optional<Wide>& known) {
  for (int step = 0; step < kSteps.most && !p.stop(); ++step) {
    const auto plan = plan_to_prove(p.rest.network(), p.options.elimination_bytes);
    const bool sweeps_first = !plan || !is_quick(p, *plan);
    bool less = sweeps_first && take_sweep(p);
    if (!less) {
      if (plan) eliminate_rest(p, *plan);
      p.aimed_too_low = p.result.bound && std::isfinite(p.aim) && static_cast<double>(*p.result.bound) >= p.aim;
      if (is_closed(p.result, p.options.gap) || p.aimed_too_low) break;
      less = (!sweeps_first && take_sweep(p)) || (aim_lower(p, known) && take_sweep(p));
    }
    if (!less) break;
    take_dominance(p);
  }
  if (p.result.certificate.leaves.empty()) p.result.certificate = {};
  p.result.status = p.result.bound == p.result.cost ? Status::kOptimal : Status::kFeasible;
}

}  // namespace

Result solve_in_steps(const Network& network, const Assignment& solution, const Certificate::Leaf& messages,
                      const Options& options, const PairTables* made) {
  Result best;
  best.solution = solution;
  for (int guess = 0; guess < kSteps.guesses; ++guess) {
    Proof proof(network, *best.solution, messages, options, made);
    take_steps(proof, best.bound);
    Result& r = proof.result;
    const bool better = !best.bound || (r.bound && *r.bound > *best.bound);
    if (better) best = std::move(r);
    else if (r.cost < best.cost) best.solution = std::move(r.solution), best.cost = r.cost;
    if (!better || !proof.aimed_too_low) break;
  }
  return best;
}

bool is_closed(const Result& r, double gap) {
  if (r.certificate.leaves.empty() || !r.solution || !r.certificate.bound) return false;
  return is_within(gap, r.cost, *r.certificate.bound);
}

}  // namespace partita::solver

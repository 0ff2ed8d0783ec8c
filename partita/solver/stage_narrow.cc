// Runs the stages that leave out values that cost too much, and those that solve the rest, or the whole, in rounds.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/solver/budget.h"
#include "partita/solver/narrow.h"
#include "partita/solver/rounds.h"
#include "partita/solver/state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

// A dual of the whole network, and the least costs of its values.
struct Whole {
  explicit Whole(SolveState& s) : dual(Folding::Folded::not_at_all(s.network), s.tables), rounding(dual.model()) {}

  LiftedDual dual;
  const Rounding rounding;
  std::vector<double> least;  // costs, by value
  Alive alive;                // values that may be in a better solution
  double share = 1;           // theirs of the table entries
  double bound = -kInfinity;

  void look(Wide cost) {
    alive = values_within_cost(static_cast<double>(cost) + 1 + rounding.at(dual.prices()), least);
    share = static_cast<double>(sweep_entries(dual.model(), alive)) / static_cast<double>(dual.model().sweep);
  }
};

// Makes windows of passes, until very little is left.
void make_passes(Whole& whole, const SolveState& s) {
  const Tuning::Narrow& t = kTuning.narrow;
  auto stop = [&] { return is_stopped(s.options); };
  const std::optional<Clock::time_point> deadline = share_of_time(s.options, t.share_of_time);
  for (int window = 0; window < t.windows && whole.share > t.very_little; ++window) {
    if (window > 0 && (stop() || (deadline && Clock::now() > *deadline))) break;
    if (window > 0) whole.dual.run(t.passes - 2, s.cost, stop);
    whole.least = whole.dual.least_costs();
    const double proved =
        bound_from_least_costs(whole.dual.model(), whole.least) - whole.rounding.at(whole.dual.prices());
    whole.bound = std::max(whole.bound, proved);
    whole.look(s.cost);
  }
}

// Searches a better solution, which leaves more out.
void search_likeliest(Whole& whole, SolveState& s) {
  Options inside = options_for_start(s.options);
  inside.start = s.solution;
  inside.messages = std::make_shared<Certificate::Leaf>(whole.dual.of_folded());
  const Result r = solve_likeliest(whole.dual, kTuning.fold.values, inside);
  if (!r.solution || r.cost >= s.cost) return;
  s.solution = r.solution;
  s.cost = r.cost;
  whole.look(s.cost);
  if (s.options.tell) s.options.tell(fmt::format("of the likeliest values, cost {}", to_string(s.cost)));
}

// Puts the rest into `s.rest` if it is little. Returns the dual's messages to that, or to all.
Certificate::Leaf narrow_whole(SolveState& s) {
  Whole whole(s);
  whole.dual.begin(*s.dual);
  make_passes(whole, s);
  std::optional<Wide> proved;
  if (std::isfinite(whole.bound)) proved = std::min(s.cost, static_cast<Wide>(std::ceil(whole.bound)));
  if (whole.share > kTuning.little && !is_stopped(s.options)) search_likeliest(whole, s);
  s.rest = small_subset_of_alive(s.network, whole.dual.model(), whole.alive, *s.solution, s.options);
  s.narrowed = proved.has_value();
  s.bound = std::max(s.bound, proved);
  Certificate::Leaf messages = whole.dual.of_folded();
  return s.rest ? s.rest->lowered(messages) : messages;
}

// A small network's rounds narrow by themselves; a certificate wants messages to all values.
bool is_worth_narrowing(const SolveState& s) {
  return s.dual->sweep_of_whole() >= static_cast<double>(s.options.large) && !s.options.certify && s.solution &&
         !is_stopped(s.options);
}

// Starts the rounds with the known solution and bound, and frees the data of folding.
void make_ready(SolveState& s) {
  if (s.solution) s.options.start = s.solution;
  if (!s.options.messages && s.dual)
    s.options.messages = std::make_shared<Certificate::Leaf>(s.dual->of_whole(s.network));
  s.dual.reset();
  s.tables.clear();
}

}  // namespace

bool has_dual_to_narrow(const SolveState& s) { return s.dual && !(s.very_large && s.bound); }

void narrow(SolveState& s) {
  const Clock::time_point before = s.very_large ? s.began : Clock::now();
  Certificate::Leaf messages = is_worth_narrowing(s) ? narrow_whole(s) : s.dual->of_whole(s.network);
  if (s.rest || !s.options.messages) s.options.messages = std::make_shared<Certificate::Leaf>(std::move(messages));
  s.taken = Clock::now() - before;
}

// Tells whether the solution is near enough, or there is no time for more.
bool is_enough(const SolveState& s) {
  if (s.is_near(s.options.gap)) return true;
  if (!s.solution) return false;
  return s.bound ? is_out_of_time(s.options, kTuning.narrow.longer * s.taken)
                 : is_very_large(s) && is_out_of_time(s.options);
}

void answer_with_best(SolveState& s) { s.result = s.best_as_result(); }

bool has_rest(const SolveState& s) { return s.rest.has_value(); }

void solve_remaining(SolveState& s) {
  make_ready(s);
  ++s.counters["narrowed"];
  s.options.start = s.rest->lowered(*s.solution);
  s.result = solve_rest(*s.rest, s.options, Purpose::kItself, s.cost);
  ensure(s.result->solution && s.result->cost <= s.cost, "what is left of a network has lost a solution of {}",
         to_string(s.cost));
}

void solve_whole(SolveState& s) {
  make_ready(s);
  s.result = solve_reduced(s.network, s.options);
}

}  // namespace partita::solver

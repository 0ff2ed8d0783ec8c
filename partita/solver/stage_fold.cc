// Runs the stages that make repeated parts choose alike: foldings of the network, ever less, each from the solution and
// the messages of the one before (fold.h, lift.h).
#include <algorithm>
#include <utility>

#include "partita/base/error.h"
#include "partita/solver/budget.h"
#include "partita/solver/narrow.h"
#include "partita/solver/parts.h"
#include "partita/solver/rounds.h"
#include "partita/solver/state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const Tuning::Fold& kFold = kTuning.fold;

bool is_small(const Folding& folding, const Network& network) {
  return kFold.least_folded * folding.classes() <= network.variables();
}

// The state that one folding passes to the next.
struct Foldings {
  explicit Foldings(SolveState& state) : s(state), inside(options_for_start(state.options)), folding(state.network) {}

  SolveState& s;
  Options inside;  // of each folding's search
  Folding folding;
  const bool is_large = is_very_large(s);
  const bool priced = !s.options.certify || is_large;  // a dual over the whole finds its own prices, at all times
  int depth = 1;                                       // edges that it is folded deep
  bool better = true;                                  // the last solution was
  bool narrows = false;                                // passes go over likely values

  // A very large network's first solution is worth all of the time.
  bool ended() const {
    const std::optional<Clock::time_point>& deadline = is_large && !s.folded ? s.options.deadline : inside.deadline;
    return is_stopped(s.options) || (deadline && Clock::now() > *deadline);
  }
  std::optional<Wide> known() const { return s.folded ? std::optional<Wide>(s.folded_cost) : std::nullopt; }
  // Tells whether narrowing leaves too much of it to go on with, or proves nothing to a checker.
  bool is_too_large() const {
    return s.dual && s.folded && s.dual->sweep_of_whole() > very_large(s.options) &&
           (s.options.certify || s.dual->left_of_whole(s.folded_cost) > kFold.much_left);
  }
  bool is_dual_large() const { return s.dual->model().sweep >= s.options.large; }
};

// A network that falls into many parts is folded again, `deep_of_large` edges deep; its first folding shows whether it
// does. True if this folding needs no passes.
bool is_to_narrow(Foldings& f) {
  SolveState& s = f.s;
  if (f.depth != 1) return false;
  if (!f.is_large && s.dual->sweep_of_whole() >= static_cast<double>(s.options.large))
    s.first_parts = parts_of(s.network, s.alike, kTuning.parts.most_across, kTuning.parts.largest);
  if (s.first_parts.empty() || s.dual->model().limited || !f.is_dual_large()) return false;
  Folding next = f.folding;
  f.narrows = next.refine() && is_small(next, s.network);
  return f.narrows;
}

void make_passes(Foldings& f) {
  SolveState& s = f.s;
  auto ended = [&] { return f.ended(); };
  if (f.narrows) s.dual->run(kFold.passes_over_all, f.known(), ended);
  f.narrows = f.narrows && s.dual->run_narrowed(kFold.likely, kFold.passes_over_likely, s.folded, ended);
  if (!f.narrows) s.dual->run(s.folded ? kFold.passes : kFold.first_passes, f.known(), ended);
}

// Searches a solution of the folding, from the one before or the start.
void search_folding(Foldings& f) {
  SolveState& s = f.s;
  Options& inside = f.inside;
  if (f.is_large && !s.folded) inside.deadline = share_of_time(s.options, kFold.share_of_time_of_very_large);
  inside.messages = std::make_shared<Certificate::Leaf>(s.dual->of_folded());
  inside.start.reset();
  const Folding::Folded& alike = s.dual->folded();
  if (s.folded) inside.start = alike.of_folded(*s.folded);
  else if (s.options.start) inside.start = alike.of_folded(*s.options.start);
  Result r;
  if (f.is_dual_large()) r = solve_likeliest(*s.dual, f.narrows ? kFold.values_of_large : kFold.values, inside);
  if (!r.solution) r = solve_reduced(alike.network(), inside, Purpose::kFolded);
  ++s.counters["folded"];
  f.better = r.solution && (!s.folded || r.cost < s.folded_cost);
  if (!f.better) return;
  s.folded_cost = r.cost;
  s.folded = alike.of_whole(*r.solution);
  s.counters["folded_variables"] = f.folding.classes();
  if (s.options.tell)
    s.options.tell(fmt::format("folded {} edges deep: {} variables for {}, cost {}", f.depth, f.folding.classes(),
                               s.network.variables(), to_string(s.folded_cost)));
}

// Makes a dual of the present folding, passes, and a search. False if no folding comes after it.
bool look_at(Foldings& f) {
  SolveState& s = f.s;
  for (Folding next = f.folding;
       f.narrows && f.depth < kFold.deep_of_large && next.refine() && is_small(next, s.network); ++f.depth)
    f.folding = next;
  auto next = std::make_unique<LiftedDual>(f.folding.folded(), s.tables, f.priced);
  if (s.dual) next->begin(*s.dual);
  s.dual = std::move(next);
  if (is_to_narrow(f)) return true;
  make_passes(f);
  if (f.ended()) return false;
  if (!f.better) return true;
  search_folding(f);
  return !f.ended() && !f.narrows && !(f.depth >= kFold.deep_of_very_large && f.is_too_large());
}

// With a deadline, a cost near the bound is enough.
bool is_near_enough(const SolveState& s, Wide cost) {
  return s.options.deadline && s.bound && is_within(kTuning.alike.near, cost, *s.bound);
}

// Searches the best solution if repeated parts choose alike.
void search_alike(SolveState& s) {
  const Options& options = s.options;
  const Folding::Folded& alike = s.dual->folded();
  std::atomic<bool> enough = false;
  Options inside = options;
  inside.certify = false;
  inside.tell = nullptr;
  if (options.deadline && s.bound) inside.stop = &enough;
  inside.progress = [&](Progress p) {
    if (is_stopped(options)) enough = true;
    if (p.cost && is_near_enough(s, *p.cost)) enough = true;
    p.bound = s.bound;
    if (options.progress) options.progress(p);
  };
  inside.start = alike.of_folded(*s.folded);
  inside.messages = std::make_shared<Certificate::Leaf>(s.dual->of_folded());
  inside.deadline = share_of_time(options, kTuning.alike.share_of_time);
  const Result r = solve_reduced(alike.network(), inside, Purpose::kFolded);
  if (!r.solution || r.cost >= s.folded_cost) return;
  s.folded_cost = r.cost;
  s.folded = alike.of_whole(*r.solution);
  if (options.tell) options.tell(fmt::format("alike, {}: cost {}", name_of(r.status), to_string(s.folded_cost)));
  s.consider(s.folded);
}

}  // namespace

bool has_start(const SolveState& s) { return s.options.start.has_value(); }

void take_start(SolveState& s) { s.consider(s.options.start); }

bool always(const SolveState&) { return true; }

// Folds ever less, as long as that pays. Does nothing if little is repeated.
void solve_folded(SolveState& s) {
  s.began = Clock::now();
  Foldings f(s);
  bool finer = true;
  f.folding.refine();
  s.alike = f.folding.class_of();
  for (; finer && (f.better || f.depth <= kFold.deep) && is_small(f.folding, s.network);
       ++f.depth, finer = f.folding.refine())
    if (!look_at(f)) break;
  s.very_large = f.is_too_large();
  if (s.dual && !f.narrows && f.is_dual_large()) {  // passes here cost little beside those over the whole
    f.inside.deadline = share_of_time(s.options, kFold.share_of_time);
    const double times = s.dual->sweep_of_whole() / static_cast<double>(s.dual->model().sweep);
    s.dual->run(s.very_large ? kFold.passes_of_very_large : static_cast<int>(kFold.of_whole * times), f.known(),
                [&] { return f.ended(); });
  }
  s.consider(s.folded);
}

bool is_solved_alike(const SolveState& s) { return s.very_large; }

void solve_alike(SolveState& s) {
  if (!is_near_enough(s, s.folded_cost)) search_alike(s);
  s.taken = Clock::now() - s.began;
}

Result solve_likeliest(const LiftedDual& dual, size_t values, const Options& options) {
  const Subset likeliest = subset_of_alive(dual.folded().once, dual.model(), dual.likeliest(values), options.start);
  Options inside = options;
  if (options.start) inside.start = likeliest.lowered(*options.start);
  if (options.messages) inside.messages = std::make_shared<Certificate::Leaf>(likeliest.lowered(*options.messages));
  Result r = solve_reduced(dual.folded().with_times(likeliest.network()), inside, Purpose::kFolded);
  if (r.solution) r.solution = likeliest.whole(*r.solution);
  return r;
}

Options options_for_start(const Options& options) {
  const Tuning::Start& t = kTuning.start;
  Options inside = options;
  inside.max_steps = options.max_steps ? std::clamp<int64_t>(*options.max_steps / t.one_step_in, 1, t.steps) : t.steps;
  inside.certify = false;
  inside.patience = static_cast<int>(t.steps);  // this is for solutions
  inside.tell = nullptr;
  inside.deadline = share_of_time(options, t.share_of_time);
  if (options.progress)
    inside.progress = [&options, told = Clock::now()](Progress p) mutable {
      if (Clock::now() - told < std::chrono::seconds(kTuning.start.tell_every_seconds)) return;
      told = Clock::now();
      p.bound.reset();
      options.progress(p);
    };
  return inside;
}

}  // namespace partita::solver

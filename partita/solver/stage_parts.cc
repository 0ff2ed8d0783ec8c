// Runs the stages that take a network of equal parts apart, and the certificate's steps, which follow the same
// messages.
#include <algorithm>

#include "partita/solver/budget.h"
#include "partita/solver/parts.h"
#include "partita/solver/state.h"
#include "partita/solver/steps.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

namespace {

bool is_folded_and_not_very_large(const SolveState& s) { return s.dual && s.solution && !is_very_large(s); }

void solve_parts(SolveState& s, const std::vector<int>& part_of) {
  if (part_of.empty()) return;
  Options inside = s.options;
  inside.deadline = share_of_time(s.options, kTuning.parts.share_of_time);
  if (s.options.max_steps) inside.max_steps = std::max<int64_t>(1, *s.options.max_steps / kTuning.parts.one_step_in);
  SolvedParts parts = solve_parts_separately(s.network, s.alike, part_of, *s.dual, *s.solution, inside, s.tables);
  s.counters["different_parts"] += static_cast<double>(parts.different);
  if (parts.bound && (!s.of_parts.bound || *parts.bound > *s.of_parts.bound)) s.of_parts = std::move(parts.certificate);
  s.bound = std::max(s.bound, parts.bound);
  s.cut |= parts.bound.has_value();
  s.consider(parts.together);
}

}  // namespace

bool is_solved_in_parts_first(const SolveState& s) { return is_folded_and_not_very_large(s) && !s.first_parts.empty(); }

// Repeats as long as it is hopeful, each time after more passes of the dual.
void solve_in_parts_first(SolveState& s) {
  const Tuning::Parts& t = kTuning.parts;
  auto ended = [&] { return is_out_of_time(s.options); };
  for (int time = 0; time < t.times; ++time) {
    const std::optional<Wide> before = s.bound;
    solve_parts(s, s.first_parts);
    if (s.is_near(std::max(s.options.gap, t.enough)) || !s.is_near(t.hopeful) || s.bound == before || ended() ||
        time + 1 == t.times)
      break;
    if (!s.dual->run_narrowed(kTuning.fold.likely, t.passes_over_likely, s.solution, ended))
      s.dual->run(t.passes_over_all, s.cost, ended);
  }
  if (s.is_near(s.options.gap)) s.result = s.best_as_result();
}

bool is_proved_in_steps(const SolveState& s) { return is_folded_and_not_very_large(s) && s.options.certify; }

void prove_in_steps(SolveState& s) {
  Options inside = s.options;
  inside.deadline = share_of_time(s.options, kTuning.steps.share_of_time);
  if (s.options.proving) s.options.proving(*s.solution);
  Result r = solve_in_steps(s.network, *s.solution, s.dual->of_whole(s.network), inside, &s.tables);
  s.consider(r.solution);
  if (is_closed(r, s.options.gap)) s.result = std::move(r);
}

bool is_solved_in_parts_as_very_large(const SolveState& s) { return s.very_large; }

// Tells whether passes over the whole have not shown that much of it can be left out.
bool is_solved_in_parts_after_all(const SolveState& s) { return s.narrowed && !s.rest && !s.very_large && !s.cut; }

void solve_in_parts(SolveState& s) { solve_parts(s, parts_of(s.network, s.alike)); }

}  // namespace partita::solver

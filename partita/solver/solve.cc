// Runs the portfolio's stages over a network, and makes their answer from the final state.
#include <algorithm>
#include <cmath>
#include <utility>

#include "partita/base/enum_words.h"
#include "partita/solver/solver.h"
#include "partita/solver/state.h"
#include "partita/solver/tuning.h"

namespace partita::solver {

void SolveState::consider(const std::optional<Assignment>& x) {
  if (!x) return;
  const Evaluation e = evaluate(network, *x);
  if (e.feasible && (!solution || e.cost < cost)) solution = x, cost = e.cost;
}

bool SolveState::is_near(double gap) const { return solution && bound && is_within(gap, cost, *bound); }

Result SolveState::best_as_result() const {
  Result r;
  r.solution = solution;
  r.cost = cost;
  r.status = Status::kFeasible;
  return r;
}

double very_large(const Options& options) {
  return kTuning.very_large * static_cast<double>(std::max<int64_t>(1, options.large));
}

bool is_very_large(const SolveState& s) { return count_table_entries(s.network) > very_large(s.options); }

namespace {

void take_bound(Wide bound, Result& r) {
  r.bound = std::min(r.cost, bound);
  r.status = *r.bound == r.cost ? Status::kOptimal : Status::kFeasible;
}

}  // namespace

Result solve_by_stages(SolveState& s) {
  run_stages(s);
  Result r = std::move(*s.result);
  if (s.bound && r.solution) take_bound(std::max(*s.bound, r.bound.value_or(*s.bound)), r);
  if (s.of_parts.bound && (r.certificate.empty() || (r.certificate.bound && *r.certificate.bound < *s.of_parts.bound)))
    r.certificate = std::move(s.of_parts);
  if (s.merged_bound && r.solution && (!r.bound || *s.merged_bound > *r.bound)) take_bound(*s.merged_bound, r);
  for (const auto& [count, number] : s.counters) r.counters[count] += number;
  return r;
}

Result solve(const Network& network, const Options& options) {
  validate(network);
  SolveState state(network, options);
  state.consider(options.start);
  return solve_by_stages(state);
}

bool is_within(double gap, Wide cost, Wide bound) {
  return static_cast<double>(cost - bound) <= gap * std::abs(static_cast<double>(cost));
}

std::string_view name_of(Status status) {
  constexpr EnumWords<Status::kUnknown> kWords({"optimal", "feasible", "infeasible", "unknown"});
  return kWords.of(status);
}

}  // namespace partita::solver

// Evaluates the plans that `auto` has, and finds the best of them that fits.
#include "partita/search/all/candidates.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cost/isolated_costs.h"
#include "partita/search/evaluate.h"

namespace partita {

namespace {

bool is_better(const Candidate& a, const Candidate& b) {
  if (is_better(a.evaluation, b.evaluation)) return true;
  return !is_better(b.evaluation, a.evaluation) && a.rank < b.rank;
}

std::string note_of(const Problem& problem, const Candidate& candidate) {
  std::string cost = fmt::format("{}: {} a step", candidate.from, cost_text(problem, candidate.cost()));
  if (candidate.evaluation.fits()) return cost;
  return fmt::format("{}, does not fit ({} too few on a device)", cost,
                     megabytes(static_cast<double>(candidate.evaluation.deficit_bytes())));
}

// An evaluation without a simulation: in time its parts take as long as one after another.
PlanEvaluation estimate(const Problem& problem, const Plan& plan) {
  if (!problem.in_time()) return evaluate(problem, plan);
  PlanEvaluation estimate;
  estimate.step_ns = serial_ns(problem.graph, plan, problem.cluster);
  return estimate;
}

// The evaluation, with what is known of the memory.
PlanEvaluation with_known_memory(PlanEvaluation evaluation, const PlanEvaluation& known) {
  if (!evaluation.memory_deficit) evaluation.memory_deficit = known.memory_deficit;
  return evaluation;
}

// The last plan that was not evaluated, as the result: it is all that there is, or costs less even by its estimate.
bool is_taken_by_estimate(const Candidates& all) {
  if (all.not_evaluated.empty()) return false;
  if (all.evaluated.empty()) return true;
  const Candidate& last = all.not_evaluated.back();
  if (last.rank != kLastRank) return false;
  return !all.best || estimate(all.problem, last.plan).cost() < all.evaluated[*all.best].cost();
}

}  // namespace

void add_candidate(Candidates& all, Candidate candidate, const Watch& watch, std::vector<std::string>& notes) {
  try {
    candidate.evaluation = with_known_memory(evaluate(all.problem, candidate.plan, watch), candidate.evaluation);
  } catch (const Error& e) {
    if (!is_end(e)) throw;
    notes.push_back(fmt::format("{}: not evaluated: {}", candidate.from, e.what()));
    const auto at = candidate.rank == kLastRank ? all.not_evaluated.end() : all.not_evaluated.begin();
    all.not_evaluated.insert(at, std::move(candidate));
    return;
  }
  all.evaluated.push_back(std::move(candidate));
  const size_t last = all.evaluated.size() - 1;
  try {
    if ((!all.best || is_better(all.evaluated[last], all.evaluated[*all.best])) &&
        fits(all, all.evaluated[last], watch))
      all.best = last;
  } catch (const Error& e) {
    if (!is_end(e)) throw;
  }
  notes.push_back(note_of(all.problem, all.evaluated[last]));
}

bool fits(const Candidates& all, Candidate& candidate, const Watch& watch) {
  std::optional<int64_t>& deficit = candidate.evaluation.memory_deficit;
  if (!deficit) deficit = all.holds_any ? 0 : memory_deficit(all.problem, candidate.plan, watch);
  return candidate.evaluation.fits();
}

std::vector<size_t> by_cost(const Candidates& all) {
  std::vector<size_t> order(all.evaluated.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return std::pair(all.evaluated[i].cost(), all.evaluated[i].rank); });
  return order;
}

std::optional<size_t> best_that_fits(Candidates& all, const Watch& watch) {
  if (is_taken_by_estimate(all)) {
    Candidate taken = std::move(all.not_evaluated.back());
    taken.evaluation = with_known_memory(estimate(all.problem, taken.plan), taken.evaluation);
    all.evaluated.push_back(std::move(taken));
    if (fits(all, all.evaluated.back(), {})) return all.evaluated.size() - 1;
  }
  if (all.best) return all.best;
  for (size_t i : by_cost(all)) {
    if (all.evaluated[i].evaluation.memory_deficit) continue;
    if (fits(all, all.evaluated[i], {})) return i;
    if (watch.ended()) break;
  }
  return std::nullopt;
}

}  // namespace partita

// Judges the plans that `auto` has, and finds the best of them that fits.
#include "partita/search/candidates.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/cost/alone.h"
#include "partita/search/judge.h"
#include "partita/search/refine.h"

namespace partita {

namespace {

bool is_better(const Candidate& a, const Candidate& b) { return std::pair(a.cost, a.rank) < std::pair(b.cost, b.rank); }

// What a plan costs, without a simulation.
int64_t estimate(const Problem& problem, const Plan& plan) {
  return problem.in_time() ? serial_ns(problem.graph, plan, problem.cluster) : cost_of(problem, plan);
}

// The plan of the joint problem came too late to be judged, and the estimates are for it.
bool prefers_unjudged(const Candidates& all, const Candidate& joint) {
  return !all.best || estimate(all.problem, joint.plan) < estimate(all.problem, all.judged[*all.best].plan);
}

}  // namespace

void add_candidate(Candidates& all, Candidate candidate, const Watch& watch, std::vector<std::string>& notes) {
  try {
    const Judgement judged = judge(all.problem, candidate.plan, watch);
    candidate.cost = judged.cost;
    if (judged.missing_bytes) candidate.missing_bytes = judged.missing_bytes;
  } catch (const Error& e) {
    if (!is_end(e)) throw;
    notes.push_back(fmt::format("{}: not judged: {}", candidate.from, e.what()));
    const auto at = candidate.rank == kLastRank ? all.unjudged.end() : all.unjudged.begin();
    all.unjudged.insert(at, std::move(candidate));
    return;
  }
  notes.push_back(fmt::format("{}: {}", candidate.from, cost_text(all.problem, candidate.cost)));
  all.judged.push_back(std::move(candidate));
  const size_t last = all.judged.size() - 1;
  if (all.best && !is_better(all.judged[last], all.judged[*all.best])) return;
  try {
    if (fits(all, all.judged[last], watch)) all.best = last;
  } catch (const Error& e) {
    if (!is_end(e)) throw;
  }
}

bool fits(const Candidates& all, Candidate& candidate, const Watch& watch) {
  if (!candidate.missing_bytes)
    candidate.missing_bytes = all.holds_any ? 0 : missing_bytes(all.problem, candidate.plan, watch);
  return *candidate.missing_bytes <= 0;
}

std::vector<size_t> by_cost(const Candidates& all) {
  std::vector<size_t> order(all.judged.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return is_better(all.judged[a], all.judged[b]); });
  return order;
}

std::optional<size_t> best_that_fits(Candidates& all, const Watch& watch) {
  if (!all.unjudged.empty() &&
      (all.judged.empty() || (all.unjudged.back().rank == kLastRank && prefers_unjudged(all, all.unjudged.back())))) {
    Candidate taken = std::move(all.unjudged.back());
    taken.cost = estimate(all.problem, taken.plan);
    all.judged.push_back(std::move(taken));
    if (fits(all, all.judged.back(), {})) return all.judged.size() - 1;
  }
  if (all.best) return all.best;
  for (size_t i : by_cost(all)) {
    if (all.judged[i].missing_bytes) continue;
    if (fits(all, all.judged[i], {})) return i;
    if (watch.ended()) break;
  }
  return std::nullopt;
}

}  // namespace partita

// Judges the plans that `auto` has, and finds the best of them that fits.
#include "partita/search/all/candidates.h"

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cost/isolated_costs.h"
#include "partita/search/all/search_text.h"
#include "partita/search/evaluate.h"
#include "partita/search/joint/refine.h"

namespace partita {

namespace {

bool is_better(const Candidate& a, const Candidate& b) { return std::pair(a.cost, a.rank) < std::pair(b.cost, b.rank); }

std::string note_of(const Problem& problem, const Candidate& candidate) {
  std::string cost = fmt::format("{}: {} a step", candidate.from, cost_text(problem, candidate.cost));
  const int64_t missing = candidate.deficit_bytes.value_or(0);
  if (missing <= 0) return cost;
  return fmt::format("{}, does not fit ({} too few on a device)", cost, megabytes(static_cast<double>(missing)));
}

// What a plan costs, without a simulation.
int64_t estimate(const Problem& problem, const Plan& plan) {
  return problem.in_time() ? serial_ns(problem.graph, plan, problem.cluster) : cost_of(problem, plan);
}

// The plan of the joint problem came too late to be judged, and costs less even by the estimate: in time its parts one
// after another take less than the best plan's step.
bool prefers_unjudged(const Candidates& all, const Candidate& joint) {
  return !all.best || estimate(all.problem, joint.plan) < all.judged[*all.best].cost;
}

}  // namespace

void add_candidate(Candidates& all, Candidate candidate, const Watch& watch, std::vector<std::string>& notes) {
  try {
    const PlanEvaluation evaluation = evaluate(all.problem, candidate.plan, watch);
    candidate.cost = evaluation.cost();
    if (evaluation.memory_deficit) candidate.deficit_bytes = evaluation.memory_deficit;
  } catch (const Error& e) {
    if (!is_end(e)) throw;
    notes.push_back(fmt::format("{}: not judged: {}", candidate.from, e.what()));
    const auto at = candidate.rank == kLastRank ? all.unjudged.end() : all.unjudged.begin();
    all.unjudged.insert(at, std::move(candidate));
    return;
  }
  all.judged.push_back(std::move(candidate));
  const size_t last = all.judged.size() - 1;
  try {
    if ((!all.best || is_better(all.judged[last], all.judged[*all.best])) && fits(all, all.judged[last], watch))
      all.best = last;
  } catch (const Error& e) {
    if (!is_end(e)) throw;
  }
  notes.push_back(note_of(all.problem, all.judged[last]));
}

bool fits(const Candidates& all, Candidate& candidate, const Watch& watch) {
  if (!candidate.deficit_bytes)
    candidate.deficit_bytes = all.holds_any ? 0 : memory_deficit(all.problem, candidate.plan, watch);
  return *candidate.deficit_bytes <= 0;
}

namespace {

// Of the candidates those that rules made and that may fit, in the order in which they are looked at.
std::vector<const Candidate*> rules_of(const Candidates& all) {
  std::vector<const Candidate*> rules;
  for (const Candidate& c : all.judged)
    if (c.rule_work && c.deficit_bytes.value_or(0) <= 0) rules.push_back(&c);
  std::sort(rules.begin(), rules.end(), [](const Candidate* a, const Candidate* b) {
    return std::pair(*a->rule_work, -a->rank) < std::pair(*b->rule_work, -b->rank);
  });
  return rules;
}

// Simulates plans, no plan twice, and keeps the fastest that fits.
class Fastest {
 public:
  Fastest(const Problem& problem, const Watch& watch) : problem_(problem), watch_(watch) {}
  void look_at(const std::string& from, Plan plan, std::optional<int64_t> comm_bytes) {
    const auto is_same = [&](const Plan& o) { return o.ops == plan.ops && o.kept == plan.kept; };
    if (std::ranges::any_of(looked_at_, is_same)) return;
    looked_at_.push_back(std::move(plan));
    const PlanEvaluation evaluation = evaluate_in_time(problem_, looked_at_.back(), watch_);
    if (!evaluation.fits() || (found && found->step_time_ns <= evaluation.cost())) return;
    if (!comm_bytes) comm_bytes = cost_of(problem_, looked_at_.back(), watch_);
    found = {short_text_of(parse_search(from)), evaluation.cost(), *comm_bytes};
  }
  std::optional<Alternative> found;

 private:
  const Problem& problem_;
  const Watch& watch_;
  std::vector<Plan> looked_at_;
};

}  // namespace

std::optional<Alternative> fastest_rule(const Candidates& all, const std::vector<FurtherRule>& further,
                                        const RuleSeconds& seconds, const Watch& watch,
                                        std::vector<std::string>& notes) {
  const std::vector<const Candidate*> rules = rules_of(all);
  Fastest fastest(all.problem, watch);
  size_t looked_at = 0;
  // Of `count` rules those whose turn comes in time.
  const auto look_at = [&](size_t count, double within, const auto& one) {
    const auto begin = Watch::Clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(Watch::Clock::now() - begin).count(); };
    for (size_t i = 0; i < count && passed() <= within; ++i, ++looked_at) one(i);
  };
  try {
    look_at(rules.size(), seconds.asked,
            [&](size_t i) { fastest.look_at(rules[i]->from, rules[i]->plan, rules[i]->cost); });
    look_at(further.size(), seconds.further, [&](size_t i) {
      if (std::optional<Plan> plan = further[i].plan())
        fastest.look_at(further[i].from, std::move(*plan), std::nullopt);
    });
  } catch (const Error& e) {
    if (!is_end(e)) throw;
  }
  if (const size_t left = rules.size() + further.size() - looked_at; left > 0)
    notes.push_back(
        fmt::format("{} of {} plans of rules were not simulated, whose steps may be shorter: the time for it "
                    "had passed",
                    left, rules.size() + further.size()));
  return fastest.found;
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
    if (all.judged[i].deficit_bytes) continue;
    if (fits(all, all.judged[i], {})) return i;
    if (watch.ended()) break;
  }
  return std::nullopt;
}

}  // namespace partita

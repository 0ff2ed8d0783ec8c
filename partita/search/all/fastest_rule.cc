// Simulates the plans of rules, and keeps the fastest that fits.
#include "partita/search/all/fastest_rule.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/search/all/search_text.h"
#include "partita/search/evaluate.h"

namespace partita {

namespace {

// The candidates of rules that may fit, in the order in which they are simulated.
std::vector<const Candidate*> rules_of(const Candidates& all) {
  std::vector<const Candidate*> rules;
  for (const Candidate& c : all.evaluated)
    if (c.rule_work && c.evaluation.fits()) rules.push_back(&c);
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
  // Those of `count` rules whose turn comes in time.
  const auto look_at = [&](size_t count, double within, const auto& one) {
    const auto begin = Watch::Clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(Watch::Clock::now() - begin).count(); };
    for (size_t i = 0; i < count && passed() <= within; ++i, ++looked_at) one(i);
  };
  try {
    look_at(rules.size(), seconds.candidates,
            [&](size_t i) { fastest.look_at(rules[i]->from, rules[i]->plan, rules[i]->cost()); });
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

}  // namespace partita

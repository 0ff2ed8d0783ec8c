// `flexflow`: FlexFlow's search (Jia et al., MLSys 2019, section 6). Metropolis-Hastings over the SOAP space, with the
// local task graph's simulated time as cost.
//
// A chain begins at a plan and proposes one move after another: a unit, uniformly, with a configuration of its set,
// uniformly; so a proposal is as likely as its reverse. It is accepted with probability min(1, exp(beta (cost - cost')
// / cost of the start)), where cost is that of the current plan. A chain ends when half of its budget has not improved
// its best plan, or with its budget. Chains begin at data parallelism, at the expert's strategy and at a drawn plan.
// Each has an equal part of the budget and random numbers of its own. With a larger budget each goes on from where it
// ended, and the best plan is no worse.
//
// With `check`, all moves of one unit of the best plan are then looked at, each given up once it is proved no shorter.
// The paper says of its plans (section 8.4) that they are locally optimal; here it is counted.
//
// With `compare`, the default, the best plan is in the end compared with the initial plans by their lowered steps
// (compare_with_starts.h). The paper's search ends with the chains: `compare=no`.
#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/search/entry.h"
#include "partita/search/soap/bound.h"
#include "partita/search/soap/compare_with_starts.h"
#include "partita/search/soap/initial_plans.h"
#include "partita/search/soap/op_order.h"
#include "partita/search/soap/walk.h"

namespace partita {

namespace {

constexpr double kChains = 0.9;  // of the time, if the plan is checked

// One call of `flexflow`.
struct Run {
  const Problem& problem;
  const Budget& budget;
  const Watch watch;
  Rng& rng;
  const SoapSpace& space;
  SoapWalk& walk;
  double beta = 1000;
  int64_t enough_ns = 0;
  std::vector<std::string> notes = {};
};

// The budget of a chain.
struct Allowance {
  int64_t steps = 0;  // 0: any number
  Watch watch;
  double seconds = 0;     // 0: any number
  int64_t enough_ns = 0;  // it ends if the best plan of all chains takes no more
};

struct Chain {
  int64_t start_ns = 0, best_ns = SoapWalk::kNone;
  int64_t steps = 0, accepted = 0;
  int64_t best_at = 0;               // after so many steps
  double begun = 0, best_since = 0;  // SoapWalk::seconds()
};

void look(const SoapWalk& walk, Chain& chain) {
  if (!walk.fits() || walk.ns() >= chain.best_ns) return;
  chain.best_ns = walk.ns();
  chain.best_at = chain.steps;
  chain.best_since = walk.seconds();
}

bool has_ended(const SoapWalk& walk, const Chain& chain, const Allowance& allowance) {
  if (allowance.watch.ended() || walk.best_ns() <= allowance.enough_ns) return true;
  if (allowance.steps > 0)
    return chain.steps >= allowance.steps || 2 * (chain.steps - chain.best_at) >= allowance.steps;
  return 2 * (walk.seconds() - chain.best_since) >= allowance.seconds;
}

int64_t drawn_from(Rng& rng, const SoapSet& set) {
  return static_cast<int64_t>(rng.below(static_cast<uint64_t>(set.size())));
}

void propose(Run& run, Rng& rng, Chain& chain) {
  ++chain.steps;
  const size_t unit = rng.below(run.space.units.size());
  const int64_t number = drawn_from(rng, run.space.sets[unit]);
  // Accepted at a uniform number u if cost' - cost <= - ln u / beta.
  const double more_ns = -std::log(1 - rng.uniform()) / run.beta * static_cast<double>(chain.start_ns);
  if (!run.walk.try_change({{static_cast<int>(unit), number}}, run.walk.ns() + static_cast<int64_t>(more_ns))) return;
  ++chain.accepted;
  look(run.walk, chain);
}

void run_chain(Run& run, const SoapStart& start, Rng& rng, const Allowance& allowance) {
  SoapWalk& walk = run.walk;
  Chain chain;
  walk.go_to(start.numbers);
  chain.start_ns = walk.ns();
  chain.begun = chain.best_since = walk.seconds();
  look(walk, chain);
  while (!has_ended(walk, chain, allowance)) {
    propose(run, rng, chain);
    walk.tell();
  }
  walk.settle();
  if (chain.best_ns < walk.best_ns()) chain.best_ns = walk.best_ns();  // it did not fit
  run.notes.push_back(fmt::format(
      "from {}: {} -> {}, {} proposals, {} accepted, {:.1f} s", start.name,
      time_text(static_cast<double>(chain.start_ns)),
      chain.best_ns == SoapWalk::kNone ? "no plan that fits" : time_text(static_cast<double>(chain.best_ns)),
      chain.steps, chain.accepted, walk.seconds() - chain.begun));
  if (run.problem.tell) run.problem.tell("flexflow: " + run.notes.back());
}

std::vector<SoapStart> starts_of(Run& run) {
  const Graph& graph = run.problem.graph;
  const Cluster& cluster = run.problem.cluster;
  std::vector<SoapStart> starts;
  const std::vector<SoapUnit>& units = run.space.whole().units;
  starts.push_back({"data parallelism", numbers_of(run.space, data_parallel_configurations(graph, cluster, units))});
  starts.push_back({"the expert's strategy", numbers_of(run.space, expert_configurations(graph, cluster, units))});
  starts.push_back({"a drawn plan", {}});
  for (const SoapSet& set : run.space.sets) starts.back().numbers.push_back(drawn_from(run.rng, set));
  return starts;
}

void search_from_all(Run& run, const std::vector<SoapStart>& starts) {
  const int64_t steps = run.budget.steps.value_or(default_steps(run.problem));
  const uint64_t seed = run.rng.next();
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto left = static_cast<double>(starts.size() - i);
    Allowance allowance{0, run.watch.share(1 / left), 0, run.enough_ns};
    if (const auto seconds = run.watch.left()) allowance.seconds = *seconds / left;
    if (run.budget.steps || !run.watch.deadline)
      allowance.steps = std::max<int64_t>(1, steps / static_cast<int64_t>(starts.size()));
    Rng rng(seed + i);
    run_chain(run, starts[i], rng, allowance);
  }
}

// Checks whether any move of one unit of the best plan is shorter.
void check_best(Run& run, const Watch& watch, std::map<std::string, double>& counters) {
  if (run.walk.best_ns() == SoapWalk::kNone) return;
  run.walk.go_to(run.walk.best());
  const double begun = run.walk.seconds();
  const int64_t ns = run.walk.ns();
  int64_t changes = 0, looked_at = 0, shorter = 0, least_ns = ns;
  for (size_t u = 0; u < run.space.units.size(); ++u) {
    changes += run.space.sets[u].size() - 1;
    for (int64_t c = 0; c < run.space.sets[u].size() && !watch.ended(); ++c) {
      if (c == run.walk.numbers()[u]) continue;
      ++looked_at;
      const std::optional<int64_t> other = run.walk.look_at({{static_cast<int>(u), c}}, ns - 1);
      if (other) ++shorter, least_ns = std::min(least_ns, *other);
      run.walk.tell();
    }
  }
  const double percent = 100 * static_cast<double>(ns - least_ns) / static_cast<double>(ns);
  run.notes.push_back(
      shorter > 0 ? fmt::format("not locally optimal: {} of {} changes of one unit are shorter, the best by {:.2g}%",
                                shorter, looked_at, percent)
      : looked_at == changes ? fmt::format("locally optimal: none of {} changes of one unit is shorter", changes)
                             : fmt::format("perhaps locally optimal: {} of {} changes of one unit were looked at, none "
                                           "is shorter",
                                           looked_at, changes));
  run.notes.back() += fmt::format("; {:.1f} s", run.walk.seconds() - begun);
  counters["changes_looked_at"] = static_cast<double>(looked_at);
  counters["shorter_changes"] = static_cast<double>(shorter);
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const Watch whole = budget.watch(), watch = whole.share(kBeforeOrder);
  const CostModel cost(problem.cluster);
  const SoapSpace space = soap_space(problem, parse_soap_dimensions(problem.options.at("dimensions")),
                                     parse_soap_granularity(problem.options.at("granularity")));
  const SoapBound bound = asked_bound(problem, space, cost, watch);
  SoapWalk walk(problem, space, cost, parse_soap_simulator(problem.options.at("simulator")), watch);
  const bool check = problem.options.at("check") == "yes";
  Run run{problem, budget, check ? watch.share(kChains) : watch, rng, space, walk};
  run.beta = std::stod(problem.options.at("beta"));
  run.enough_ns = near_enough_ns(bound, budget.gap);
  const std::vector<SoapStart> starts = starts_of(run);
  search_from_all(run, starts);
  std::map<std::string, double> counters;
  if (check) check_best(run, watch, counters);
  SoapFound found = walk.result("flexflow", whole);
  if (problem.options.at("compare") == "yes" &&
      !compare_with_starts(starts, "flexflow", whole, walk, found, run.notes) && found.step_ns)
    run.notes.emplace_back("the best plan of the chains is taken: no start has a shorter step");
  SearchResult& result = found.result;
  result.counters.merge(counters);
  result.notes = std::move(run.notes);
  add_bound(bound, walk.best_ns(), result);
  return std::move(found.result);
}

}  // namespace

SearchEntry flexflow_search() {
  return {
      .name = "flexflow",
      .source = "FlexFlow section 6",
      .summary =
          "Metropolis-Hastings over samples, operations, attributes and parameters, by the simulated time; from data "
          "parallelism, the expert's strategy and a drawn plan",
      .options = {{"beta", {"1000", "N"}},
                  {"bound", {"quick", "full", "no"}},
                  {"check", {"no", "yes"}},
                  {"compare", {"yes", "no"}},
                  {"dimensions", {"soap", "s", "o", "p", "sap"}},
                  {"granularity", {"unit", "op"}},
                  {"simulator", {"replay", "full", "delta"}}},
      .search = search,
      .whole_batch = true,
      .measure = Objective::kTime};
}

}  // namespace partita

// FlexFlow's search (Jia et al., MLSys 2019, section 6): Metropolis-Hastings over the SOAP space, judged by the
// simulated time of the local task graph.
//
// A chain begins at a plan and proposes one change after another: a unit, uniformly, with a configuration of its set,
// uniformly; so that a proposal is as likely as its way back. It is accepted with probability
// min(1, exp(beta (cost - cost') / cost of the start)), where cost is that of the plan at hand. A chain ends when half
// of its budget has not improved its best plan, or with its budget. Chains begin at data parallelism, at the expert's
// strategy and at a drawn plan, each with an equal part of the budget.
#include <algorithm>
#include <cmath>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/search/judge.h"
#include "partita/search/refine.h"
#include "partita/search/searches.h"
#include "partita/search/soap_judge.h"
#include "partita/search/soap_starts.h"

namespace partita {

namespace {

// Proposals of all chains, where there is no budget: at least, and for a unit.
constexpr int64_t kLeastSteps = 2'000, kStepsOfAUnit = 100;
constexpr double kTold = 0.5;  // seconds

struct Start {
  std::string name;
  std::vector<int64_t> numbers;
};

// One call of `flexflow`.
struct Run {
  const Problem& problem;
  const Budget& budget;
  const Watch watch;
  Rng& rng;
  const SoapSpace& space;
  SoapTasks& tasks;
  SoapJudge judge;
  double beta = 1000;
  bool start_fits = false;  // the chain's
  SearchResult result = {};
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> best = {};
  int64_t proposals = 0, accepted = 0;
  Watch::Clock::time_point begun = Watch::Clock::now(), told = begun;
};

double seconds_since(Watch::Clock::time_point begun) {
  return std::chrono::duration<double>(Watch::Clock::now() - begun).count();
}

// Whether the proposal, whose configurations these are, fits: certainly, where the registers do that share no bytes;
// else the memory planner is asked.
bool fits(const Run& run, const std::vector<int64_t>& numbers) {
  const std::vector<int64_t> most = run.tasks.most_bytes();
  bool certain = true;
  for (int d = 0; d < run.problem.cluster.compute_count; ++d)
    certain &= most[static_cast<size_t>(d)] <= run.problem.cluster.devices[static_cast<size_t>(d)].memory_bytes;
  return certain || missing_bytes(run.problem, run.tasks.plan(numbers, "flexflow"), run.watch) <= 0;
}

void take_best(Run& run, int64_t ns) {
  if (ns >= run.best_ns) return;
  run.best_ns = ns;
  run.best = run.tasks.numbers();
}

void tell(Run& run) {
  if (!run.problem.progress || seconds_since(run.told) < kTold) return;
  run.told = Watch::Clock::now();
  run.problem.progress({.cost = run.best_ns, .bound = std::nullopt, .seconds = seconds_since(run.begun)});
}

// Puts the tasks at this plan; its simulated ns.
int64_t go_to(Run& run, const std::vector<int64_t>& numbers) {
  std::vector<std::pair<int, int64_t>> all;
  for (size_t u = 0; u < numbers.size(); ++u) all.emplace_back(static_cast<int>(u), numbers[u]);
  const int64_t ns = *run.judge.ns(run.tasks.propose(all));
  run.start_fits = fits(run, numbers);
  run.tasks.keep();
  run.judge.keep();
  return ns;
}

// What a chain may spend.
struct Allowance {
  int64_t steps = 0;  // 0: any number
  Watch watch;
  double seconds = 0;  // 0: any number
};

void run_chain(Run& run, const Start& start, const Allowance& allowance) {
  int64_t current_ns = go_to(run, start.numbers);
  const bool start_fits = run.start_fits;
  const int64_t start_ns = current_ns;
  if (start_fits) take_best(run, current_ns);
  int64_t best_ns = start_fits ? current_ns : std::numeric_limits<int64_t>::max();
  int64_t steps = 0, best_at = 0, accepted = 0;
  const auto begun = Watch::Clock::now();
  auto best_since = begun;
  const size_t units = run.space.units.size();
  while (!allowance.watch.ended() && !(allowance.steps > 0 && steps >= allowance.steps)) {
    const bool no_better = allowance.steps > 0 ? 2 * (steps - best_at) >= allowance.steps
                                               : 2 * seconds_since(best_since) >= allowance.seconds;
    if (no_better) break;
    ++steps;
    const int unit = static_cast<int>(run.rng.below(units));
    const SoapSet& set = run.space.sets[static_cast<size_t>(unit)];
    const int64_t number = static_cast<int64_t>(run.rng.below(static_cast<uint64_t>(set.size())));
    // Accepted at a uniform number u if cost' - cost <= - ln u / beta.
    const double over = -std::log(1 - run.rng.uniform()) / run.beta * static_cast<double>(start_ns);
    const SoapTasks::Changes& changes = run.tasks.propose({{unit, number}});
    const std::optional<int64_t> ns = run.judge.ns(changes, current_ns + static_cast<int64_t>(over));
    if (!ns) continue;
    std::vector<int64_t> numbers = run.tasks.numbers();
    numbers[static_cast<size_t>(unit)] = number;
    if (!fits(run, numbers)) continue;
    run.tasks.keep();
    run.judge.keep();
    ++accepted;
    current_ns = *ns;
    take_best(run, current_ns);
    if (current_ns < best_ns) best_ns = current_ns, best_at = steps, best_since = Watch::Clock::now();
    tell(run);
  }
  run.proposals += steps;
  run.accepted += accepted;
  run.result.notes.push_back(fmt::format(
      "from {}: {} -> {}, {} proposals, {} accepted, {:.1f} s", start.name, time_text(static_cast<double>(start_ns)),
      best_ns == std::numeric_limits<int64_t>::max() ? "no plan that fits" : time_text(static_cast<double>(best_ns)),
      steps, accepted, seconds_since(begun)));
  if (run.problem.tell) run.problem.tell("flexflow: " + run.result.notes.back());
}

// What of a plan is in the space that is asked; else the unit's first configuration.
std::vector<int64_t> numbers_of(const SoapSpace& space, const std::vector<SoapConfiguration>& configurations) {
  std::vector<int64_t> numbers;
  for (size_t u = 0; u < space.units.size(); ++u)
    numbers.push_back(std::max<int64_t>(0, number_of(space.sets[u], configurations[u])));
  return numbers;
}

std::vector<Start> starts_of(Run& run) {
  const Graph& graph = run.problem.graph;
  const Cluster& cluster = run.problem.cluster;
  std::vector<Start> starts;
  starts.push_back(
      {"data-parallel", numbers_of(run.space, data_parallel_configurations(graph, cluster, run.space.units))});
  starts.push_back({"expert", numbers_of(run.space, expert_configurations(graph, cluster, run.space.units))});
  std::vector<int64_t> drawn;
  for (const SoapSet& set : run.space.sets)
    drawn.push_back(static_cast<int64_t>(run.rng.below(static_cast<uint64_t>(set.size()))));
  starts.push_back({"a drawn plan", std::move(drawn)});
  return starts;
}

void search_from_all(Run& run) {
  const std::vector<Start> starts = starts_of(run);
  const int64_t steps =
      run.budget.steps.value_or(std::max(kLeastSteps, kStepsOfAUnit * static_cast<int64_t>(run.space.units.size())));
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto left = static_cast<double>(starts.size() - i);
    Allowance allowance{0, run.watch.share(1 / left), 0};
    if (const auto seconds = run.watch.left()) allowance.seconds = *seconds / left;
    if (run.budget.steps || !run.watch.deadline)
      allowance.steps = std::max<int64_t>(1, steps / static_cast<int64_t>(starts.size()));
    run_chain(run, starts[i], allowance);
  }
}

SoapSimulator simulator_of(const Problem& problem) {
  return problem.options.at("simulator") == "full" ? SoapSimulator::kFull : SoapSimulator::kReplay;
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const CostModel cost(problem.cluster);
  const SoapSpace space = soap_space(problem, parse_soap_dimensions(problem.options.at("dimensions")));
  SoapTasks tasks(problem, cost, space);
  Run run{problem, budget, budget.watch(), rng, space, tasks, SoapJudge(simulator_of(problem), tasks)};
  run.beta = std::stod(problem.options.at("beta"));
  search_from_all(run);
  SearchResult& result = run.result;
  result.counters = {{"units", static_cast<double>(space.units.size())},
                     {"proposals", static_cast<double>(run.proposals)},
                     {"accepted", static_cast<double>(run.accepted)},
                     {"op_fragments", static_cast<double>(run.tasks.counters().op_fragments)},
                     {"tensor_fragments", static_cast<double>(run.tasks.counters().tensor_fragments)}};
  if (run.best.empty()) {
    result.reason = "no plan that it looked at fits into the memory";
    if (run.watch.ended()) run.watch.give_up("before flexflow had a plan that fits");
    return result;
  }
  result.plan = run.tasks.plan(run.best, "flexflow");
  result.plan->paper_cost = static_cast<double>(run.best_ns) / 1e3;
  return result;
}

}  // namespace

SearchEntry flexflow_search() {
  return {.name = "flexflow",
          .source = "FlexFlow section 6",
          .summary =
              "Metropolis-Hastings over samples, operations, attributes and parameters, by the simulated time; from "
              "data parallelism, the expert's strategy and a drawn plan",
          .options = {{"beta", {"1000", "N"}},
                      {"dimensions", {"soap", "s", "o", "p", "sap"}},
                      {"simulator", {"replay", "full"}}},
          .search = search};
}

}  // namespace partita

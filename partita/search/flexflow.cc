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
constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

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
  SearchResult result = {};
  int64_t best_ns = kNone;
  std::vector<int64_t> best = {};
  int64_t least_missing_bytes = kNone;  // of plans that do not fit
  int64_t proposals = 0, accepted = 0;
  Watch::Clock::time_point begun = Watch::Clock::now(), told = begun;
};

double seconds_since(Watch::Clock::time_point begun) {
  return std::chrono::duration<double>(Watch::Clock::now() - begun).count();
}

// How far a plan is from certainly fitting.
struct Memory {
  bool fits = false;
  int64_t over_bytes = 0;  // by which devices would be over their memory if no two registers shared bytes
};

int64_t over_bytes(const Run& run) {
  const std::vector<int64_t> most = run.tasks.most_bytes();
  int64_t over = 0;
  for (int d = 0; d < run.problem.cluster.compute_count; ++d)
    over += std::max<int64_t>(
        0, most[static_cast<size_t>(d)] - run.problem.cluster.devices[static_cast<size_t>(d)].memory_bytes);
  return over;
}

// Of the proposal, whose configurations these are. Where it is not certain, the memory planner is asked.
Memory memory_of(Run& run, const std::vector<int64_t>& numbers) {
  Memory memory{true, over_bytes(run)};
  if (memory.over_bytes == 0) return memory;
  const int64_t missing = missing_bytes(run.problem, run.tasks.plan(numbers, "flexflow"), run.watch);
  memory.fits = missing <= 0;
  if (!memory.fits) run.least_missing_bytes = std::min(run.least_missing_bytes, missing);
  return memory;
}

void tell(Run& run) {
  if (!run.problem.progress || seconds_since(run.told) < kTold) return;
  run.told = Watch::Clock::now();
  run.problem.progress({.cost = run.best_ns == kNone ? std::nullopt : std::optional(run.best_ns),
                        .bound = std::nullopt,
                        .seconds = seconds_since(run.begun)});
}

// What a chain may spend.
struct Allowance {
  int64_t steps = 0;  // 0: any number
  Watch watch;
  double seconds = 0;  // 0: any number
};

struct Chain {
  int64_t start_ns = 0, ns = 0, best_ns = kNone;
  Memory memory;
  int64_t steps = 0, accepted = 0;
  int64_t best_at = 0;  // after so many steps
  Watch::Clock::time_point begun = Watch::Clock::now(), best_since = begun;
};

// The proposal becomes the plan at hand.
void take(Run& run, Chain& chain, int64_t ns, const Memory& memory) {
  run.tasks.keep();
  run.judge.keep();
  chain.ns = ns;
  chain.memory = memory;
  if (!memory.fits) return;
  if (ns < chain.best_ns) chain.best_ns = ns, chain.best_at = chain.steps, chain.best_since = Watch::Clock::now();
  if (ns < run.best_ns) run.best_ns = ns, run.best = run.tasks.numbers();
}

Chain begin_at(Run& run, const Start& start) {
  Chain chain;
  std::vector<std::pair<int, int64_t>> all;
  for (size_t u = 0; u < start.numbers.size(); ++u) all.emplace_back(static_cast<int>(u), start.numbers[u]);
  chain.start_ns = *run.judge.ns(run.tasks.propose(all));
  take(run, chain, chain.start_ns, memory_of(run, start.numbers));
  return chain;
}

bool has_ended(const Chain& chain, const Allowance& allowance) {
  if (allowance.watch.ended()) return true;
  if (allowance.steps > 0)
    return chain.steps >= allowance.steps || 2 * (chain.steps - chain.best_at) >= allowance.steps;
  return 2 * seconds_since(chain.best_since) >= allowance.seconds;
}

// A plan that does not fit gives way to any that is nearer to fitting.
void propose(Run& run, Chain& chain) {
  ++chain.steps;
  const size_t unit = run.rng.below(run.space.units.size());
  const int64_t number = static_cast<int64_t>(run.rng.below(static_cast<uint64_t>(run.space.sets[unit].size())));
  // Accepted at a uniform number u if cost' - cost <= - ln u / beta.
  const double more_ns = -std::log(1 - run.rng.uniform()) / run.beta * static_cast<double>(chain.start_ns);
  const SoapTasks::Changes& changes = run.tasks.propose({{static_cast<int>(unit), number}});
  if (!chain.memory.fits && over_bytes(run) >= chain.memory.over_bytes) return;
  const std::optional<int64_t> ns =
      run.judge.ns(changes, chain.memory.fits ? chain.ns + static_cast<int64_t>(more_ns) : Replay::kNoThreshold);
  if (!ns) return;
  std::vector<int64_t> numbers = run.tasks.numbers();
  numbers[unit] = number;
  const Memory memory = memory_of(run, numbers);
  if (chain.memory.fits && !memory.fits) return;
  ++chain.accepted;
  take(run, chain, *ns, memory);
}

void run_chain(Run& run, const Start& start, const Allowance& allowance) {
  Chain chain = begin_at(run, start);
  while (!has_ended(chain, allowance)) {
    propose(run, chain);
    tell(run);
  }
  run.proposals += chain.steps;
  run.accepted += chain.accepted;
  run.result.notes.push_back(
      fmt::format("from {}: {} -> {}, {} proposals, {} accepted, {:.1f} s", start.name,
                  time_text(static_cast<double>(chain.start_ns)),
                  chain.best_ns == kNone ? "no plan that fits" : time_text(static_cast<double>(chain.best_ns)),
                  chain.steps, chain.accepted, seconds_since(chain.begun)));
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
    if (run.watch.ended()) run.watch.give_up("before flexflow had a plan that fits");
    result.reason = fmt::format("no plan that it looked at fits: the nearest has {} bytes missing on one device",
                                run.least_missing_bytes);
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
          .search = search,
          .measure = Objective::kTime};
}

}  // namespace partita

// `soap`: searches FlexFlow's space by the simulated time of the local task graph, with a portfolio of methods, since
// no single method wins on every network. Every proposal is compared with the current plan, and given up once it is
// proved to take longer (partita/task_graph/replay.h).
//
// 1. Starts: data parallelism, the expert's strategy, and plain plans: all units along samples, along parameters or
//    both, on the first p devices, few devices first. One that is longer than two others is not made to its end.
// 2. From the best of them, groups of units that are alike (all time steps of a cell, equal layers) take one
//    configuration together.
// 3. A walk that accepts a little more than its step, less and less: moves of a unit on the critical path or of any, of
//    a group, of a run of neighbours; drawn, or like a neighbour's.
// 4. Descent: each unit in each configuration of its set, until no move of one unit is shorter.
// 5. While budget is left: a few units move elsewhere, and descent again (iterated local search).
//
// If each op is a unit of its own, half of the budget goes to plans of whole units as above, without 5. From the best
// of them it is 3 to 5, with moves of whole units too.
#include <algorithm>
#include <cmath>
#include <set>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/plan/rules.h"
#include "partita/search/entry.h"
#include "partita/search/evaluate.h"
#include "partita/search/soap/bound.h"
#include "partita/search/soap/compare_with_starts.h"
#include "partita/search/soap/initial_plans.h"
#include "partita/search/soap/op_order.h"
#include "partita/search/soap/optimum.h"
#include "partita/search/soap/unit_groups.h"
#include "partita/search/soap/walk.h"
#include "partita/task_graph/critical.h"

namespace partita {

namespace {

using Units = SoapWalk::Units;

// Parts of the budget that the groups and the walk may take; the descent has the rest.
constexpr double kGroups = 0.3, kWalk = 0.7;
constexpr int64_t kOfAGroup = 64;   // configurations that a group tries at a time
constexpr double kHeat = 0.002;     // of the step, that the walk accepts at first
constexpr int64_t kPathSteps = 50;  // accepted moves after which the critical path is found anew
constexpr size_t kLongestRun = 6;   // units of a run of neighbours
constexpr size_t kStartsToImprove = 2;
constexpr uint64_t kMovesOfWholeUnits = 4;  // one of so many, if ops are units of their own
constexpr double kWholeUnits = 0.5;         // of the budget, in that case
constexpr double kShaken = 0.2;             // by which a plan may be longer with some units elsewhere
constexpr uint64_t kMovesOfAShake = 5;      // at most
constexpr double kBeforeProof = 0.2;        // of the time of soap?exact=yes; the proof has the rest
constexpr int64_t kNodesOfAProof = 20'000;  // of soap?exact=yes, if no time is given

// One call of `soap`.
struct Run {
  const Problem& problem;
  const Budget& budget;
  const Watch watch;
  Rng& rng;
  const SoapSpace& space;
  const SoapNeighbourhood near;
  SoapWalk& walk;
  int64_t steps = 0;               // that it may take
  bool shakes = true;              // uses the rest of the budget after the descent
  std::vector<int> critical = {};  // units on the critical path, once for each task
  int64_t critical_at = -1;        // number of the walk's accepted moves then
  std::vector<std::string> notes = {};
  int64_t enough_ns = 0;  // it ends if its best plan takes no more

  bool ended(double part = 1) const {
    return watch.ended() || walk.best_ns() <= enough_ns ||
           static_cast<double>(walk.proposals()) >= part * static_cast<double>(steps);
  }
};

void note(Run& run, std::string text) {
  if (run.problem.tell) run.problem.tell("soap: " + text);
  run.notes.push_back(std::move(text));
}

std::string time_of(const Run& run) {
  return run.walk.fits() ? time_text(static_cast<double>(run.walk.ns())) : "a plan that does not fit";
}

// ---------------------------------------------------------------- starts

// Splits all units in `samples` shards along samples and `parameters` along parameters, as far as their sets allow, on
// the first devices.
std::vector<int64_t> plain_plan(const SoapSpace& space, int samples, int parameters) {
  std::vector<int64_t> numbers;
  for (size_t u = 0; u < space.units.size(); ++u) {
    const SoapUnit& unit = space.units[u];
    const SoapSet& set = space.sets[u];
    size_t best = 0;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t d = 0; d < set.degrees.size(); ++d) {
      int64_t s = 1, p = 1, rest = 1;
      for (size_t i = 0; i < set.degrees[d].size(); ++i)
        (unit.dimensions[i] == SoapDimension::kSample      ? s
         : unit.dimensions[i] == SoapDimension::kParameter ? p
                                                           : rest) *= set.degrees[d][i];
      const int64_t apart = std::abs(s - samples) + std::abs(p - parameters) + rest - 1;
      if (apart < least) least = apart, best = d;
    }
    numbers.push_back(best == 0 ? 0 : set.ends[best - 1]);
  }
  return numbers;
}

// The initial plans, in the order of evaluation: data parallelism, which most likely fits; then plans of few devices
// first, which are made fast and let the others be given up.
std::vector<std::vector<int64_t>> starts_of(Run& run) {
  const Graph& graph = run.problem.graph;
  const Cluster& cluster = run.problem.cluster;
  std::vector<std::vector<int64_t>> starts;
  const auto add = [&](std::vector<int64_t> numbers) {
    if (std::ranges::find(starts, numbers) == starts.end()) starts.push_back(std::move(numbers));
  };
  add(numbers_of(run.space, data_parallel_configurations(graph, cluster, run.space.units)));
  const int n = cluster.compute_count;
  for (int p = 1; p <= n; ++p)
    for (int s = p; n % p == 0 && s >= 1; --s)
      if (p % s == 0) add(plain_plan(run.space, s, p / s));
  add(numbers_of(run.space, expert_configurations(graph, cluster, run.space.units)));
  return starts;
}

// The best initial plans, the best first. A plan that is longer than so many that fit is given up as soon as that
// shows.
std::vector<std::vector<int64_t>> best_starts(Run& run) {
  std::vector<std::tuple<bool, int64_t, size_t>> judged;  // in increasing order, those to improve
  const std::vector<std::vector<int64_t>> starts = starts_of(run);
  for (size_t i = 0; i < starts.size() && (i == 0 || !run.ended(kGroups)); ++i) {
    const bool enough = judged.size() == kStartsToImprove && !std::get<0>(judged.back());
    if (!run.walk.go_to(starts[i], enough ? std::get<1>(judged.back()) - 1 : Replay::kNoThreshold)) continue;
    judged.emplace_back(!run.walk.fits(), run.walk.ns(), i);
    std::ranges::sort(judged);
    if (judged.size() > kStartsToImprove) judged.pop_back();
    run.walk.tell();
  }
  std::vector<std::vector<int64_t>> best;
  for (const auto& [out_of_memory, ns, i] : judged) best.push_back(starts[i]);
  return best;
}

// ---------------------------------------------------------------- moves

const SoapSet& set_of(const Run& run, int unit) { return run.space.sets[static_cast<size_t>(unit)]; }

int64_t drawn(Run& run, int unit) {
  return static_cast<int64_t>(run.rng.below(static_cast<uint64_t>(set_of(run, unit).size())));
}

Units all_of(const std::vector<int>& group, int64_t number) {
  Units units;
  for (const int unit : group) units.emplace_back(unit, number);
  return units;
}

// Finds the units that are worth a move by their tasks on the critical path.
void find_critical(Run& run) {
  if (run.critical_at >= 0 && run.walk.accepted() < run.critical_at + kPathSteps) return;
  run.critical_at = run.walk.accepted();
  run.critical.clear();
  const TaskGraph& graph = run.walk.task_graph();
  FlatTasks flat = flatten(graph);
  Timeline timeline;
  simulate_first_come(flat, timeline);
  const std::vector<int>& unit_of = run.near.unit_of;
  for (const int task : critical_path(flat, timeline)) {
    const auto slot = std::ranges::upper_bound(flat.first, task) - flat.first.begin() - 1;
    if (slot < graph.op_count) {
      run.critical.push_back(unit_of[static_cast<size_t>(slot)]);
      continue;
    }
    for (const int party : graph.wires[static_cast<size_t>(slot)].parties)
      if (party >= 0 && party < graph.op_count) run.critical.push_back(unit_of[static_cast<size_t>(party)]);
  }
}

int some_unit(Run& run) {
  if (run.rng.below(2) == 0 && !run.critical.empty()) return run.critical[run.rng.below(run.critical.size())];
  return static_cast<int>(run.rng.below(run.space.units.size()));
}

// A neighbour's configuration, or a drawn one if none is like it.
int64_t like_a_neighbour(Run& run, int unit) {
  const std::vector<int>& beside = run.near.beside[static_cast<size_t>(unit)];
  if (beside.empty()) return drawn(run, unit);
  const int other = beside[run.rng.below(beside.size())];
  const int64_t number = most_alike(run.space, unit, other, run.walk.numbers()[static_cast<size_t>(other)]);
  return number < 0 ? drawn(run, unit) : number;
}

// Gives units that follow each other along shared tensors one configuration, that of the first.
Units run_of_neighbours(Run& run, int unit, int64_t number) {
  Units units{{unit, number}};
  std::set<int> seen{unit};
  const size_t length = 2 + run.rng.below(kLongestRun - 1);
  for (int at = unit; units.size() < length;) {
    const std::vector<int>& beside = run.near.beside[static_cast<size_t>(at)];
    const auto next = std::ranges::find_if(beside, [&](int v) { return v > at && !seen.contains(v); });
    if (next == beside.end()) break;
    const int64_t same = most_alike(run.space, *next, unit, number);
    if (same < 0) break;
    units.emplace_back(*next, same);
    seen.insert(*next);
    at = *next;
  }
  return units;
}

// In a space of single ops: the whole unit of this op.
Units whole_unit(Run& run, int op) {
  const SoapSpace& whole = run.space.whole();
  for (size_t u = 0; u < whole.units.size(); ++u)
    if (std::ranges::binary_search(whole.units[u].ops, OpId(static_cast<size_t>(op))))
      return numbers_of_unit(run.space, static_cast<int>(u), whole.sets[u].draw(run.rng));
  return {};
}

Units drawn_move(Run& run) {
  const int unit = some_unit(run);
  if (run.space.of_units && run.rng.below(kMovesOfWholeUnits) == 0) return whole_unit(run, unit);
  switch (run.rng.below(8)) {
    case 0:
      return all_of(run.near.groups[static_cast<size_t>(run.near.group_of[static_cast<size_t>(unit)])],
                    drawn(run, unit));
    case 1:
      return run_of_neighbours(run, unit, run.walk.numbers()[static_cast<size_t>(unit)]);
    case 2:
      return run_of_neighbours(run, unit, drawn(run, unit));
    case 3:
    case 4:
      return {{unit, like_a_neighbour(run, unit)}};
    default:
      return {{unit, drawn(run, unit)}};
  }
}

// ---------------------------------------------------------------- phases

// Improves groups in turn, the largest first, until no tried move is shorter, or the part of the budget is spent.
void improve_groups(Run& run, double part) {
  std::vector<size_t> order(run.near.groups.size());
  for (size_t g = 0; g < order.size(); ++g) order[g] = g;
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return run.near.groups[a].size() > run.near.groups[b].size(); });
  for (bool shorter = true; shorter && !run.ended(part);) {
    shorter = false;
    for (const size_t g : order) {
      const std::vector<int>& group = run.near.groups[g];
      const int64_t size = set_of(run, group[0]).size();
      for (int64_t k = 0; k < std::min(size, kOfAGroup) && !run.ended(part); ++k) {
        const int64_t number = size <= kOfAGroup ? k : drawn(run, group[0]);
        shorter |= run.walk.try_change(all_of(group, number), run.walk.ns() - 1);
        run.walk.tell();
      }
    }
  }
}

void wander(Run& run, double part) {
  const double begin = static_cast<double>(run.walk.proposals()), end = part * static_cast<double>(run.steps);
  const double seconds = run.walk.seconds(), left = run.watch.left().value_or(0) * part;
  while (!run.ended(part)) {
    if (run.watch.deadline && run.walk.seconds() - seconds >= left) break;
    find_critical(run);
    double done = end > begin ? (static_cast<double>(run.walk.proposals()) - begin) / (end - begin) : 1;
    if (run.watch.deadline && left > 0) done = std::max(done, (run.walk.seconds() - seconds) / left);
    const double heat = kHeat * (1 - done) * (1 - done) * static_cast<double>(run.walk.ns());
    const auto more = static_cast<int64_t>(-std::log(1 - run.rng.uniform()) * heat);
    run.walk.try_change(drawn_move(run), run.walk.ns() + more);
    run.walk.tell();
  }
}

// Returns whether it came to its end: no move of one unit is shorter.
bool descend(Run& run) {
  if (!run.walk.fits()) return false;
  const size_t units = run.space.units.size();
  size_t without_gain = 0;  // units in turn without a shorter move
  for (size_t u = 0; without_gain < units; u = (u + 1) % units) {
    bool shorter = false;
    for (int64_t c = 0; c < run.space.sets[u].size(); ++c) {
      if (run.ended()) return false;
      shorter |= run.walk.try_change({{static_cast<int>(u), c}}, run.walk.ns() - 1);
      run.walk.tell();
    }
    without_gain = shorter ? 0 : without_gain + 1;
  }
  return true;
}

bool is_exact(const Problem& problem) {
  const auto exact = problem.options.find("exact");
  return exact != problem.options.end() && exact->second == "yes";
}

std::string end_of(bool local) {
  return local ? "no change of one unit is shorter" : "not every change of one unit was looked at";
}

// Spends the rest of the budget: again and again from the best plan, with a few units elsewhere.
void shake_and_descend(Run& run) {
  int times = 0, shorter = 0;
  bool local = true;  // a descent ended at the best plan
  for (; !run.ended(); ++times) {
    const int64_t best_ns = run.walk.best_ns();
    run.walk.go_to(run.walk.best());
    const auto most_ns = static_cast<int64_t>(static_cast<double>(best_ns) * (1 + kShaken));
    for (uint64_t moves = 2 + run.rng.below(kMovesOfAShake - 1); moves > 0 && !run.ended(); --moves)
      run.walk.try_change(drawn_move(run), most_ns);
    const bool ended = descend(run);
    if (run.walk.best_ns() < best_ns) ++shorter, local = ended;
  }
  run.walk.go_to(run.walk.best());
  note(run, fmt::format("{} times with some units elsewhere, {} of them shorter: {}, {}", times, shorter, time_of(run),
                        end_of(local)));
}

// Improves the current plan.
void improve(Run& run) {
  wander(run, kWalk);
  if (!run.walk.best().empty()) run.walk.go_to(run.walk.best());
  note(run, fmt::format("walk: {}", time_of(run)));
  const bool local = descend(run);
  note(run, fmt::format("descent: {}, {}", time_of(run), end_of(local)));
  if (local && run.shakes) shake_and_descend(run);
}

void search_from(Run& run) {
  std::vector<int64_t> best;
  int64_t best_ns = SoapWalk::kNone;
  const std::vector<std::vector<int64_t>> starts = best_starts(run);
  run.walk.go_to(starts[0]);
  note(run, fmt::format("the best start: {}", time_of(run)));
  for (size_t i = 0; i < starts.size(); ++i) {
    run.walk.go_to(starts[i]);
    improve_groups(run, kGroups * static_cast<double>(i + 1) / static_cast<double>(starts.size()));
    if (run.walk.ns() < best_ns || best.empty()) best_ns = run.walk.ns(), best = run.walk.numbers();
  }
  run.walk.go_to(best);
  note(run, fmt::format("groups: {}", time_of(run)));
  improve(run);
}

// Looks at every plan, or proves that none like it is better, for as long as there is time.
void prove(Run& run, const CostModel& cost, const Watch& watch) {
  if (watch.ended()) return note(run, "exact: there was no time to look for a shorter plan everywhere");
  run.walk.settle();
  if (run.problem.tell) run.problem.tell("soap: looks for a shorter plan everywhere");
  const int64_t most_nodes = watch.deadline ? std::numeric_limits<int64_t>::max() : kNodesOfAProof;
  const SoapOptimum best = soap_optimum(run.problem, run.space, cost, run.walk.best_ns(), watch, most_nodes,
                                        [&](const std::vector<int64_t>& numbers) { return run.walk.fits(numbers); });
  if (!best.numbers.empty()) run.walk.go_to(best.numbers);
  const std::string plans = std::isinf(best.plans) ? "over 1e308" : fmt::format("{:.3g}", best.plans);
  note(run, fmt::format("exact: {}, {}; {} plans, {} parts of plans bounded, {} plans simulated, {:.1f} s",
                        time_text(static_cast<double>(best.ns)),
                        best.proved ? "no plan of the space takes less" : "not every plan was looked at", plans,
                        best.nodes, best.simulated, best.seconds));
}

// The result for whole units, before each op is a unit of its own.
struct WholeUnitResult {
  std::vector<int64_t> numbers;  // of the space of single ops
  std::vector<SearchPoint> trail;
  std::vector<std::string> notes;
  int64_t proposals = 0;
  double cpu_seconds = 0;
};
WholeUnitResult best_of_units(const Problem& problem, const Budget& budget, Rng& rng, const SoapSpace& space,
                              const CostModel& cost, const Watch& watch, int64_t steps) {
  const std::clock_t begun = std::clock();
  const SoapSpace& whole = space.whole();
  SoapWalk walk(problem, whole, cost, SoapSimulator::kReplay, watch);
  Run run{problem, budget, watch, rng, whole, soap_neighbourhood(problem.graph, whole), walk};
  run.steps = steps;
  run.shakes = false;
  search_from(run);
  const bool fits = walk.best_ns() != SoapWalk::kNone;
  WholeUnitResult out{numbers_of(space, configurations_of(whole, fits ? walk.best() : walk.numbers())),
                      walk.trail(),
                      {},
                      walk.proposals()};
  for (const std::string& text : run.notes) out.notes.push_back("whole units: " + text);
  out.cpu_seconds = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
  return out;
}

// The log of both.
void add_before(WholeUnitResult before, SearchResult& result) {
  result.counters["proposals"] += static_cast<double>(before.proposals);
  for (SearchPoint point : result.trail) {
    if (!before.trail.empty() && point.cost >= before.trail.back().cost) continue;
    point.proposals += before.proposals;
    point.cpu_seconds += before.cpu_seconds;
    before.trail.push_back(point);
  }
  result.trail = std::move(before.trail);
}

std::vector<SoapStart> named_starts(const Run& run) {
  const std::vector<SoapUnit>& units = run.space.whole().units;
  const auto start = [&](std::string_view name, const std::vector<SoapConfiguration>& configurations) {
    return SoapStart{std::string(name), numbers_of(run.space, configurations)};
  };
  return {start("data parallelism", data_parallel_configurations(run.problem.graph, run.problem.cluster, units)),
          start("the expert's strategy", expert_configurations(run.problem.graph, run.problem.cluster, units))};
}

// If samples do not divide, data parallelism in unequal shards is in no set, and may be better than all that are.
void compare_with_unequal_parts(Run& run, const Watch& watch, SoapFound& found) {
  SearchResult& result = found.result;
  if (!found.step_ns || watch.ended()) return;
  const Graph& graph = run.problem.graph;
  const Cluster& cluster = run.problem.cluster;
  const std::vector<SoapConfiguration> equal = data_parallel_configurations(graph, cluster, run.space.whole().units);
  const auto devices = static_cast<size_t>(cluster.compute_count);
  if (std::ranges::all_of(equal, [&](const SoapConfiguration& c) { return c.devices.size() == devices; })) return;
  try {
    Plan plan = data_parallel_plan(graph, cluster, run.problem.constraints, watch);
    const PlanEvaluation evaluation = evaluate_in_time(run.problem, plan, watch);
    if (!evaluation.fits() || evaluation.cost() >= *found.step_ns) return;
    run.notes.push_back(
        fmt::format("data parallelism in parts that are not equal, which is not in the space, has the "
                    "shorter step: {}",
                    time_text(static_cast<double>(evaluation.cost()))));
    plan.search = result.plan->search;
    result.plan = std::move(plan);
    result.local_ns.reset();
  } catch (const Error& error) {
    if (!is_end(error)) throw;
  }
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  const Watch whole = budget.watch(), watch = whole.share(kBeforeOrder);
  const CostModel cost(problem.cluster);
  const SoapSpace space = soap_space(problem, parse_soap_dimensions(problem.options.at("dimensions")),
                                     parse_soap_granularity(problem.options.at("granularity")));
  const SoapBound bound = asked_bound(problem, space, cost, watch);
  const int64_t steps =
      budget.steps.value_or(watch.deadline ? std::numeric_limits<int64_t>::max() : default_steps(problem));
  WholeUnitResult before;
  if (space.of_units) before = best_of_units(problem, budget, rng, space, cost, watch.share(kWholeUnits), steps / 2);
  SoapWalk walk(problem, space, cost, SoapSimulator::kReplay, watch);
  const Watch searching = is_exact(problem) ? watch.share(kBeforeProof) : watch;
  Run run{problem, budget, searching, rng, space, soap_neighbourhood(problem.graph, space), walk};
  run.shakes = !is_exact(problem);
  run.enough_ns = near_enough_ns(bound, budget.gap);
  if (space.of_units) {
    run.steps = steps - steps / 2;
    run.notes = std::move(before.notes);
    walk.go_to(before.numbers);
    improve(run);
  } else {
    run.steps = steps;
    search_from(run);
  }
  if (is_exact(problem) && walk.best_ns() > run.enough_ns) prove(run, cost, watch);
  SoapFound found = walk.result("soap", whole);
  SearchResult& result = found.result;
  if (space.of_units) add_before(std::move(before), result);
  if (!is_exact(problem) && problem.options.at("dimensions") == "soap") {
    compare_with_starts(named_starts(run), "soap", whole, walk, found, run.notes);
    compare_with_unequal_parts(run, whole, found);
  }
  result.notes = std::move(run.notes);
  add_bound(bound, walk.best_ns(), result);
  return std::move(found.result);
}

}  // namespace

SearchEntry soap_search() {
  return {.name = "soap",
          .source = "ours",
          .summary =
              "a portfolio over FlexFlow's space by the simulated time: plain starts, equal layers together, a walk "
              "along the critical path, descent",
          .options = {{"bound", {"quick", "full", "no"}},
                      {"dimensions", {"soap", "s", "o", "p", "sap"}},
                      {"exact", {"no", "yes"}},
                      {"granularity", {"unit", "op"}}},
          .search = search,
          .offers = {.share = {.of_time = 0.3, .applies = is_for_a_walk}, .about = "ops on different devices"},
          .whole_batch = true,
          .measure = Objective::kTime};
}

}  // namespace partita

// `auto`: the best that the searches here can do together.
//
// It solves the joint problem (`exact`), asks the searches that are quick on the problem (SearchEntry::begins_auto),
// and refines the best plan that fits. The refined mesh has an axis for every prime factor, so all that the recursions
// can reach lies on it too. The result is never dearer than what it began with. The lower bound is that of `exact`,
// where the plan is in its space.
#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/machine_memory.h"
#include "partita/base/units.h"
#include "partita/cost/isolated_costs.h"
#include "partita/search/all/candidates.h"
#include "partita/search/all/search_text.h"
#include "partita/search/device_placement/placed_graph.h"
#include "partita/search/device_placement/placed_plan.h"
#include "partita/search/evaluate.h"
#include "partita/search/joint/refine.h"
#include "partita/search/memory_watch.h"
#include "partita/search/soap/walk.h"

namespace partita {

namespace {

constexpr int64_t kRefineRounds = 20;  // of the solver, for a neighbourhood
constexpr double kGap = 1e-4;
constexpr int64_t kStepsInTime = 50;  // of the joint problem, whose cost is not the step, where no budget is given
constexpr double kTooFar = 1.25;      // times the best cost: what is refined from there on hardly becomes the best
// Parts of the time that is left. The joint problem has nearly all until it is settled, since `auto` is to be no dearer
// than `exact` within the same limit. What is settled sooner leaves the rest to the others.
constexpr double kJointShare = 0.9, kBeginShare = 0.4;
constexpr int64_t kEntries = 100'000'000;  // of the neighbourhoods' tables, where no time is given
// In bytes: for timing rules, and the part of the time that is left at most.
constexpr RuleSeconds kTimingRules{1.5, 0.5};
constexpr double kTimingShare = 0.2;
constexpr double kTold = 1, kCommWork = 1;  // seconds
// In time: rules that are asked before the joint problem (seconds), and the part of the time that is theirs.
constexpr double kQuickWork = 2, kQuickShare = 0.25;
constexpr double kSoapShare = 0.3;       // of what is left then, for plans whose ops are on different devices
constexpr double kPlacementShare = 0.2;  // and of what is left then, for such with whole ops
constexpr int64_t kStepsOfPlacement = 4000;

// A search that is asked for a plan to begin with, as if it were asked alone.
struct Ask {
  const SearchEntry* entry = nullptr;
  std::map<std::string, std::string> options;
  std::optional<Objective> objective;  // where it is another than the problem's
  int rank = 0;
  double work = 0;                              // about how long it takes (SearchEntry::begins_auto)
  std::optional<int64_t> steps = std::nullopt;  // its own, where no time is given, and no steps of the joint problem
};

// One call of `auto`.
struct Run {
  const Problem& problem;
  const Budget& budget;
  MemoryWatch& memory;
  const Watch watch;  // the budget's, and the memory's
  Rng& rng;
  Candidates candidates;
  SearchResult result = {};
  std::optional<Error> refusal = {};         // the last
  std::optional<int64_t> whole_ops_ns = {};  // what no placement of whole operations takes less than
};

void tell(const Run& run, const std::string& what) {
  if (run.problem.tell) run.problem.tell("auto: " + what);
}

std::string name_of(const Ask& ask) {
  return text_of({ask.entry, ask.options}) + (ask.objective ? " of " + text_of(*ask.objective) : "");
}

void note(Run& run, const std::string& what) {
  tell(run, what);
  run.result.notes.push_back(what);
}

Error too_large(const Run& run) {
  return {ExitCode::kInfeasible,
          fmt::format("it was ended when this process had more than {}, a third of the memory that there is for it",
                      megabytes(static_cast<double>(run.memory.limit_bytes())))};
}

// What `part` returns. Nothing, and a refusal, where it throws, or takes too much memory.
template <typename Part>
auto within_memory(Run& run, const Part& part) -> std::optional<decltype(part())> {
  const MayRunOut may_run_out;
  run.memory.begin();
  try {
    return part();
  } catch (const std::bad_alloc&) {
    run.refusal = Error(ExitCode::kInfeasible, "the machine has too little memory for it");
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug) throw;
    run.refusal = run.memory.over() && is_end(e) ? too_large(run) : e;
  }
  return std::nullopt;
}

// Asks one search within the watch, and adds its plan to the candidates, which is judged within `judging`.
SearchResult consider(Run& run, const Ask& ask, const Watch& watch, const Watch& judging, double share = 1) {
  Problem its = run.problem;
  its.options = ask.options;
  if (ask.entry->measure == Objective::kTime) its.progress = nullptr;  // tells steps, not parts one after another
  if (ask.objective) {
    its.objective = *ask.objective;
    its.prove = false;
    its.progress = nullptr;
  }
  Budget part = run.budget;
  part.stop = watch.stop;
  part.deadline = watch.deadline;
  part.share = share;
  const bool is_exact = ask.entry->proves;
  if (!is_exact) part.steps.reset();  // theirs are others than the joint problem's
  if (!part.steps && !part.deadline) part.steps = ask.steps;
  bool asked = true;
  std::optional<SearchResult> found = within_memory(run, [&] {
    asked = !ask.entry->begins_auto.quick || ask.entry->begins_auto.quick(its, part);
    Rng same = run.rng;  // as if it were asked alone
    return asked ? ask.entry->search(its, part, same) : SearchResult();
  });
  if (!asked) return {};
  if (found && !found->plan) run.refusal = Error(ExitCode::kInfeasible, found->reason);
  if (!found || !found->plan) {
    note(run, fmt::format("{}: no plan: {}", name_of(ask), run.refusal->what()));
    return found.value_or(SearchResult());
  }
  if (run.memory.over()) note(run, fmt::format("{}: {}", name_of(ask), too_large(run).what()));
  Candidate candidate{name_of(ask), *found->plan, ask.rank};
  if (ask.entry->rule) candidate.rule_work = ask.work;
  if (is_exact) candidate.deficit_bytes = 0;  // it looks
  const auto add = [&] { return add_candidate(run.candidates, std::move(candidate), judging, run.result.notes), true; };
  if (!within_memory(run, add)) note(run, fmt::format("{}: not judged: {}", name_of(ask), run.refusal->what()));
  return *found;
}

// Makes a plan that takes no time, for a budget that ends before there is any other.
void insure(Run& run) {
  const SearchChoice rule = parse_search("data-parallel");
  Budget part = run.budget;
  part.deadline = run.watch.deadline;
  try {
    run.candidates.unjudged.push_back({"data-parallel", *rule.entry->search(run.problem, part, run.rng).plan});
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug) throw;
  }
}

SearchResult solve_jointly(Run& run) {
  const SearchChoice exact = parse_search("exact");
  Ask ask{exact.entry, exact.options, std::nullopt, kLastRank, 0};
  if (run.problem.in_time()) ask.steps = kStepsInTime;
  tell(run, "exact, the joint problem");
  SearchResult solved = consider(run, ask, run.watch, run.watch, kJointShare);
  run.result.notes.insert(run.result.notes.end(), solved.notes.begin(), solved.notes.end());
  run.result.counters = solved.counters;
  run.result.proof = solved.proof;
  return solved;
}

// The searches that are quick on the problem, those first that take least.
std::vector<Ask> asks_of(const Run& run) {
  std::vector<Ask> asks;
  int rank = 0;
  for (const SearchEntry& entry : searches()) {
    if (!entry.begins_auto.work) continue;
    for (const auto& options : options_for_auto(entry, run.problem.cluster)) {
      Problem its = run.problem;
      its.options = options;
      asks.push_back({&entry, options, std::nullopt, ++rank, entry.begins_auto.work(its)});
    }
  }
  // In time, where nothing overlaps in the network, the plan of fewest bytes may be faster.
  if (const SearchChoice exact = parse_search("exact"); run.problem.in_time())
    asks.push_back({exact.entry, exact.options, Objective::kComm, ++rank, kCommWork, kStepsInTime});
  // Of equals in time, those behind first: stage 3 of zero, whose plan fits where others do not.
  if (run.problem.in_time()) std::reverse(asks.begin(), asks.end());
  std::stable_sort(asks.begin(), asks.end(), [](const Ask& a, const Ask& b) { return a.work < b.work; });
  return asks;
}

// From `from` on, as long as the watch lasts: how many were asked.
size_t ask_from(Run& run, const std::vector<Ask>& asks, size_t from, const Watch& watch) {
  for (; from < asks.size() && !watch.ended(); ++from) {
    if (asks[from].work > kTold) tell(run, name_of(asks[from]));
    consider(run, asks[from], watch, watch);
  }
  run.memory.begin();
  return from;
}

// In time, plans of the SOAP space.
void ask_soap(Run& run) {
  if (!is_for_a_walk(run.problem)) return;
  const SearchChoice soap = parse_search("soap");
  tell(run, "soap, ops on different devices");
  const SearchResult found =
      consider(run, {soap.entry, soap.options, std::nullopt, kLastRank, 0}, run.watch.share(kSoapShare), run.watch);
  run.result.local_lower_bound_ns = found.local_lower_bound_ns;
  for (const std::string& of_soap : found.notes)  // a bound of its space
    if (of_soap.starts_with("lower bound")) run.result.notes.push_back("soap: " + of_soap);
  run.memory.begin();
}

// In time, placements of whole operations.
void ask_placement(Run& run) {
  if (!can_be_placed(run.problem)) return;
  const SearchChoice placement = parse_search("placement");
  tell(run, "placement, whole ops on devices");
  run.whole_ops_ns = consider(run, {placement.entry, placement.options, std::nullopt, kLastRank, 0, kStepsOfPlacement},
                              run.watch.share(kPlacementShare), run.watch)
                         .lower_bound_step_ns;
  run.memory.begin();
}

// In time the rules come first: their plans take a part of a second, and one of them may be all that a limit has time
// for. In bytes the joint problem does.
SearchResult solve_and_ask(Run& run) {
  std::vector<Ask> asks = asks_of(run);
  size_t asked = 0;
  if (run.problem.in_time()) {
    const auto slow = std::stable_partition(asks.begin(), asks.end(),
                                            [](const Ask& a) { return a.entry->sharing && a.work < kQuickWork; });
    const std::vector<Ask> quick(asks.begin(), slow);
    tell(run, fmt::format("{} plans of rules", quick.size()));
    asked = ask_from(run, quick, 0, run.watch.share(kQuickShare));
    ask_soap(run);
    ask_placement(run);
  }
  SearchResult joint = solve_jointly(run);
  tell(run, fmt::format("{} plans of rules and published searches", asks.size() - asked));
  const Watch watch = run.watch.share(kBeginShare);
  asked = ask_from(run, asks, asked, watch);
  if (asked < asks.size())
    run.result.notes.push_back(
        fmt::format("{} and those after it were not asked: {}", name_of(asks[asked]),
                    run.budget.stopped() ? "interrupted" : "their share of the time had passed"));
  return joint;
}

// The first candidate from `best` on that fits and can be refined: in time the best may leave devices idle. Else
// `best`.
size_t to_refine(Run& run, size_t best) {
  const std::vector<size_t> order = by_cost(run.candidates);
  for (auto i = std::find(order.begin(), order.end(), best); i != order.end(); ++i)
    if (refined(run.candidates.judged[*i].plan, run.problem.cluster) &&
        fits(run.candidates, run.candidates.judged[*i], run.watch))
      return *i;
  return best;
}

// Refines a candidate that fits, which is the best one if that can be refined.
Refinement refine_first(Run& run, size_t best) {
  const size_t begun = to_refine(run, best);
  const Candidate& first = run.candidates.judged[begun];
  if (!refined(first.plan, run.problem.cluster)) return {std::nullopt, first.cost, 0};
  const Candidate& least = run.candidates.judged[best];
  if (static_cast<double>(first.cost) > kTooFar * static_cast<double>(least.cost)) {
    note(run, fmt::format("{} is not refined: {}, and {} of {} has ops on different devices", first.from,
                          cost_text(run.problem, first.cost), cost_text(run.problem, least.cost), least.from));
    return {std::nullopt, first.cost, 0};
  }
  std::vector<Plan> others;
  for (size_t i : by_cost(run.candidates))
    if (i != begun) others.push_back(run.candidates.judged[i].plan);
  solver::Options solving;
  solving.seed = run.rng.next();
  solving.stop = run.watch.stop;
  solving.deadline = run.watch.deadline;
  solving.max_steps = kRefineRounds;
  solving.gap = kGap;
  solving.certify = false;
  tell(run, fmt::format("refines the plan of {}: {}", first.from, cost_text(run.problem, first.cost)));
  auto told = Watch::Clock::now();
  Refinement refinement = refine(
      run.problem, first.plan, first.cost, others, solving,
      [&](const Refinement& now) {
        if (Watch::Clock::now() - told < std::chrono::seconds(1)) return;
        told = Watch::Clock::now();
        tell(run, fmt::format("neighbourhood {}: {}", now.neighbourhoods, cost_text(run.problem, now.cost)));
      },
      run.watch.deadline ? std::numeric_limits<int64_t>::max() : kEntries);
  run.result.notes.push_back(fmt::format("{} refined in {} neighbourhoods: {}", first.from, refinement.neighbourhoods,
                                         cost_text(run.problem, refinement.cost)));
  return refinement;
}

Refinement refine_best(Run& run, size_t best) {
  auto refinement = within_memory(run, [&] { return refine_first(run, best); });
  if (refinement ? run.memory.over() : run.refusal->code() != ExitCode::kTimeLimit && !run.budget.stopped())
    note(run, fmt::format("refining: {}", refinement ? too_large(run).what() : run.refusal->what()));
  run.memory.begin();
  return refinement.value_or(Refinement{std::nullopt, run.candidates.judged[best].cost, 0});
}

void nothing_fits(Run& run, const SearchResult& joint) {
  if (run.candidates.judged.empty() && !run.budget.stopped()) throw *run.refusal;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Candidate& c : run.candidates.judged) least = std::min(least, c.deficit_bytes.value_or(least));
  if (run.budget.stopped())
    throw Error(ExitCode::kInterrupted, "auto: interrupted before any plan was found that fits");
  if (run.watch.ended())
    throw Error(ExitCode::kTimeLimit,
                fmt::format("auto: the time limit passed before any plan was found that fits; {} were looked at",
                            run.candidates.judged.size()));
  run.result.reason = fmt::format("of {} plans looked at, the leanest needs more bytes than a device has ({} missing)",
                                  run.candidates.judged.size(), megabytes(static_cast<double>(least)));
  if (!joint.reason.empty()) run.result.reason += "; exact: " + joint.reason;
}

// The plan that a rule makes; none: it does not apply.
std::optional<Plan> rule_plan(const Run& run, const Ask& ask, const Watch& watch) {
  Problem its = run.problem;
  its.options = ask.options;
  Budget budget;
  budget.stop = watch.stop;
  budget.deadline = watch.deadline;
  Rng same = run.rng;
  try {
    return ask.entry->search(its, budget, same).plan;
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug || is_end(e)) throw;
    return std::nullopt;
  }
}

// Rules with options that auto does not begin with, those of fewest options first.
std::vector<FurtherRule> further_rules(const Run& run, const Watch& watch) {
  std::vector<Ask> asks;
  for (const SearchEntry& entry : searches())
    for (auto& options : further_options(entry, run.problem)) asks.push_back({&entry, std::move(options)});
  const auto given = [](const Ask& ask) {
    const auto defaults = default_options(*ask.entry);
    return std::ranges::count_if(ask.options, [&](const auto& option) {
      return !defaults.contains(option.first) || defaults.at(option.first) != option.second;
    });
  };
  std::ranges::stable_sort(asks, {}, given);
  std::vector<FurtherRule> further;
  for (const Ask& ask : asks)
    further.push_back({name_of(ask), [&run, &watch, ask] { return rule_plan(run, ask, watch); }});
  return further;
}

// Of the rules' plans, the one to name beside a plan of fewer bytes.
void time_rules(Run& run) {
  tell(run, "times the plans of rules");
  const Watch watch = run.watch.share(kTimingShare);
  run.result.fastest_rule =
      within_memory(run, [&] {
        return fastest_rule(run.candidates, further_rules(run, watch), kTimingRules, watch, run.result.notes);
      }).value_or(std::nullopt);
  run.memory.begin();
}

void finish(Run& run, size_t best, const SearchResult& joint) {
  Refinement refinement = refine_best(run, best);
  if (!refinement.plan || refinement.cost > run.candidates.judged[best].cost)
    refinement = {run.candidates.judged[best].plan, run.candidates.judged[best].cost, 0};
  run.result.plan = std::move(refinement.plan);
  if (places_whole_ops(*run.result.plan)) run.result.lower_bound_step_ns = run.whole_ops_ns;
  const auto& bound = run.problem.in_time() ? joint.lower_bound_serial_ns : joint.lower_bound_comm_bytes;
  if (!bound) return;
  const int64_t bounded =
      run.problem.in_time() ? serial_ns(run.problem.graph, *run.result.plan, run.problem.cluster) : refinement.cost;
  if (*bound <= bounded)
    (run.problem.in_time() ? run.result.lower_bound_serial_ns : run.result.lower_bound_comm_bytes) = bound;
  else run.result.notes.push_back("no lower bound: the plan lies outside of the space that exact's holds for");
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  // What a device type or a group is said of is placed whole.
  if (has_device_types(problem.graph)) return parse_search("placement").entry->search(problem, budget, rng);
  if (problem.cluster.compute_count == 1) return parse_search("single").entry->search(problem, budget, rng);
  MemoryWatch memory(budget.stop);
  Run run{problem, budget, memory, {budget.watch().deadline, memory.stop()}, rng, {problem, holds_any_plan(problem)}};
  if (problem.from && keeps(problem.pins, *problem.from)) {
    Plan plan = *problem.from;
    plan.paper_cost.reset();  // another search's
    add_candidate(run.candidates, {"the plan that it began with", std::move(plan)}, run.watch, run.result.notes);
  }
  insure(run);
  const SearchResult joint = solve_and_ask(run);
  const auto best = best_that_fits(run.candidates, run.watch);
  if (!best) nothing_fits(run, joint);
  if (best && !problem.in_time()) time_rules(run);
  if (best) finish(run, *best, joint);
  return std::move(run.result);
}

}  // namespace

SearchEntry auto_search() {
  return {.name = "auto",
          .source = "ours",
          .summary =
              "the best of what is quick here and of the joint problem, refined on a mesh with an axis for every "
              "prime factor; with a proved lower bound where it has one",
          .search = search,
          .warm = true,
          .proves = true,
          .places = true};
}

}  // namespace partita

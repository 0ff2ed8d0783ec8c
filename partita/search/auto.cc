// `auto`: the best that the searches here can do together.
//
// It solves the joint problem (`exact`), asks the searches that are quick on the problem (SearchEntry::begins_auto),
// and refines the best plan that fits. The refined mesh has an axis for every prime factor, so all that the recursions
// can reach lies on it too. The result is never dearer than what it began with. The lower bound is that of `exact`,
// where the plan is in its space.
#include <algorithm>
#include <limits>

#include "partita/base/error.h"
#include "partita/base/units.h"
#include "partita/cost/alone.h"
#include "partita/search/candidates.h"
#include "partita/search/judge.h"
#include "partita/search/refine.h"
#include "partita/search/search_text.h"

namespace partita {

namespace {

constexpr int64_t kRefineRounds = 20;  // of the solver, for a neighbourhood
constexpr double kGap = 1e-4;
// Parts of the time that is left. The joint problem has nearly all until it is settled, since `auto` is to be no dearer
// than `exact` within the same limit. What is settled sooner leaves the rest to the others.
constexpr double kJointShare = 0.9, kBeginShare = 0.4;
constexpr int64_t kEntries = 100'000'000;   // of the neighbourhoods' tables, where no time is given
constexpr double kTold = 1, kCommWork = 1;  // seconds

// A search that is asked for a plan to begin with, as if it were asked alone.
struct Ask {
  const SearchEntry* entry = nullptr;
  std::map<std::string, std::string> options;
  std::optional<Objective> objective;  // where it is another than the problem's
  int rank = 0;
  double work = 0;  // about how long it takes (SearchEntry::begins_auto)
};

// One call of `auto`.
struct Run {
  const Problem& problem;
  const Budget& budget;
  const Watch watch;
  Rng& rng;
  Candidates candidates;
  SearchResult result = {};
  std::optional<Error> refusal = {};  // the last
};

void tell(const Run& run, const std::string& what) {
  if (run.problem.tell) run.problem.tell("auto: " + what);
}

std::string name_of(const Ask& ask) {
  return text_of({ask.entry, ask.options}) + (ask.objective ? " of " + text_of(*ask.objective) : "");
}

// Asks one search within the watch, and adds its plan to the candidates.
SearchResult consider(Run& run, const Ask& ask, const Watch& watch, double share = 1) {
  Problem its = run.problem;
  its.options = ask.options;
  if (ask.objective) {
    its.objective = *ask.objective;
    its.prove = false;
    its.progress = nullptr;
  }
  Budget part = run.budget;
  part.deadline = watch.deadline;
  part.share = share;
  const bool is_exact = ask.entry->proves;
  if (!is_exact) part.steps.reset();  // theirs are others than the joint problem's
  Rng same = run.rng;                 // as if it were asked alone
  SearchResult found;
  try {
    if (ask.entry->begins_auto.quick && !ask.entry->begins_auto.quick(its, part)) return found;
    found = ask.entry->search(its, part, same);
    if (!found.plan) run.refusal = Error(ExitCode::kInfeasible, found.reason);
  } catch (const Error& e) {
    if (e.code() == ExitCode::kBug) throw;
    run.refusal = e;
  }
  if (!found.plan) {
    run.result.notes.push_back(fmt::format("{}: no plan: {}", name_of(ask), run.refusal->what()));
    return found;
  }
  Candidate candidate{name_of(ask), *found.plan, ask.rank};
  if (is_exact) candidate.missing_bytes = 0;  // it looks
  add_candidate(run.candidates, std::move(candidate), watch, run.result.notes);
  return found;
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
  tell(run, "exact, the joint problem");
  SearchResult solved = consider(run, ask, run.watch, kJointShare);
  run.result.notes.insert(run.result.notes.end(), solved.notes.begin(), solved.notes.end());
  run.result.counters = solved.counters;
  run.result.proof = solved.proof;
  return solved;
}

// Asks the searches that are quick on the problem, those first that take least.
void begin(Run& run) {
  std::vector<Ask> asks;
  const Watch watch = run.watch.share(kBeginShare);
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
    asks.push_back({exact.entry, exact.options, Objective::kComm, ++rank, kCommWork});
  std::stable_sort(asks.begin(), asks.end(), [](const Ask& a, const Ask& b) { return a.work < b.work; });
  tell(run, fmt::format("{} plans of rules and published searches", asks.size()));
  for (const Ask& ask : asks) {
    if (watch.ended()) {
      run.result.notes.push_back(fmt::format("{} and those after it were not asked: {}", name_of(ask),
                                             watch.stopped() ? "interrupted" : "their share of the time had passed"));
      break;
    }
    if (ask.work > kTold) tell(run, name_of(ask));
    consider(run, ask, watch);
  }
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
Refinement refine_best(Run& run, size_t best) try {
  const size_t begun = to_refine(run, best);
  const Candidate& first = run.candidates.judged[begun];
  if (!refined(first.plan, run.problem.cluster)) return {std::nullopt, first.cost, 0};
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
} catch (const Error& e) {
  if (!is_end(e)) throw;
  return {std::nullopt, run.candidates.judged[best].cost, 0};
}

void nothing_fits(Run& run, const SearchResult& joint) {
  if (run.candidates.judged.empty() && !run.budget.stopped()) throw *run.refusal;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Candidate& c : run.candidates.judged) least = std::min(least, c.missing_bytes.value_or(least));
  if (run.watch.stopped()) throw Error(ExitCode::kInterrupted, "auto: interrupted before any plan was found that fits");
  if (run.watch.ended())
    throw Error(ExitCode::kTimeLimit,
                fmt::format("auto: the time limit passed before any plan was found that fits; {} were looked at",
                            run.candidates.judged.size()));
  run.result.reason = fmt::format("of {} plans looked at, the leanest needs more bytes than a device has ({} missing)",
                                  run.candidates.judged.size(), megabytes(static_cast<double>(least)));
  if (!joint.reason.empty()) run.result.reason += "; exact: " + joint.reason;
}

void finish(Run& run, size_t best, const SearchResult& joint) {
  Refinement refinement = refine_best(run, best);
  if (!refinement.plan || refinement.cost > run.candidates.judged[best].cost)
    refinement = {run.candidates.judged[best].plan, run.candidates.judged[best].cost, 0};
  run.result.plan = std::move(refinement.plan);
  const auto& bound = run.problem.in_time() ? joint.lower_bound_serial_ns : joint.lower_bound_comm_bytes;
  if (!bound) return;
  const int64_t bounded =
      run.problem.in_time() ? serial_ns(run.problem.graph, *run.result.plan, run.problem.cluster) : refinement.cost;
  if (*bound <= bounded)
    (run.problem.in_time() ? run.result.lower_bound_serial_ns : run.result.lower_bound_comm_bytes) = bound;
  else run.result.notes.push_back("no lower bound: the plan lies outside of the space that exact's holds for");
}

SearchResult search(const Problem& problem, const Budget& budget, Rng& rng) {
  if (problem.cluster.compute_count == 1) return parse_search("single").entry->search(problem, budget, rng);
  Run run{problem, budget, budget.watch(), rng, {problem, holds_any_plan(problem)}};
  if (problem.from && keeps(problem.pins, *problem.from)) {
    Plan plan = *problem.from;
    plan.paper_cost.reset();  // another search's
    add_candidate(run.candidates, {"the plan that it began with", std::move(plan)}, run.watch, run.result.notes);
  }
  insure(run);
  const SearchResult joint = solve_jointly(run);
  begin(run);
  if (const auto best = best_that_fits(run.candidates, run.watch)) finish(run, *best, joint);
  else nothing_fits(run, joint);
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
          .proves = true};
}

}  // namespace partita

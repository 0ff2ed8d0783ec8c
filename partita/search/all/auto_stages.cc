// What the stages of `auto` do, in their order.
#include "partita/search/all/auto_stages.h"

#include <algorithm>
#include <limits>

#include "partita/base/attempt.h"
#include "partita/base/units.h"
#include "partita/cost/isolated_costs.h"
#include "partita/search/all/fastest_rule.h"
#include "partita/search/all/searches.h"

namespace partita {

namespace {

// Parts of the time that is left. The joint problem has nearly all until it is settled, so that `auto` costs no more
// than it does alone within the same limit. If it is settled sooner, the others have the rest.
constexpr double kJointShare = 0.9, kInitialShare = 0.4;
constexpr double kQuickShare = 0.25;           // of rules before the joint problem
constexpr double kQuickWork = 2;               // seconds, at most, of each of these rules
constexpr double kToldWork = 1;                // seconds, from which on a call is told
constexpr double kTimingShare = 0.2;           // for find_fastest_rule()
constexpr RuleSeconds kTimingRules{1.5, 0.5};  // at most
constexpr double kTooFar = 1.25;  // times the best cost: what is refined from there on hardly becomes the best

const SearchEntry* joint_entry() {
  return first_with([](const AutoOffer& offers) { return offers.joint.is_offered; });
}

}  // namespace

bool always(const AutoRun&) { return true; }
bool has_initial_plan(const AutoRun& run) { return run.problem.from != nullptr; }
bool is_in_time(const AutoRun& run) { return run.problem.in_time(); }
bool has_best(const AutoRun& run) { return run.best.has_value(); }
bool has_best_of_bytes(const AutoRun& run) { return has_best(run) && !is_in_time(run); }

// ---------------------------------------------------------------- before any call

void hand_over(AutoRun& run) {
  for (const SearchEntry& entry : searches()) {
    if (!entry.offers.takes_over || !entry.offers.takes_over(run.problem)) continue;
    Problem its = run.problem;
    its.options = default_options(entry);
    run.result = entry.search(its, run.budget, run.rng);
    run.ended = true;
    return;
  }
}

void add_initial_plan(AutoRun& run) {
  if (std::optional<Plan> plan = initial_plan(run.problem))
    add_candidate(run.candidates, {"the plan that it began with", std::move(*plan)}, run.watch, run.result.notes);
}

void make_fallback(AutoRun& run) {
  const SearchEntry* entry = first_with([](const AutoOffer& offers) { return offers.is_fallback; });
  if (!entry) return;
  Problem its = run.problem;
  its.options = default_options(*entry);
  Budget part = run.budget;
  part.deadline = run.watch.deadline;
  Attempt<SearchResult> made = attempt([&] { return entry->search(its, part, run.rng); });
  if (made.result && made.result->plan)
    run.candidates.not_evaluated.push_back({entry->name, std::move(*made.result->plan)});
}

// ---------------------------------------------------------------- plans of other searches

void list_initial_plans(AutoRun& run) {
  std::vector<SearchCall>& calls = run.initial;
  int rank = 0;
  for (const SearchEntry& entry : searches()) {
    // The plan of fewest bytes may be the faster one, since nothing overlaps in the joint problem's network.
    if (entry.offers.joint.is_offered && run.problem.in_time())
      calls.push_back({&entry, default_options(entry), Objective::kComm, ++rank, entry.offers.joint.bytes_work});
    if (!entry.offers.initial.work) continue;
    for (const auto& options : options_for_auto(entry, run.problem.cluster)) {
      Problem its = run.problem;
      its.options = options;
      calls.push_back({&entry, options, std::nullopt, ++rank, entry.offers.initial.work(its)});
    }
  }
  // Of equals in time, later ones first: stage 3 of zero, whose plan fits if those of other stages do not.
  if (run.problem.in_time()) std::reverse(calls.begin(), calls.end());
  std::ranges::stable_sort(calls, {}, &SearchCall::work);
}

namespace {

// The calls from run.called on, `count` of them at most, until the watch ends.
void call_next(AutoRun& run, size_t count, const Watch& watch) {
  for (const size_t end = run.called + count; run.called < end && !watch.ended(); ++run.called) {
    const SearchCall& call = run.initial[run.called];
    if (call.work > kToldWork) tell_progress(run, name_of(call));
    call_search(run, call, {watch, watch});
  }
  run.memory.begin();
}

}  // namespace

void call_quick_rules(AutoRun& run) {
  const auto is_quick = [](const SearchCall& call) { return call.entry->sharing && call.work < kQuickWork; };
  const auto slow = std::stable_partition(run.initial.begin(), run.initial.end(), is_quick);
  const auto quick = static_cast<size_t>(slow - run.initial.begin());
  tell_progress(run, fmt::format("{} plans of rules", quick));
  call_next(run, quick, run.watch.share(kQuickShare));
}

namespace {

void call_within_share(AutoRun& run, const SearchEntry& entry) {
  const TimeShare& share = entry.offers.share;
  tell_progress(run, fmt::format("{}, {}", entry.name, entry.offers.about));
  const SearchResult found =
      call_search(run, {&entry, default_options(entry)}, {run.watch.share(share.of_time), run.watch});
  if (share.bounds && found.lower_bound_step_ns) run.step_bounds.push_back({share.bounds, *found.lower_bound_step_ns});
  if (found.local_lower_bound_ns) {
    run.result.local_lower_bound_ns = found.local_lower_bound_ns;
    run.result.notes.push_back(fmt::format("{}: {}", entry.name, found.local_lower_bound_note));
  }
  run.memory.begin();
}

}  // namespace

void call_within_shares(AutoRun& run) {
  std::vector<const SearchEntry*> sharing;
  for (const SearchEntry& entry : searches())
    if (const TimeShare& share = entry.offers.share; share.of_time > 0 && share.applies(run.problem))
      sharing.push_back(&entry);
  std::ranges::stable_sort(sharing, std::greater{},
                           [](const SearchEntry* entry) { return entry->offers.share.of_time; });
  for (const SearchEntry* entry : sharing) call_within_share(run, *entry);
}

void solve_joint_problem(AutoRun& run) {
  const SearchEntry* entry = joint_entry();
  if (!entry) return;
  tell_progress(run, fmt::format("{}, {}", entry->name, entry->offers.about));
  const SearchResult& solved =
      run.joint.emplace(call_search(run, {entry, default_options(*entry)}, {run.watch, run.watch, kJointShare}));
  run.result.notes.insert(run.result.notes.end(), solved.notes.begin(), solved.notes.end());
  run.result.counters = solved.counters;
  run.result.proof = solved.proof;
}

void call_for_initial_plans(AutoRun& run) {
  const size_t left = run.initial.size() - run.called;
  tell_progress(run, fmt::format("{} plans of rules and published searches", left));
  call_next(run, left, run.watch.share(kInitialShare));
  if (run.called < run.initial.size())
    run.result.notes.push_back(
        fmt::format("{} and those after it were not asked: {}", name_of(run.initial[run.called]),
                    run.budget.stopped() ? "interrupted" : "their share of the time had passed"));
}

// ---------------------------------------------------------------- the best of them

namespace {

// Throws if the budget ended before a plan was found that fits. Else the reason why there is none.
std::string why_none_fits(const AutoRun& run) {
  const std::vector<Candidate>& all = run.candidates.evaluated;
  if (run.budget.stopped())
    throw Error(ExitCode::kInterrupted, "auto: interrupted before any plan was found that fits");
  if (all.empty()) throw *run.refusal;
  if (run.watch.ended())
    throw Error(
        ExitCode::kTimeLimit,
        fmt::format("auto: the time limit passed before any plan was found that fits; {} were looked at", all.size()));
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Candidate& c : all) least = std::min(least, c.evaluation.memory_deficit.value_or(least));
  std::string reason = fmt::format("of {} plans looked at, the leanest needs more bytes than a device has ({} missing)",
                                   all.size(), megabytes(static_cast<double>(least)));
  if (run.joint && !run.joint->reason.empty())
    reason += fmt::format("; {}: {}", joint_entry()->name, run.joint->reason);
  return reason;
}

}  // namespace

void choose_best(AutoRun& run) {
  run.best = best_that_fits(run.candidates, run.watch);
  if (!run.best) run.result.reason = why_none_fits(run);
}

namespace {

// Rules with options that are not among the initial plans, those with fewest options first.
std::vector<FurtherRule> further_rules(const AutoRun& run, const Watch& watch) {
  std::vector<SearchCall> calls;
  for (const SearchEntry& entry : searches())
    for (auto& options : further_options(entry, run.problem)) calls.push_back({&entry, std::move(options)});
  std::ranges::stable_sort(calls, {}, [](const SearchCall& call) {
    const auto defaults = default_options(*call.entry);
    return std::ranges::count_if(call.options, [&](const auto& option) {
      return !defaults.contains(option.first) || defaults.at(option.first) != option.second;
    });
  });
  std::vector<FurtherRule> further;
  for (const SearchCall& call : calls)
    further.push_back({name_of(call), [&run, &watch, call] { return rule_plan(run, call, watch); }});
  return further;
}

}  // namespace

void find_fastest_rule(AutoRun& run) {
  tell_progress(run, "times the plans of rules");
  const Watch watch = run.watch.share(kTimingShare);
  run.result.fastest_rule =
      within_memory(run, [&] {
        return fastest_rule(run.candidates, further_rules(run, watch), kTimingRules, watch, run.result.notes);
      }).value_or(std::nullopt);
  run.memory.begin();
}

// ---------------------------------------------------------------- refining

namespace {

// The first candidate from the best on that fits and can be refined, as plans that leave devices idle cannot. Else the
// best.
size_t to_refine(AutoRun& run, const Refiner& refiner) {
  const std::vector<size_t> order = by_cost(run.candidates);
  for (auto i = std::ranges::find(order, *run.best); i != order.end(); ++i)
    if (Candidate& candidate = run.candidates.evaluated[*i];
        refiner.applies(candidate.plan, run.problem.cluster) && fits(run.candidates, candidate, run.watch))
      return *i;
  return *run.best;
}

// Tells of neighbourhoods once a second.
std::function<void(const Refinement&)> tell_now_and_then(const AutoRun& run) {
  return [&run, told = Watch::Clock::now()](const Refinement& now) mutable {
    if (Watch::Clock::now() - told < std::chrono::seconds(1)) return;
    told = Watch::Clock::now();
    tell_progress(run, fmt::format("neighbourhood {}: {}", now.neighbourhoods, cost_text(run.problem, now.cost)));
  };
}

Refinement refined_plan(AutoRun& run, const Refiner& refiner) {
  const size_t begun = to_refine(run, refiner);
  const Candidate& first = run.candidates.evaluated[begun];
  Refinement none{.cost = first.cost()};
  if (!refiner.applies(first.plan, run.problem.cluster)) return none;
  const Candidate& least = run.candidates.evaluated[*run.best];
  if (static_cast<double>(first.cost()) > kTooFar * static_cast<double>(least.cost())) {
    tell_and_note(run,
                  fmt::format("{} is not refined: {}, and {} of {} has ops on different devices", first.from,
                              cost_text(run.problem, first.cost()), cost_text(run.problem, least.cost()), least.from));
    return none;
  }
  std::vector<Plan> others;
  for (size_t i : by_cost(run.candidates))
    if (i != begun) others.push_back(run.candidates.evaluated[i].plan);
  tell_progress(run, fmt::format("refines the plan of {}: {}", first.from, cost_text(run.problem, first.cost())));
  Refinement refinement =
      refiner.refine({run.problem, first.plan, first.cost(), others, run.watch, tell_now_and_then(run)}, run.rng);
  run.result.notes.push_back(fmt::format("{} refined in {} neighbourhoods: {}", first.from, refinement.neighbourhoods,
                                         cost_text(run.problem, refinement.cost)));
  return refinement;
}

}  // namespace

void refine_best(AutoRun& run) {
  const Candidate& best = run.candidates.evaluated[*run.best];
  run.result.plan = best.plan;
  run.cost = best.cost();
  const SearchEntry* entry = first_with([](const AutoOffer& offers) { return offers.refiner.refine != nullptr; });
  if (!entry) return;
  auto refinement = within_memory(run, [&] { return refined_plan(run, entry->offers.refiner); });
  if (refinement ? run.memory.over() : run.refusal->code() != ExitCode::kTimeLimit && !run.budget.stopped())
    tell_and_note(run, fmt::format("refining: {}", refinement ? too_large(run).what() : run.refusal->what()));
  run.memory.begin();
  if (!refinement || !refinement->plan || refinement->cost > run.cost) return;
  run.result.plan = std::move(refinement->plan);
  run.cost = refinement->cost;
}

void pass_bounds_on(AutoRun& run) {
  SearchResult& result = run.result;
  for (const StepBound& bound : run.step_bounds)
    if (bound.bounds(*result.plan)) result.lower_bound_step_ns = bound.ns;
  if (!run.joint) return;
  const bool in_time = run.problem.in_time();
  const auto bound_of = [&](SearchResult& of) -> std::optional<int64_t>& {
    return in_time ? of.lower_bound_serial_ns : of.lower_bound_comm_bytes;
  };
  const std::optional<int64_t> bound = bound_of(*run.joint);
  if (!bound) return;
  const int64_t bounded = in_time ? serial_ns(run.problem.graph, *result.plan, run.problem.cluster) : run.cost;
  if (*bound <= bounded) bound_of(result) = bound;
  else
    result.notes.push_back(
        fmt::format("no lower bound: the plan lies outside of the space that {}'s holds for", joint_entry()->name));
}

}  // namespace partita
